//! The file `index`: a table that finds the blocks of a handle with one read.
//!
//! A page of words about the table, then pages of 4 KiB with 64 slots of 64 bytes:
//! `<hash of the handle: 16 hex> <block> … <sum: 2 hex>`; blank is free. A handle's page is its hash modulo their number.
//! It is derived. It bears a number, which the journal's header repeats: the generation that the cut began which last
//! changed it, and the checksum of the last record before that cut. So a table that is missing, cut short, altered, or
//! of another history than the journal (a backup that was put back) is noticed by that, or by the sum of a slot, and
//! built again from the blocks. A table of format 1 (`HAX1`) bears the generation alone. A handle in very many blocks has one slot with `*`, and all blocks are looked at for it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;

use nix::fcntl::OFlag;

use super::dir::Dir;
use super::handles::HandleMap;
use super::journal::Journal;
use super::layout::{INDEX, TEMPORARY};
use super::open_file::{OpenFile, io_error};
use super::slots::{NoSlot, PAGE_BYTES, Page, SLOT_BYTES, SLOTS, Slot, is_intact, parse_slot, slot_bytes};
use crate::datastore::{Error, Verb};
use crate::net::Cidr;

/// A new table has at least so many pages: room for about 130 handles.
const PAGES_MIN: u64 = 4;
/// No table has more pages: 1 GiB, for 8 million handles.
const PAGES_MAX: u64 = 1 << 18;

/// What the table says of a handle.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The handle is in these blocks, if anywhere.
    Blocks(BTreeSet<Cidr>),
    /// In too many to list.
    TooMany,
    /// The table is missing, or is not the one that belongs to the journal.
    Unusable,
}

/// Looks a handle up by its hash.
pub(super) fn lookup(dir: &Dir, journal: &Journal, hash: u64) -> Result<Lookup, Error> {
    if journal.header.index == 0 {
        return Ok(Lookup::Blocks(BTreeSet::new()));
    }
    let Some(table) = Table::open(dir, journal, OFlag::O_RDONLY)? else {
        return Ok(Lookup::Unusable);
    };
    let page = table.read_page(hash % table.pages)?;
    let wanted = format!("{hash:016x} ");
    let mut blocks = BTreeSet::new();
    for line in page.chunks(SLOT_BYTES) {
        if !is_intact(line) {
            return Ok(Lookup::Unusable);
        }
        if !line.starts_with(wanted.as_bytes()) {
            continue;
        }
        match parse_slot(line) {
            Ok(Some((_, Some(cidr)))) => blocks.insert(cidr),
            Ok(Some((_, None))) => return Ok(Lookup::TooMany),
            Ok(None) | Err(NoSlot) => return Ok(Lookup::Unusable),
        };
    }
    Ok(Lookup::Blocks(blocks))
}

/// Changes the table: true adds, false removes. `id` is the number that it bears from now on.
///
/// False: the table is unusable, and must be built.
pub(super) fn update(
    dir: &Dir,
    journal: &Journal,
    id: u64,
    changes: &BTreeMap<(u64, Cidr), bool>,
) -> Result<bool, Error> {
    if journal.header.index == 0 {
        let added = changes.iter().filter(|(_, added)| **added);
        let slots: Vec<Slot> = added.map(|((hash, cidr), _)| (*hash, Some(*cidr))).collect();
        build(dir, id, 0, &slots)?;
        return Ok(true);
    }
    let Some(table) = Table::open(dir, journal, OFlag::O_RDWR)? else {
        return Ok(false);
    };
    let mut pages: BTreeMap<u64, Page> = BTreeMap::new();
    for (hash, _) in changes.keys() {
        let number = hash % table.pages;
        if let std::collections::btree_map::Entry::Vacant(vacant) = pages.entry(number) {
            let Some(page) = table.page(number)? else {
                return Ok(false);
            };
            vacant.insert(page);
        }
    }
    // What goes makes room for what comes.
    for wanted in [false, true] {
        for ((hash, cidr), _) in changes.iter().filter(|(_, added)| **added == wanted) {
            let Some(page) = pages.get_mut(&(hash % table.pages)) else {
                return Ok(false);
            };
            if wanted {
                page.add(*hash, *cidr);
            } else {
                page.remove(*hash, *cidr);
            }
        }
    }
    if pages.values().any(|page| page.slots.len() > SLOTS) {
        return table.grow(dir, id, pages);
    }
    for (number, page) in &pages {
        table.write_page(*number, page)?;
    }
    table.write(0, &first_line(id, table.pages))?;
    table.file.file.sync_data().map_err(|source| io_error(Verb::Sync, &table.file.path, source))?;
    Ok(true)
}

/// The slots of a table for all handles.
pub(super) fn entries(map: &HandleMap) -> Vec<Slot> {
    map.iter().flat_map(|(hash, blocks)| blocks.iter().map(|cidr| (*hash, Some(*cidr)))).collect()
}

