//! One block as a value. Pure: the time is a parameter.

use std::net::IpAddr;
use std::time::Duration;

use super::owner;
use crate::api::calico::{Attribute, AttributeFields, IpamBlock};
use crate::api::{Affinity, HandleId};
use crate::clock::Timestamp;
use crate::net::{AddrSet, Cidr};

/// The position of an address in its block, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u16);

/// A well-formed block. However often it is changed before it is written, its sequence number goes up by one.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    wire: IpamBlock,
    /// The number of the state to be written.
    next: u64,
    changed: bool,
    new: bool,
    /// As it was read, with times ahead of the clock set to the present. `None`: it had none.
    present: Option<Box<IpamBlock>>,
}

/// An allocation in a block.
#[derive(Clone, Debug)]
pub struct Allocation<'a> {
    /// Where.
    pub ordinal: Ordinal,
    /// The address.
    pub address: IpAddr,
    /// Whose.
    pub fields: AttributeFields<'a>,
}

impl Block {
    /// Takes a block from the wire. What is wrong with it, if it is not well-formed: such a block gives nothing out.
    ///
    /// # Errors
    /// The problem, as [`IpamBlock::problem`] says it.
    pub fn from_wire(wire: IpamBlock) -> Result<Self, String> {
        if let Some(problem) = wire.problem() {
            Err(problem)
        } else {
            let mut block = Self {
                next: wire.sequence_number.wrapping_add(1),
                wire,
                changed: false,
                new: false,
                present: None,
            };
            block.wire.collect_attributes();
            Ok(block)
        }
    }

    /// A new block with every address free. `floor` is a number that no earlier block of the store has reached: a new
    /// block starts behind it even when the clock was set back.
    #[must_use]
    pub fn new(cidr: Cidr, affinity: Option<Affinity>, now: Timestamp, floor: u64) -> Self {
        let start = now.as_nanos().max(floor);
        let wire = IpamBlock::new(cidr, affinity, now, start);
        Self { wire, next: start.wrapping_add(1), changed: true, new: true, present: None }
    }

    /// Its range.
    #[must_use]
    pub fn cidr(&self) -> Cidr {
        self.wire.cidr
    }

    /// Whom it is kept for.
    #[must_use]
    pub fn affinity(&self) -> Option<&Affinity> {
        self.wire.affinity.as_ref()
    }

    /// When its affinity was claimed; `None`: long ago.
    #[must_use]
    pub fn claimed(&self) -> Option<Timestamp> {
        self.wire.affinity_claim_time
    }

