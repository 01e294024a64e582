mod brute_force;

use super::*;
use crate::api::milo::Strategy;
use crate::net::{AddrSet, Cidr};

fn cidr(text: &str) -> Cidr {
    text.parse().expect(text)
}

/// Extents of allocations that are called `a`, `b` and so on.
fn carved(pool: &str, taken: &[&str]) -> Extents {
    let stored = taken.iter().zip('a'..).map(|(text, name)| Extent {
        cidr: cidr(text),
        by: Carver::Allocation { project: "default".into(), name: name.into() },
    });
    let (extents, clashes) = Extents::from_stored(cidr(pool), stored);
    assert_eq!(clashes, []);
    extents
}

const M: i64 = i64::MAX;

/// Pool, what is carved out, the length wanted; where it goes by `FirstFit` and by `BestFit`; and before that: total, allocated,
/// available, percent, largest free prefix, as that API counts.
type Vector = (
    &'static str,
    &'static [&'static str],
    u8,
    Option<&'static str>,
    Option<&'static str>,
    (i64, i64, i64, u8, u8),
);

const QUARTERS: &[&str] = &["10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26", "10.0.0.192/26"];
const HOLES: &[&str] = &["10.0.0.16/28", "10.0.0.192/26"];

const VECTORS: [Vector; 13] = [
    ("10.0.0.0/24", &[], 26, Some("10.0.0.0/26"), Some("10.0.0.0/26"), (256, 0, 256, 0, 24)),
    ("10.0.0.0/24", &["10.0.0.0/26"], 28, Some("10.0.0.64/28"), Some("10.0.0.64/28"), (256, 64, 192, 25, 25)),
    (
        "10.0.0.0/24",
        &["10.0.0.0/28", "10.0.0.64/26"],
        27,
        Some("10.0.0.32/27"),
        Some("10.0.0.32/27"),
        (256, 80, 176, 31, 25),
    ),
    (
        "10.0.0.0/24",
        &["10.0.0.0/27", "10.0.0.64/26", "10.0.0.144/28"],
        28,
        Some("10.0.0.32/28"),
        Some("10.0.0.128/28"),
        (256, 112, 144, 43, 26),
    ),
    (
        "10.0.0.0/24",
        &["10.0.0.0/26", "10.0.0.80/28", "10.0.0.128/25"],
        27,
        Some("10.0.0.96/27"),
        Some("10.0.0.96/27"),
        (256, 208, 48, 81, 27),
    ),
    ("10.0.0.0/24", HOLES, 25, None, None, (256, 80, 176, 31, 26)),
    ("10.0.0.0/24", HOLES, 26, Some("10.0.0.64/26"), Some("10.0.0.64/26"), (256, 80, 176, 31, 26)),
    ("10.0.0.0/24", QUARTERS, 32, None, None, (256, 256, 0, 100, 0)),
    ("10.0.0.0/20", &[], 16, None, None, (4096, 0, 4096, 0, 20)),
    (
        "10.0.0.0/16",
        &["10.0.0.5/32"],
        26,
        Some("10.0.0.64/26"),
        Some("10.0.0.64/26"),
        (65536, 1, 65535, 0, 17),
    ),
    ("10.0.0.0/31", &["10.0.0.0/32"], 32, Some("10.0.0.1/32"), Some("10.0.0.1/32"), (2, 1, 1, 50, 32)),
    ("fd00::/48", &["fd00::/64"], 64, Some("fd00:0:0:1::/64"), Some("fd00:0:0:1::/64"), (M, M, 0, 0, 49)),
    ("fd00::/32", &["fd00::/48"], 48, Some("fd00:0:1::/48"), Some("fd00:0:1::/48"), (M, M, 0, 0, 33)),
];

#[test]
fn the_networks_of_the_published_examples_come_out() {
    for (pool, taken, want, first_fit, best_fit, figures) in VECTORS {
        let extents = carved(pool, taken);
        let place = |strategy| extents.place(want, strategy).ok();
        let what = format!("/{want} of {pool} without {taken:?}");
        assert_eq!(place(Strategy::FirstFit), first_fit.map(cidr), "{what}");
        assert_eq!(place(Strategy::LeastUtilized), first_fit.map(cidr), "{what}");
        assert_eq!(place(Strategy::BestFit), best_fit.map(cidr), "{what}");
        let (capacity, percent) = (extents.capacity(), extents.capacity().utilization_percent());
        let shown = capacity.saturated();
        let largest = capacity.largest_free_prefix.unwrap_or(0);
        assert_eq!((shown.total, shown.allocated, shown.available, percent, largest), figures, "{what}");
    }
}

#[test]
fn figures_of_ipv6_are_exact() {
    let left = carved("fd00::/48", &["fd00::/64"]).capacity();
    assert_eq!((left.total, left.allocated, left.available), (1 << 80, 1 << 64, (1 << 80) - (1 << 64)));
    let all = capacity(cidr("::/0"), &AddrSet::new());
    assert_eq!((all.total, all.available, all.largest_free_prefix), (u128::MAX, u128::MAX, Some(0)));
    assert_eq!(place(cidr("::/0"), &AddrSet::new(), 0, Strategy::FirstFit), Some(cidr("::/0")));
    let whole = slots(cidr("::/0"), &AddrSet::new(), 122);
    assert_eq!((whole.total, whole.free, whole.broken, whole.stranded), (1 << 122, 1 << 122, 0, 0));
}

