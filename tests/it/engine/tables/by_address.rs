//! Releasing by address: whatever stands there, or only what was read before.

use std::convert::Infallible;
use std::net::IpAddr;

use host_affine::api::calico::{
    AffinityState, Attribute, AttributeFields, BlockAffinity, IpamBlock, IpamHandle,
};
use host_affine::datastore::{Answer, Datastore, Key, Want, run_in_place};
use host_affine::ipam::{AddressFact, Assignment, ReleaseError};
use host_affine::net::Family;

use super::super::build::Bare as _;
use super::super::build::{Ask, affinity, any, at, cidr, container, exactly, ip, name};
use super::Net;

impl Net {
    /// Releases an address, if it is still the assignment that a number and a handle name.
    fn free(
        &mut self,
        address: &str,
        read: Option<(u64, &str)>,
    ) -> Result<AddressFact, ReleaseError<Infallible>> {
        let (sequence, handle) = read.unzip();
        let meant = Assignment { address: ip(address), sequence, handle: handle.map(str::to_owned) };
        run_in_place(self.ipam.release_address(&meant, at(self.now), |_| Ok(())))
    }

    /// The block's number when an address was assigned.
    fn number_of(&mut self, address: &str) -> u64 {
        let address = ip(address);
        let block =
            self.blocks().into_iter().find(|block| block.cidr.contains_address(address)).expect("a block");
        let ordinal = u16::try_from(block.cidr.position(address).expect("in the block")).expect("small");
        block.sequence_number_for_allocation[&ordinal]
    }

    /// How many addresses a container's handle counts, in all blocks.
    fn counted(&mut self, id: &str) -> u32 {
        let key = Key::Handle(container(id).handle().expect("a handle"));
        let read = run_in_place(self.store().read(&[Want::Object(key)])).expect("read").pop();
        read.and_then(Answer::object).map_or(0, |entry| entry.into::<IpamHandle>().block.values().sum())
    }
}

fn is_reassigned(outcome: &Result<AddressFact, ReleaseError<Infallible>>, from: u64, to: u64) -> bool {
    matches!(outcome, Err(ReleaseError::Reassigned { read, now, .. }) if (*read, *now) == (from, to))
}

/// Row 2.
#[test]
fn an_address_that_was_assigned_again_is_not_released_by_what_was_read_before() {
    let mut net = Net::with(&[("p", "10.0.0.0/32", 32)]);
    let address = net.add("a", "x");
    let read = net.number_of(&address);
    net.del("a", "x");
    assert_eq!(net.add("a", "x"), address);
    let outcome = net.free(&address, Some((read, "net.x")));
    assert!(is_reassigned(&outcome, read, read + 2), "{outcome:?}");
    assert_eq!(net.counted("x"), 1, "nothing is released");
    let freed = net.free(&address, Some((read + 2, "net.x"))).expect("what was read just now");
    assert_eq!(freed.handle.as_deref(), Some("net.x"));
    assert_eq!((net.counted("x"), net.audit().len()), (0, 0));
}

/// Row 3.
#[test]
fn an_address_of_a_block_that_was_made_anew_is_not_released_by_what_was_read_before() {
    for clock_set_back in [false, true] {
        let mut net = Net::with(&[("p", "10.0.0.0/30", 30)]);
        net.now = 1000;
        let address = net.add("a", "x");
        let read = net.number_of(&address);
        run_in_place(net.ipam.give_up_blocks_of(&name("a"), at(net.now))).expect("given up");
        assert_eq!((net.blocks().len(), net.blocks_of("a").len()), (1, 0));
        net.del("a", "x");
        assert_eq!(net.blocks().len(), 0, "a block of nobody goes with its last address");
        if clock_set_back {
            net.now = 0;
        }
        net.ask(&Ask::new("a", "x").wanting([exactly(&address)])).expect("free again");
        let outcome = net.free(&address, Some((read, "net.x")));
        assert!(matches!(&outcome, Err(ReleaseError::Reassigned { now, .. }) if *now > read), "{outcome:?}");
        assert_eq!(net.counted("x"), 1);
    }
}

