//! Records of affinities: ending what is kept for a host without a container that ends, and claims that were cut short.

use host_affine::api::calico::{AffinityState, BlockAffinity, IpamBlock};
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Key, run_in_place};
use host_affine::ipam::{Force, Ipam, RemoveError, Removed};
use host_affine::net::Family;

use super::super::build::Bare as _;
use super::super::build::{Ask, addresses, affinity, any, at, cidr, exactly, name, pool, put_pool};
use super::Net;
use super::release::OfMany;

/// Row 65.
#[test]
fn blocks_of_a_deleted_pool_that_are_given_up_go_with_their_addresses() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    net.add_many("a", "c", 9);
    assert_eq!(net.blocks_of("a").len(), 3);
    run_in_place(net.ipam.remove_pool("p", Force::Yes, at(0))).expect("forced");
    let removed = run_in_place(net.ipam.give_up_blocks_of(&name("a"), at(0))).expect("given up");
    assert_eq!((removed.blocks, removed.left.blocks, removed.left.addresses), (0, 3, 9));
    assert_eq!((net.blocks().len(), net.blocks_of("a").len(), net.audit().len()), (3, 0, 0));
    for number in 0..9 {
        assert_eq!(net.del("a", &format!("c{number}")).len(), 1);
    }
    assert_eq!((net.blocks().len(), net.audit().len()), (0, 0));
}

/// Row 69.
#[test]
fn nothing_is_kept_for_a_host_that_nobody_knows() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    net.add("a", "x");
    let removed = run_in_place(net.ipam.give_up_blocks_of(&name("b"), at(0))).expect("no error");
    assert_eq!(removed, Removed::default());
    let removed = run_in_place(net.ipam.remove_node(&name("b"), at(0)));
    assert!(matches!(removed, Err(RemoveError::Missing)), "it is said: {removed:?}");
    assert_eq!(net.blocks_of("a").len(), 1);
}

/// More batches than there are attempts at one.
#[test]
fn node_with_very_many_blocks_is_deleted() {
    let mut net = Net::with(&[("p", "10.0.0.0/16", 32)]);
    let range = cidr("10.0.0.0/16");
    for position in 0..5_100 {
        let block = range.nth_subnet(32, position).expect("a block");
        let owner = affinity("a");
        net.store().plant(Key::Block(block), IpamBlock::new(block, Some(owner.clone()), at(0), 0));
        net.store().plant(Key::Affinity(owner, block), BlockAffinity::new(AffinityState::Confirmed));
    }
    let removed = run_in_place(net.ipam.remove_node(&name("a"), at(0))).expect("deleted");
    assert_eq!((removed.blocks, net.blocks().len()), (5_100, 0));
}

/// Others, who take such a record for no claim, write to a store of many machines too.
#[test]
fn nothing_is_given_from_an_own_block_behind_a_record_that_is_no_claim() {
    let block = cidr("10.0.0.0/30");
    let key = Key::Affinity(affinity("a"), block);
    for (id, wanted) in [("by-name", exactly("10.0.0.2")), ("any", any(Family::V4))] {
        let mut ipam = Ipam::new(OfMany(Memory::new()));
        put_pool(&mut ipam.store_mut().0, pool("p", "10.0.0.0/29", 30));
        let first = Ask::new("a", "first").wanting([exactly("10.0.0.1")]);
        run_in_place(first.of(&mut ipam)).expect("an address");
        ipam.store_mut().0.plant(key.clone(), BlockAffinity::new(AffinityState::Pending));
        let assigned = run_in_place(Ask::new("a", id).wanting([wanted]).of(&mut ipam)).expect("an address");
        assert!(block.contains_address(addresses(&assigned)[0]), "{id}");
        let record = ipam.store_mut().0.entries().find(|entry| entry.key == key).expect("a record");
        assert_eq!(record.into::<BlockAffinity>().state, AffinityState::Confirmed, "{id}");
    }
}
