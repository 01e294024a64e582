use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::net::Family;

fn cidr(text: &str) -> Cidr {
    text.parse().expect(text)
}

fn set(texts: &[&str]) -> AddrSet {
    let mut set = AddrSet::new();
    for text in texts {
        set.insert_cidr(cidr(text));
    }
    set
}

fn walk(host: &str, pool: &str, block_prefix: u8, unusable: &[&str]) -> Vec<String> {
    Walk::new(host, cidr(pool), block_prefix, &set(unusable)).map(|block| block.to_string()).collect()
}

#[test]
fn a_host_starts_where_calico_lets_it_start() {
    for (host, seed, starts) in [
        ("node-a", 568_266_999, [2, 10, 186, 698]),
        ("node-b", 568_266_996, [1, 9, 159, 873]),
        ("host-a", 1_258_779_341, [0, 15, 216, 216]),
        ("worker-1.example.com", 2_821_398_816, [2, 2, 108, 290]),
        ("load-balancer", 4_270_604_816, [2, 10, 74, 586]),
    ] {
        assert_eq!(fnv1(host.as_bytes()), seed, "{host}");
        assert_eq!([4, 16, 256, 1024].map(|blocks| start(host, blocks)), starts, "{host}");
    }
    assert_eq!(start("node-a", 16384), 15034);
    assert_eq!(start("node-a", 1 << 58), 251_070_522_519_304_890);
}

/// The numbers were drawn by a Go program from `hash/fnv`, `math/rand` and `math/big`.
#[test]
fn a_start_beyond_64_bits_is_the_one_go_draws() {
    for (host, bits, expected) in [
        ("node-a", 32, 2_193_285_066),
        ("node-a", 63, 4_862_756_540_946_692_794),
        ("node-a", 64, 6_184_260_463_428_163_074),
        ("node-a", 65, 23_309_500_614_656_244_410),
        ("node-a", 90, 315_060_316_067_285_123_464_880_074),
        ("node-a", 124, 17_593_212_117_272_253_710_053_252_265_074_679_754),
        ("", 124, 5_527_581_928_692_217_601_325_135_015_232_617_560),
        ("ünï-host", 124, 5_258_471_800_503_937_248_016_575_860_786_547_306),
        ("worker-1.example.com", 127, 53_047_542_158_420_803_129_931_101_752_797_346_082),
    ] {
        assert_eq!(start(host, 1 << bits), expected, "{host} in 2^{bits} blocks");
    }
}

#[test]
fn a_walk_wraps_once_and_ends_before_its_start() {
    assert_eq!(
        walk("node-a", "10.0.0.0/24", 26, &[]),
        ["10.0.0.128/26", "10.0.0.192/26", "10.0.0.0/26", "10.0.0.64/26"]
    );
    assert_eq!(walk("host-a", "10.0.0.0/24", 26, &[]).first().map(String::as_str), Some("10.0.0.0/26"));
    assert_eq!(walk("host-a", "10.0.0.0/24", 26, &[]).len(), 4);
}

#[test]
fn every_walk_of_a_host_is_the_same() {
    assert_eq!(walk("node-b", "fd00::/112", 122, &[]), walk("node-b", "fd00::/112", 122, &[]));
    assert_eq!(walk("node-b", "10.0.0.0/29", 32, &[]), walk("node-b", "10.0.0.0/29", 32, &[]));
}

#[test]
fn a_pool_of_one_block_is_tried_once() {
    for host in ["node-a", "node-b", "host-a", ""] {
        assert_eq!(walk(host, "10.0.0.64/26", 26, &[]), ["10.0.0.64/26"]);
        assert_eq!(walk(host, "10.0.0.7/32", 32, &[]), ["10.0.0.7/32"]);
        assert_eq!(walk(host, "::/0", 0, &[]), ["::/0"]);
    }
}