/// Row 4.
#[test]
fn a_block_that_counts_from_zero_is_released_by_zero() {
    let mut net = Net::with(&[("p", "10.0.0.0/30", 30)]);
    let block = cidr("10.0.0.0/30");
    net.store().plant(Key::Block(block), IpamBlock::new(block, Some(affinity("a")), at(0), 0));
    net.store().plant(Key::Affinity(affinity("a"), block), BlockAffinity::new(AffinityState::Confirmed));
    let address = net.add("a", "x");
    let outcome = net.free(&address, Some((1, "net.x")));
    assert!(is_reassigned(&outcome, 1, 0), "{outcome:?}");
    net.free(&address, Some((0, "net.x"))).expect("what was read");
    assert_eq!(net.audit(), []);
}

/// Row 5.
#[test]
fn an_address_without_a_handle_is_nobodys_to_release_by_handle() {
    let mut net = Net::with(&[("p", "10.0.0.0/30", 30)]);
    let range = cidr("10.0.0.0/30");
    let mut block = IpamBlock::new(range, Some(affinity("a")), at(0), 7);
    assert!(block.set(2, &Attribute::new(&AttributeFields::default()), 8));
    net.store().plant(Key::Block(range), block);
    net.store().plant(Key::Affinity(affinity("a"), range), BlockAffinity::new(AffinityState::Confirmed));
    let outcome = net.free("10.0.0.2", Some((7, "net.x")));
    assert!(matches!(outcome, Err(ReleaseError::Reassigned { handle: None, .. })), "{outcome:?}");
    let freed = net.free("10.0.0.2", None).expect("whatever stands there");
    assert_eq!((freed.handle, net.audit().len()), (None, 0));
}

/// Rows 6, 7.
#[test]
fn an_address_that_nobody_has_is_said_to_be_unassigned() {
    let mut net = Net::with(&[("p", "10.0.0.0/29", 30)]);
    let taken = net.add("a", "x");
    let block = net.blocks().remove(0).cidr;
    let unassigned = |net: &mut Net, address: IpAddr| match net.free(&address.to_string(), None) {
        Err(ReleaseError::Unassigned { in_pool, .. }) => in_pool,
        other => panic!("{address}: {other:?}"),
    };
    for position in 0..8 {
        let address = cidr("10.0.0.0/29").nth(position).expect("in the pool");
        if address != ip(&taken) {
            assert!(unassigned(&mut net, address), "{address} is free in {block}, or in no block");
        }
    }
    assert!(!unassigned(&mut net, ip("10.9.0.1")), "in no pool");
    assert_eq!(net.counted("x"), 1);
}

/// Rows 10, 13.
#[test]
fn of_addresses_that_share_an_attribute_the_others_keep_it() {
    let mut net = Net::with(&[("p", "10.0.0.0/29", 29)]);
    net.add("a", "before");
    let three = net.ask(&Ask::new("a", "x").wanting([any(Family::V4), any(Family::V4), any(Family::V4)]));
    let three = three.expect("three");
    let attributes = |net: &mut Net| net.blocks().remove(0).attributes.len();
    assert_eq!(attributes(&mut net), 2, "one for each container");
    net.free(&three[1], None).expect("of x");
    assert_eq!((net.counted("x"), attributes(&mut net), net.audit().len()), (2, 2, 0));
    net.del("a", "before");
    let block = net.blocks().remove(0);
    let used: Vec<u16> = block.allocations.iter().flatten().copied().collect();
    assert_eq!((block.attributes.len(), used), (1, vec![0, 0]), "what nothing points to is gone");
    assert_eq!(net.del("a", "x"), [three[0].clone(), three[2].clone()]);
}

/// Row 12: what was read together is released together, save what was assigned at another time.
#[test]
fn of_a_handle_only_what_has_the_number_that_was_read_is_released() {
    let mut net = Net::with(&[("p", "10.0.0.0/29", 29)]);
    let three = net.ask(&Ask::new("a", "t").wanting([any(Family::V4), any(Family::V4), any(Family::V4)]));
    let mut four = three.expect("three");
    let read = net.number_of(&four[0]);
    four.extend(net.ask(&Ask::new("a", "t").on("eth1")).expect("a fourth"));
    let released: Vec<bool> =
        four.iter().map(|address| net.free(address, Some((read, "net.t"))).is_ok()).collect();
    assert_eq!(released, [true, true, true, false]);
    assert_eq!((net.counted("t"), net.audit().len()), (1, 0));
}