    /// Whether it differs from what was read.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Whether it is not stored yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.new
    }

    /// The block for the wire.
    #[must_use]
    pub fn wire(&self) -> &IpamBlock {
        &self.wire
    }

    /// Gives it to an owner, or to nobody.
    pub fn set_affinity(&mut self, affinity: Option<Affinity>, now: Timestamp) {
        self.wire.affinity_claim_time = affinity.is_some().then_some(now);
        self.wire.affinity = affinity;
        self.touch();
    }

    /// Has the block written though nothing else changes, so that whoever read it before cannot write it any more.
    pub fn rewrite(&mut self) {
        self.touch();
    }

    fn touch(&mut self) {
        self.wire.sequence_number = self.next;
        self.changed = true;
    }

    /// Lets addresses whose cooldown is over rejoin the free queue, in the order of the ordinals. A release or a claim
    /// that lies in the future counts as now.
    ///
    /// Such a change alone is no reason to write the block; it goes along when the block is written, and
    /// [`Block::at_present`] is written when an address was looked for in vain.
    pub fn collect(&mut self, cooldown: Duration, now: Timestamp) {
        self.take_future_as_now(now);
        // Reading an attribute is the dear part, and hardly any is cooling.
        let cooling: Vec<bool> = self
            .wire
            .attributes
            .iter()
            .map(|attribute| {
                let released = || attribute.fields().released_at;
                attribute.may_be_cooling()
                    && released().is_some_and(|released| cooldown.is_zero() || now.since(released) > cooldown)
            })
            .collect();
        if !cooling.contains(&true) {
            return;
        }
        let is_cooled =
            |index: &Option<u16>| index.is_some_and(|i| cooling.get(usize::from(i)) == Some(&true));
        let ordinals = (0u16..).zip(&self.wire.allocations);
        let cooled: Vec<u16> =
            ordinals.filter(|(_, index)| is_cooled(index)).map(|(ordinal, _)| ordinal).collect();
        let number = self.wire.sequence_number;
        for ordinal in cooled {
            // Allocated, as it was just found.
            let _ = self.wire.clear(ordinal, number);
        }
    }

    /// The block as it was read, with times ahead of the clock set to the present, to be written. `None`: it had none.
    ///
    /// A present that nobody writes would be another one at each look, and a cooldown would never end. Writing only makes
    /// the time of a release earlier, so hosts whose clocks differ cannot prolong a cooldown in turns: each writes at most
    /// its own present, and the address is free one cooldown after the earliest of those. What that shortens a cooldown by
    /// is the difference of the clocks, as for any release on one host that another judges.
    pub(super) fn at_present(&self) -> Option<Self> {
        let mut block = Self::from_wire((**self.present.as_ref()?).clone()).ok()?;
        block.touch();
        Some(block)
    }

    /// A clock that was set back leaves times ahead of it: they count as the present, so that nothing waits for the old
    /// clock's time to come.
    fn take_future_as_now(&mut self, now: Timestamp) {
        let mut is_ahead = false;
        if self.wire.affinity_claim_time.is_some_and(|claimed| claimed > now) {
            self.wire.affinity_claim_time = Some(now);
            is_ahead = true;
        }
        for attribute in self.wire.attributes.iter_mut().filter(|attribute| attribute.may_be_cooling()) {
            if attribute.fields().released_at.is_some_and(|released| released > now) {
                let cooling = AttributeFields { released_at: Some(now), ..AttributeFields::default() };
                *attribute = Attribute::new(&cooling);
                is_ahead = true;
            }
        }
        if is_ahead && !self.new {
            self.present = Some(Box::new(self.wire.clone()));
        }
    }

    /// Every allocated address with its attribute, by ordinal. Looks into every attribute.
    pub fn allocations(&self) -> impl Iterator<Item = Allocation<'_>> {
        let with = |(ordinal, index): (usize, &Option<u16>)| {
            let attribute = self.wire.attributes.get(usize::from((*index)?))?;
            self.allocation(ordinal, attribute)
        };
        self.wire.allocations.iter().enumerate().filter_map(with)
    }

    fn allocation<'a>(&self, ordinal: usize, attribute: &'a Attribute) -> Option<Allocation<'a>> {
        let ordinal = u16::try_from(ordinal).ok()?;
        let address = self.wire.cidr.nth(ordinal.into())?;
        Some(Allocation { ordinal: Ordinal(ordinal), address, fields: attribute.fields() })
    }

    /// The addresses of a handle, by ordinal. Looks only into attributes that may name it.
    pub fn held_by<'a>(&'a self, handle: &'a HandleId) -> impl Iterator<Item = Allocation<'a>> {
        let with = |(ordinal, index): (usize, &Option<u16>)| {
            let attribute = self.wire.attributes.get(usize::from((*index)?))?;
            attribute.may_name(handle.as_str()).then(|| self.allocation(ordinal, attribute)).flatten()
        };
        self.wire.allocations.iter().enumerate().filter_map(with).filter(|allocation| {
            allocation.fields.handle_id.as_deref().map(owner::sanitised) == Some(handle.as_str())
        })
    }

    /// The address of an ordinal.
    ///
    /// # Panics
    /// When the block has no such ordinal: it is taken from the block itself.
    #[must_use]
    pub fn address_of(&self, ordinal: Ordinal) -> IpAddr {
        self.wire.cidr.nth(ordinal.0.into()).expect("an ordinal lies in its block")
    }

    /// Who has an address; `None` when it is free.
    #[must_use]
    pub fn holder(&self, address: IpAddr) -> Option<Allocation<'_>> {
        let ordinal = usize::try_from(self.wire.cidr.position(address)?).ok()?;
        let index = (*self.wire.allocations.get(ordinal)?)?;
        self.allocation(ordinal, self.wire.attributes.get(usize::from(index))?)
    }

    /// The block's number when an ordinal was assigned. 0 where none is noted.
    #[must_use]
    pub fn sequence_of(&self, ordinal: Ordinal) -> u64 {
        self.wire.sequence_number_for_allocation.get(&ordinal.0).copied().unwrap_or(0)
    }

    /// The address that was freed longest ago, of those not in `unusable`. Those keep their places.
    #[must_use]
    pub fn next_free(&self, unusable: &AddrSet) -> Option<Ordinal> {
        self.free(unusable).next()
    }

    /// Free ordinals that are not in `unusable`, the one freed longest ago first.
    fn free<'a>(&'a self, unusable: &'a AddrSet) -> impl Iterator<Item = Ordinal> + 'a {
        self.wire
            .unallocated
            .iter()
            .copied()
            .filter(|&ordinal| {
                self.wire.cidr.nth(ordinal.into()).is_some_and(|address| !unusable.contains(address))
            })
            .map(Ordinal)
    }

    /// Whether it is worth looking into for an address: one is free and not in `unusable`, or cools down and will be.
    #[must_use]
    pub fn may_have_room(&self, unusable: &AddrSet) -> bool {
        self.next_free(unusable).is_some() || self.wire.attributes.iter().any(Attribute::may_be_cooling)
    }

    /// How many addresses are free and not in `unusable`.
    #[must_use]
    pub fn count_free(&self, unusable: &AddrSet) -> usize {
        self.free(unusable).count()
    }

    /// Whether all allocated addresses are kept back for a host itself. A cooling address is somebody's still.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wire.attributes.iter().all(|attribute| owner::is_host_reserved(&attribute.fields()))
    }

    /// How many addresses are not free: assigned, cooling, or kept back.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.wire.allocations.len() - self.wire.unallocated.len()
    }

    /// The ordinal of an address, if it is free.
    #[must_use]
    pub fn free_ordinal(&self, address: IpAddr) -> Option<Ordinal> {
        let ordinal = u16::try_from(self.wire.cidr.position(address)?).ok()?;
        self.wire.unallocated.contains(&ordinal).then_some(Ordinal(ordinal))
    }

    /// Gives a free ordinal away.
    ///
    /// # Panics
    /// When it is not free: the caller has just looked.
    pub fn assign(&mut self, ordinal: Ordinal, attribute: &Attribute) -> IpAddr {
        assert!(
            self.wire.set(ordinal.0, attribute, self.next),
            "ordinal {} of {} is not free",
            ordinal.0,
            self.cidr()
        );
        self.changed = true;
        self.wire.cidr.nth(ordinal.0.into()).expect("a free ordinal lies in its block")
    }

    /// Keeps a free address back for the host itself. Nothing happens when it is not free.
    pub fn keep_back(&mut self, address: IpAddr, attribute: &Attribute) {
        if let Some(ordinal) = self.free_ordinal(address) {
            self.assign(ordinal, attribute);
        }
    }

    /// Writes another attribute for an allocated ordinal, leaving others that share the old one alone.
    pub fn reassign(&mut self, ordinal: Ordinal, attribute: &Attribute) {
        let Some(Some(slot)) = self.wire.allocations.get(usize::from(ordinal.0)).copied() else {
            return;
        };
        let known = self.wire.attributes.iter().position(|known| known == attribute);
        let Ok(index) = u16::try_from(known.unwrap_or(self.wire.attributes.len())) else {
            return;
        };
        if index == slot {
            return;
        }
        if known.is_none() {
            self.wire.attributes.push(attribute.clone());
        }
        if let Some(place) = self.wire.allocations.get_mut(usize::from(ordinal.0)) {
            *place = Some(index);
        }
        self.wire.collect_attributes();
        self.touch();
    }

    /// Frees an allocated ordinal: at once, or, with a cooldown, when that is over.
    pub fn release(&mut self, ordinal: Ordinal, cooldown: Duration, now: Timestamp) {
        if cooldown.is_zero() {
            if self.wire.clear(ordinal.0, self.next) {
                self.changed = true;
            }
            return;
        }
        let cooling = AttributeFields { released_at: Some(now), ..AttributeFields::default() };
        self.reassign(ordinal, &Attribute::new(&cooling));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Family;

    const SECOND: u64 = 1_000_000_000;

    fn handle(name: &str) -> HandleId {
        HandleId::new(name).expect("handle")
    }

    fn attribute(name: &str) -> Attribute {
        Attribute::new(&AttributeFields { handle_id: Some(name.into()), ..AttributeFields::default() })
    }

    fn block() -> Block {
        Block::new("10.0.0.0/30".parse().expect("cidr"), None, Timestamp::from_nanos(100), 0)
    }

    fn assign(block: &mut Block, name: &str) -> IpAddr {
        let ordinal = block.next_free(&AddrSet::new()).expect("room");
        block.assign(ordinal, &attribute(name))
    }

    fn read_again(block: &Block) -> Block {
        Block::from_wire(block.wire().clone()).expect("well-formed")
    }

    #[test]
    fn addresses_come_round_in_the_order_of_their_release() {
        let mut block = block();
        let mut seen = Vec::new();
        for _ in 0..5 {
            let address = assign(&mut block, "h");
            let ordinal = block.held_by(&handle("h")).next().expect("held").ordinal;
            block.release(ordinal, Duration::ZERO, Timestamp::default());
            seen.push(address.to_string());
        }
        assert_eq!(seen, ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.0"]);
    }

    #[test]
    fn an_allocation_notes_the_number_before_its_write() {
        let mut block = block();
        assign(&mut block, "a");
        assign(&mut block, "b");
        assert_eq!(block.wire().sequence_number, 101, "two changes, one write");
        assert_eq!((block.sequence_of(Ordinal(0)), block.sequence_of(Ordinal(1))), (100, 100));
        let mut again = read_again(&block);
        assign(&mut again, "c");
        assert_eq!((again.wire().sequence_number, again.sequence_of(Ordinal(2))), (102, 101));
    }

    #[test]
    fn a_block_made_under_a_clock_set_back_starts_behind_all_others() {
        let cidr = "10.0.0.0/30".parse().expect("cidr");
        assert_eq!(Block::new(cidr, None, Timestamp::from_nanos(5), 900).wire().sequence_number, 900);
    }

    #[test]
    fn a_cooling_address_is_neither_free_nor_anybodys() {
        let mut block = block();
        let address = assign(&mut block, "h");
        block.release(Ordinal(0), Duration::from_secs(30), Timestamp::from_nanos(60 * SECOND));
        assert_eq!(block.held_by(&handle("h")).count(), 0);
        assert!(block.free_ordinal(address).is_none() && !block.is_empty());
        let mut soon = read_again(&block);
        soon.collect(Duration::from_secs(30), Timestamp::from_nanos(90 * SECOND));
        assert!(soon.free_ordinal(address).is_none(), "30 s are not more than 30 s");
        soon.collect(Duration::from_secs(30), Timestamp::from_nanos(91 * SECOND));
        assert!(soon.free_ordinal(address).is_some() && soon.is_empty());
        assert!(!soon.is_changed(), "cooling down alone is no reason to write");
        assert_eq!(soon.wire().unallocated, [1, 2, 3, 0]);
    }

    #[test]
    fn a_release_from_the_future_counts_as_now() {
        let mut block = block();
        assign(&mut block, "h");
        block.release(Ordinal(0), Duration::from_secs(30), Timestamp::from_nanos(90 * SECOND));
        let mut block = read_again(&block);
        block.collect(Duration::from_secs(30), Timestamp::from_nanos(10 * SECOND));
        assert_eq!(block.in_use(), 1, "it waits, and is not freed early");
    }

    #[test]
    fn unusable_addresses_are_passed_over_and_keep_their_place() {
        let mut block = block();
        let mut unusable = AddrSet::new();
        unusable.insert_range(Family::V4.address(0x0a00_0000), Family::V4.address(0x0a00_0001));
        assert_eq!(block.next_free(&unusable), Some(Ordinal(2)));
        block.assign(Ordinal(2), &attribute("h"));
        assert_eq!(block.wire().unallocated, [0, 1, 3]);
        assert_eq!(block.count_free(&unusable), 1);
    }

    #[test]
    fn what_the_host_itself_has_does_not_keep_a_block() {
        let mut block = block();
        let host = crate::api::HostName::new("n").expect("name");
        block.keep_back("10.0.0.1".parse().expect("ip"), &owner::host_address(&host));
        assert!(block.is_empty());
        assert_eq!(block.in_use(), 1);
        block.keep_back("10.0.0.1".parse().expect("ip"), &attribute("x"));
        assert!(block.is_empty(), "not free, so nothing happened");
    }

    #[test]
    fn changing_one_owner_leaves_those_who_shared_the_attribute_alone() {
        let mut block = block();
        assign(&mut block, "h");
        assign(&mut block, "h");
        assert_eq!(block.wire().attributes.len(), 1);
        block.reassign(Ordinal(1), &attribute("i"));
        assert_eq!(block.held_by(&handle("h")).count(), 1);
        assert_eq!(block.held_by(&handle("i")).map(|a| a.ordinal).collect::<Vec<_>>(), [Ordinal(1)]);
        assert_eq!(block.wire().problem(), None);
    }

    #[test]
    fn a_handle_with_a_carriage_return_is_found_without_it() {
        let mut block = block();
        assign(&mut block, "h\rjunk");
        assert_eq!(block.held_by(&handle("h")).count(), 1);
    }
}