/// Writes a table, of `pages_min` pages or more, in place of the one there.
pub(super) fn build(dir: &Dir, id: u64, pages_min: u64, slots: &[Slot]) -> Result<(), Error> {
    let half_full = u64::try_from(slots.len() / (SLOTS / 2)).unwrap_or(u64::MAX / 2);
    let mut number = half_full.next_power_of_two().max(pages_min).max(PAGES_MIN);
    let pages = loop {
        if number > PAGES_MAX {
            let source = std::io::Error::other("too many handles have hashes that meet in one page");
            return Err(io_error(Verb::Write, &dir.path_of(INDEX), source));
        }
        match distribute(number, slots) {
            Some(pages) => break pages,
            None => number *= 2,
        }
    };
    let mut content = vec![b' '; PAGE_BYTES];
    for line in content.chunks_mut(SLOT_BYTES) {
        line[SLOT_BYTES - 1] = b'\n';
    }
    content[..SLOT_BYTES].copy_from_slice(&first_line(id, number));
    for page in &pages {
        content.extend_from_slice(&page.to_bytes());
    }
    let temporary = format!("{TEMPORARY}{INDEX}");
    let file = dir.write_new(&temporary, &content)?;
    file.sync_data().map_err(|source| io_error(Verb::Sync, &dir.path_of(&temporary), source))?;
    dir.rename(&temporary, dir, INDEX)?;
    dir.sync()
}

fn distribute(number: u64, slots: &[Slot]) -> Option<Vec<Page>> {
    let mut pages: Vec<Page> = (0..number).map(|_| Page::default()).collect();
    for (hash, block) in slots {
        let page = pages.get_mut(usize::try_from(hash % number).ok()?)?;
        match block {
            Some(cidr) => page.add(*hash, *cidr),
            None => page.add_many(*hash),
        }
        if page.slots.len() > SLOTS {
            return None;
        }
    }
    Some(pages)
}

/// A usable table.
struct Table {
    file: OpenFile,
    pages: u64,
}

impl Table {
    /// `None`: there is none, or not the one that belongs to the journal.
    fn open(dir: &Dir, journal: &Journal, access: OFlag) -> Result<Option<Self>, Error> {
        let Some(file) = dir.open_file(INDEX, access)? else {
            return Ok(None);
        };
        let page_bytes = u64::try_from(PAGE_BYTES).unwrap_or(u64::MAX);
        let pages = file.size / page_bytes;
        if file.size % page_bytes != 0 || pages < 2 {
            return Ok(None);
        }
        let pages = pages - 1;
        let line = file.read_at(0, SLOT_BYTES)?;
        let belongs =
            line == first_line(journal.header.index, pages) || is_of_broken_cut(journal, &line, pages);
        if !belongs {
            return Ok(None);
        }
        Ok(Some(Self { file, pages }))
    }

    /// `None`: it holds what is no slot.
    fn page(&self, number: u64) -> Result<Option<Page>, Error> {
        Ok(Page::parse(&self.read_page(number)?))
    }

    fn read_page(&self, number: u64) -> Result<Vec<u8>, Error> {
        self.file.read_at(offset(number, 0), PAGE_BYTES)
    }

    /// Writes the slots that changed.
    fn write_page(&self, number: u64, page: &Page) -> Result<(), Error> {
        for (place, slot) in page.slots.iter().enumerate() {
            if page.changed.contains(&place) {
                self.write(offset(number, place), &slot_bytes(*slot))?;
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, line: &[u8]) -> Result<(), Error> {
        self.file
            .file
            .write_all_at(line, offset)
            .map_err(|source| io_error(Verb::Write, &self.file.path, source))
    }

    /// Builds a table twice as large, with some pages as they are to be.
    fn grow(&self, dir: &Dir, id: u64, mut changed: BTreeMap<u64, Page>) -> Result<bool, Error> {
        let mut slots = Vec::new();
        for number in 0..self.pages {
            let page = match changed.remove(&number) {
                Some(page) => page,
                None => match self.page(number)? {
                    Some(page) => page,
                    None => return Ok(false),
                },
            };
            slots.extend(page.slots.into_iter().flatten());
        }
        build(dir, id, self.pages * 2, &slots)?;
        Ok(true)
    }
}

/// Where a slot stands, behind the page of words.
fn offset(page: u64, slot: usize) -> u64 {
    let place = u64::try_from(slot * SLOT_BYTES).unwrap_or(u64::MAX);
    (page + 1) * u64::try_from(PAGE_BYTES).unwrap_or(u64::MAX) + place
}

/// Whether a cut that was interrupted wrote a table: it bears the number of the generation that was not begun. The
/// journal still has all that the cut was about, among it the record that was the last one then.
fn is_of_broken_cut(journal: &Journal, line: &[u8], pages: u64) -> bool {
    let next = journal.header.generation.wrapping_add(1);
    let last = line.get(ID_CRC).and_then(|digits| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
    last.is_some_and(|last| journal.has_checksum(last) && line == first_line(id(next, last), pages))
}

/// The number of a table that is written by the cut that begins a generation, after the record with this checksum.
pub(super) fn id(generation: u32, last_checksum: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(last_checksum)
}

/// The second half of the number in the first line.
const ID_CRC: std::ops::Range<usize> = 13..21;

fn first_line(id: u64, pages: u64) -> Vec<u8> {
    let text = match u32::try_from(id) {
        Ok(generation) => format!("HAX1 {generation:08x} {pages:08x}  handle -> block"),
        Err(_) => format!("HAX2 {id:016x} {pages:08x}  handle -> block"),
    };
    let mut line = text.into_bytes();
    line.resize(SLOT_BYTES - 1, b' ');
    line.push(b'\n');
    line
}