#[test]
fn blocks_larger_than_the_pool_or_longer_than_an_address_are_none() {
    assert!(walk("node-a", "10.0.0.0/26", 24, &[]).is_empty());
    assert!(walk("node-a", "10.0.0.0/26", 33, &[]).is_empty());
    assert!(walk("node-a", "fd00::/64", 129, &[]).is_empty());
}

#[test]
fn blocks_wholly_unusable_are_left_out_and_others_are_not() {
    assert_eq!(
        walk("node-a", "10.0.0.0/24", 26, &["10.0.0.128/26", "10.0.0.64/27"]),
        ["10.0.0.192/26", "10.0.0.0/26", "10.0.0.64/26"]
    );
    assert!(walk("node-a", "10.0.0.0/24", 26, &["10.0.0.0/16"]).is_empty());
    assert!(
        walk("node-a", "255.255.255.0/24", 26, &["255.255.255.0/24"]).is_empty(),
        "up to the last address"
    );
    assert!(walk("node-a", "ffff::/16", 122, &["ffff::/16"]).is_empty(), "up to the last address");
}

#[test]
fn half_a_huge_pool_costs_one_step() {
    let pool = cidr("fd00::/64");
    let blocks = pool.subnet_count(122);
    for (half, other) in [("fd00::/65", "fd00:0:0:0:8000::/65"), ("fd00:0:0:0:8000::/65", "fd00::/65")] {
        let unusable = set(&[half]);
        for host in ["node-a", "node-b", "host-a", "load-balancer"] {
            let first = Walk::new(host, pool, 122, &unusable).next().expect("the other half is free");
            let at_start = pool.nth_subnet(122, start(host, blocks)).expect("within");
            let expected = if cidr(other).contains(at_start) {
                at_start
            } else {
                cidr(other).nth_subnet(122, 0).expect("within")
            };
            assert_eq!(first, expected, "{host}, {half} unusable");
        }
    }
}

/// A walk that tried block by block would not end.
#[test]
fn the_last_free_block_of_the_largest_pool_is_found() {
    let pool = cidr("::/0");
    for free in ["::40/122", "ffff::/122", "8000::/122", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffc0/122"] {
        let mut only = AddrSet::new();
        only.insert_cidr(cidr(free));
        let unusable = only.complement_in(pool);
        for host in ["node-a", "node-b", "host-a"] {
            assert_eq!(Walk::new(host, pool, 122, &unusable).collect::<Vec<_>>(), [cidr(free)], "{host}");
        }
    }
}

proptest! {
    #[test]
    fn each_usable_block_is_tried_exactly_once(
        host in "[a-z0-9.-]{0,20}",
        pool_prefix in 20u8..=32,
        depth in 0u8..=9,
        at_the_end: bool,
        ranges in prop::collection::vec((0u32..4200, 0u32..1500), 0..8),
    ) {
        let base = if at_the_end { u32::MAX << 12 } else { 0x0a00_1000 };
        let pool = Cidr::containing(Family::V4.address(base.into()), pool_prefix).expect("v4");
        let block_prefix = (pool_prefix + depth).min(32);
        let mut unusable = AddrSet::new();
        for (offset, length) in ranges {
            let first = base.saturating_add(offset);
            unusable.insert_range(
                Family::V4.address(first.into()),
                Family::V4.address(first.saturating_add(length).into()),
            );
        }
        let count = pool.subnet_count(block_prefix);
        let first = start(&host, count);
        prop_assert!(first < count);
        let expected: Vec<Cidr> = (first..count).chain(0..first)
            .filter_map(|position| pool.nth_subnet(block_prefix, position))
            .filter(|&block| !unusable.covers(block))
            .collect();
        let walked: Vec<Cidr> = Walk::new(&host, pool, block_prefix, &unusable).collect();
        prop_assert_eq!(walked.iter().collect::<BTreeSet<_>>().len(), walked.len());
        prop_assert_eq!(walked, expected);
    }
}
