//! Strict affinity, borrowing, and the most blocks per host.

use std::collections::BTreeSet;

use host_affine::datastore::run_in_place;
use host_affine::ipam::Error;
use host_affine::net::Family;

use super::super::build::{Ask, any, at, cidr, configure, exactly, ip, strict};
use super::{Net, said};

fn strict_with(net: &mut Net, blocks: u32) {
    configure(net.store(), |spec| {
        (spec.strict_affinity, spec.max_blocks_per_host) = (Some(true), Some(blocks));
    });
}

/// Rows 26, 27.
#[test]
fn the_second_host_borrows_until_strict_affinity_forbids_it() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 28)]);
    net.add("one", "o1");
    net.add("two", "l1");
    net.add("two", "l2");
    assert_eq!((net.blocks_of("one").len(), net.blocks_of("two").len()), (1, 0));
    let usage = run_in_place(net.ipam.usage(at(0))).expect("counts");
    assert_eq!(usage.pools[0].blocks[0].borrowed, [("two".to_owned(), 2)]);
    strict(net.store());
    let refusal = said(&net.refused("two", "l3"));
    assert!(refusal.contains("strict affinity is on") && refusal.contains("one (1)"), "{refusal}");
    net.add("one", "o2");
    assert_eq!(net.del("two", "l1").len(), 1);
    let usage = run_in_place(net.ipam.usage(at(0))).expect("counts");
    assert_eq!(usage.pools[0].blocks[0].borrowed, [("two".to_owned(), 1)]);
    let lent = Ask::new("two", "l4").wanting([exactly("10.0.0.9")]);
    assert!(matches!(net.ask(&lent), Err(Error::StrictAffinity { .. })));
}

/// Row 28.
#[test]
fn a_strict_host_stops_at_its_limit_which_binds_new_claims_only() {
    let mut net = Net::with(&[("p", "10.0.0.0/26", 30)]);
    strict_with(&mut net, 1);
    net.add_many("n", "m", 4);
    let refusal = said(&net.refused("n", "m5"));
    for part in ["`n`", "maxBlocksPerHost is 1", "--max-blocks-per-host"] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
    let freed = net.del("n", "m2").remove(0);
    assert_eq!(net.add("n", "m6"), freed);
    let elsewhere = net.blocks().remove(0).cidr;
    let elsewhere = if elsewhere.contains_address(ip("10.0.0.1")) { "10.0.0.9" } else { "10.0.0.1" };
    let asked = net.ask(&Ask::new("n", "x").wanting([exactly(elsewhere)])).expect_err("beyond the limit");
    assert!(said(&asked).contains("maxBlocksPerHost is 1"), "the limit binds an address that is asked for");
    strict_with(&mut net, 2);
    net.add("n", "m7");
    strict_with(&mut net, 1);
    net.add("n", "m8");
    assert_eq!(net.blocks_of("n").len(), 2, "nothing is revoked, nothing is added");
    net.add("other", "m9");
}

/// Rows 28, 33: the default.
#[test]
fn a_strict_host_stops_at_twenty_blocks_and_the_refusal_names_the_limit() {
    let mut net = Net::with(&[("p", "10.0.0.0/24", 30)]);
    strict(net.store());
    net.add_many("n", "c", 80);
    assert_eq!(net.blocks_of("n").len(), 20);
    let refusal = said(&net.refused("n", "x"));
    assert!(refusal.contains("the host has 20 blocks") && refusal.contains("is 20"), "{refusal}");
}

/// Rows 30, 31; deviation 14.
#[test]
fn a_host_fills_a_pool_of_64_blocks_with_20_that_are_affine() {
    let mut net = Net::with(&[("p", "10.0.0.0/22", 28)]);
    let given: BTreeSet<String> = net.add_many("n", "c", 1024).into_iter().collect();
    assert_eq!((given.len(), net.blocks().len(), net.blocks_of("n").len()), (1024, 64, 20));
    let refusal = said(&net.refused("n", "x"));
    assert!(refusal.contains("64 of 64 blocks"), "{refusal}");
    for number in 0..1024 {
        net.del("n", &format!("c{number}"));
    }
    assert_eq!(
        (net.blocks().len(), net.audit().len()),
        (1, 0),
        "blocks of nobody go with their last address"
    );
}

/// Deviation 14, for an address that is asked for
#[test]
fn beyond_the_limit_an_address_that_is_asked_for_comes_from_a_block_of_nobody() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    configure(net.store(), |spec| spec.max_blocks_per_host = Some(1));
    for (id, address) in [("x", "10.0.0.1"), ("y", "10.0.0.5"), ("z", "10.0.0.9")] {
        net.ask(&Ask::new("n", id).wanting([exactly(address)])).expect(address);
    }
    assert_eq!((net.blocks().len(), net.blocks_of("n")), (3, vec!["10.0.0.0/30".to_owned()]));
}

/// Row 32.
#[test]
fn a_strict_host_alone_in_a_small_pool_gets_all_of_it() {
    let mut net = Net::with(&[("p", "10.0.0.0/26", 26)]);
    strict(net.store());
    net.add_many("n", "c", 64);
    assert!(matches!(net.refused("n", "x"), Error::Exhausted { .. }));
}

/// Row 34.
#[test]
fn a_host_borrows_only_what_its_own_block_cannot_give() {
    let mut net = Net::with(&[("p", "10.0.0.0/25", 26)]);
    net.add("a", "first");
    net.add("b", "first-b");
    let own = cidr(&net.blocks_of("a").remove(0));
    let given = net.add_many("a", "c", 64);
    assert_eq!(given.iter().filter(|given| own.contains_address(ip(given))).count(), 63);
}

/// Rows 52, 53.
#[test]
fn a_repeated_add_gets_what_it_holds_and_no_other_address() {
    let mut net = Net::with(&[("p4", "10.0.0.0/28", 30), ("p6", "fd00::/124", 126)]);
    let first = net.ask(&Ask::new("n", "x").wanting([any(Family::V4)])).expect("an address");
    let both = net.ask(&Ask::new("n", "x").dual()).expect("the missing family too");
    assert_eq!(both[0], first[0]);
    assert_eq!(net.ask(&Ask::new("n", "x").dual()).expect("the same"), both);
    let other = net.ask(&Ask::new("n", "x").wanting([exactly("10.0.0.0")]));
    let other = if both[0] == "10.0.0.0" {
        net.ask(&Ask::new("n", "x").wanting([exactly("10.0.0.1")]))
    } else {
        other
    };
    assert!(matches!(other, Err(Error::HoldsAnother { .. })), "{other:?}");
    assert_eq!(
        net.ask(&Ask::new("n", "x").wanting([exactly(&both[0])])).expect("the same"),
        [both[0].clone()]
    );
    assert_eq!(net.del("n", "x").len(), 2);
}

/// Row 61.
#[test]
fn an_empty_block_changes_hands_after_a_minute() {
    let mut net = Net::with(&[("p", "10.0.0.0/30", 30)]);
    strict(net.store());
    net.add("a", "x");
    net.del("a", "x");
    net.now = 59;
    net.refused("b", "y");
    net.now = 60;
    net.add("b", "y");
    assert_eq!((net.blocks_of("a").len(), net.blocks_of("b").len()), (0, 1));
    assert_eq!(net.audit(), []);
}