#[test]
fn the_last_network_of_a_family_is_found() {
    for (pool, taken, want, expected) in [
        ("255.255.255.0/24", "255.255.255.0/25", 25, Some("255.255.255.128/25")),
        ("255.255.255.252/30", "255.255.255.252/31", 32, Some("255.255.255.254/32")),
        ("255.255.255.252/30", "255.255.255.253/32", 31, Some("255.255.255.254/31")),
        ("255.255.255.252/30", "255.255.255.254/32", 30, None),
        ("ffff::/16", "ffff::/17", 17, Some("ffff:8000::/17")),
        ("ffff::/16", "ffff::/128", 16, None),
    ] {
        let found = carved(pool, &[taken]).place(want, Strategy::FirstFit).ok();
        assert_eq!(found, expected.map(cidr), "/{want} of {pool} without {taken}");
    }
}

#[test]
fn a_small_allocation_breaks_the_slot_that_it_lies_in() {
    let left = carved("10.0.0.0/24", &["10.0.0.7/32", "10.0.0.9/32", "10.0.0.64/26"]).slots(26);
    assert_eq!((left.total, left.free, left.broken, left.stranded), (4, 2, 1, 62));
    let full = carved("10.0.0.0/25", &["10.0.0.0/27", "10.0.0.32/27", "10.0.0.64/32"]).slots(26);
    assert_eq!((full.free, full.broken, full.stranded), (0, 1, 63), "a full slot is not broken");
    assert!(full.obstacle(cidr("10.0.0.0/25")).is_some_and(|text| text.contains("63 addresses are free")));
}

#[test]
fn a_pool_narrower_than_a_block_has_no_slots() {
    let left = carved("10.0.0.0/29", &["10.0.0.0/32"]).slots(26);
    assert_eq!((left.total, left.free, left.broken, left.stranded), (0, 0, 0, 7));
    assert_eq!(
        left.obstacle(cidr("10.0.0.0/29")).as_deref(),
        Some("10.0.0.0/29 is narrower than a block of /26")
    );
}

#[test]
fn a_requested_range_lies_inside_and_is_nobodys() {
    let extents = carved("10.0.0.0/24", &["10.0.0.16/28", "10.0.0.64/26"]);
    assert_eq!(extents.check(cidr("10.0.0.0/28")), Ok(()));
    let refused = |text: &str| extents.check(cidr(text)).expect_err(text).to_string();
    assert_eq!(refused("10.0.1.0/28"), "10.0.1.0/28 does not lie in the pool's range 10.0.0.0/24");
    assert_eq!(refused("10.0.0.0/23"), "10.0.0.0/23 does not lie in the pool's range 10.0.0.0/24");
    assert_eq!(refused("fd00::/64"), "fd00::/64 does not lie in the pool's range 10.0.0.0/24");
    let by_a = "10.0.0.16/28 (IPAllocation `a` of project `default`)";
    assert_eq!(refused("10.0.0.20/32"), format!("10.0.0.20/32 is taken: {by_a}"));
    assert_eq!(refused("10.0.0.0/26"), format!("10.0.0.0/26 is taken: {by_a}"));
    assert!(refused("10.0.0.127/32").contains("IPAllocation `b`"));
}

#[test]
fn what_a_store_holds_and_cannot_be_is_told() {
    let block = |text: &str| Extent { cidr: cidr(text), by: Carver::Block("host:n".parse().ok()) };
    let stored = ["10.0.0.64/26", "10.0.0.0/25", "10.0.1.0/26"].map(block);
    let (extents, clashes) = Extents::from_stored(cidr("10.0.0.0/24"), stored);
    assert_eq!(extents.iter().map(|extent| extent.cidr).collect::<Vec<_>>(), [cidr("10.0.0.0/25")]);
    assert_eq!(clashes.len(), 2);
    assert_eq!(clashes[0].to_string(), "10.0.0.64/26 is taken: 10.0.0.0/25 (the block of host `n`)");
}

#[test]
fn a_refusal_tells_what_is_left_and_what_breaks_it_up() {
    let refused = |pool: &str, taken: &[&str], want| {
        carved(pool, taken).place(want, Strategy::FirstFit).expect_err("no room")
    };
    let no_half = refused("10.0.0.0/24", HOLES, 25);
    assert_eq!(
        no_half.to_string(),
        "no /25 is free in 10.0.0.0/24: 176 addresses are free, the largest network of them a /26"
    );
    assert_eq!(
        no_half.in_the_way.expect("something").to_string(),
        "10.0.0.0/25 would be free without 10.0.0.16/28 (IPAllocation `a` of project `default`)"
    );
    let full = refused("10.0.0.0/24", QUARTERS, 26);
    assert_eq!(full.to_string(), "no /26 is free in 10.0.0.0/24: all of it is taken");
    assert_eq!(full.in_the_way, None, "whole networks are taken, nothing is broken up");
    let large = refused("10.0.0.0/20", &[], 16);
    assert_eq!(large.to_string(), "a /16 is larger than the pool's range 10.0.0.0/20");
    let many = ["10.0.0.1/32", "10.0.0.3/32", "10.0.0.5/32", "10.0.0.7/32", "10.0.0.9/32"];
    let crowded = refused("10.0.0.0/28", &many, 28).in_the_way.expect("something");
    assert_eq!((crowded.extents.len(), crowded.more), (3, 2));
}
