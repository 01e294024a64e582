//! The slots of the index: what a page of them holds, and how each is written.

use std::collections::BTreeSet;

use crate::net::Cidr;

/// The size of a page, in bytes.
pub(super) const PAGE_BYTES: usize = 4096;
/// The size of a slot, in bytes. It is written at once, within one sector.
pub(super) const SLOT_BYTES: usize = 64;
/// The slots of a page.
pub(super) const SLOTS: usize = PAGE_BYTES / SLOT_BYTES;
/// How many blocks of one handle have slots of their own. Half a page, so that a larger table always helps.
const BLOCKS_PER_HANDLE_MAX: usize = SLOTS / 2;

/// A slot in use; without a block: too many to list.
pub(super) type Slot = (u64, Option<Cidr>);

/// The slots of a page; more than it has room for once too much was added.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// Without a slot: it is free.
    pub(super) slots: Vec<Option<Slot>>,
    /// Which of them must be written.
    pub(super) changed: BTreeSet<usize>,
}

impl Page {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let slots = bytes.chunks(SLOT_BYTES).map(parse_slot);
        Some(Self { slots: slots.collect::<Result<_, _>>().ok()?, changed: BTreeSet::new() })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        for place in 0..SLOTS {
            bytes.extend_from_slice(&slot_bytes(self.slots.get(place).copied().flatten()));
        }
        bytes
    }

    pub(super) fn add(&mut self, hash: u64, cidr: Cidr) {
        let of_handle: Vec<Slot> =
            self.slots.iter().flatten().filter(|slot| slot.0 == hash).copied().collect();
        if of_handle.iter().any(|slot| slot.1.is_none_or(|known| known == cidr)) {
            return;
        }
        if of_handle.len() >= BLOCKS_PER_HANDLE_MAX {
            self.add_many(hash);
        } else {
            self.put((hash, Some(cidr)));
        }
    }

    pub(super) fn remove(&mut self, hash: u64, cidr: Cidr) {
        let found = self.slots.iter().position(|slot| *slot == Some((hash, Some(cidr))));
        if let Some(place) = found {
            self.slots[place] = None;
            self.changed.insert(place);
        }
    }

    /// Replaces the slots of a handle by the one that says that they are too many.
    pub(super) fn add_many(&mut self, hash: u64) {
        for (place, slot) in self.slots.iter_mut().enumerate() {
            if slot.is_some_and(|slot| slot.0 == hash) {
                *slot = None;
                self.changed.insert(place);
            }
        }
        self.put((hash, None));
    }

    fn put(&mut self, slot: Slot) {
        let free = self.slots.iter().position(Option::is_none);
        let place = free.unwrap_or(self.slots.len());
        match self.slots.get_mut(place) {
            Some(free) => *free = Some(slot),
            None => self.slots.push(Some(slot)),
        }
        self.changed.insert(place);
    }
}

/// A slot as it is written.
pub(super) fn slot_bytes(slot: Option<Slot>) -> Vec<u8> {
    let mut line = match slot {
        None => Vec::new(),
        Some((hash, None)) => format!("{hash:016x} *").into_bytes(),
        Some((hash, Some(cidr))) => format!("{hash:016x} {cidr}").into_bytes(),
    };
    line.resize(SLOT_BYTES - 3, b' ');
    let check = match slot {
        None => "  ".to_owned(),
        Some(_) => format!("{:02x}", sum(&line)),
    };
    line.extend_from_slice(check.as_bytes());
    line.push(b'\n');
    line
}

/// Changes with any one bit of a slot.
fn sum(text: &[u8]) -> u8 {
    text.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

/// Whether a line is as some slot was written, as far as its sum tells.
pub(super) fn is_intact(line: &[u8]) -> bool {
    let Some((text, check)) = line.split_at_checked(SLOT_BYTES - 3) else {
        return false;
    };
    let digit = |value: u8| b"0123456789abcdef".get(usize::from(value)).copied();
    let sum = sum(text);
    match check {
        [b' ', b' ', b'\n'] => text.iter().all(|&byte| byte == b' '),
        [high, low, b'\n'] => digit(sum >> 4) == Some(*high) && digit(sum & 15) == Some(*low),
        _ => false,
    }
}

/// That a line is no slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoSlot;

/// Reads a slot; `None`: it is free.
pub(super) fn parse_slot(line: &[u8]) -> Result<Option<Slot>, NoSlot> {
    let text = line.get(..SLOT_BYTES - 3).filter(|_| is_intact(line));
    let text = str::from_utf8(text.ok_or(NoSlot)?).map_err(|_| NoSlot)?;
    let text = text.trim_end_matches(' ');
    if text.is_empty() {
        return Ok(None);
    }
    let (hash, block) = text.split_once(' ').ok_or(NoSlot)?;
    let block = match block {
        "*" => None,
        block => Some(block.parse().map_err(|_| NoSlot)?),
    };
    let hash = u64::from_str_radix(hash, 16).map_err(|_| NoSlot)?;
    Ok(Some((hash, block)))
}
