//! Which pool serves whom.

use host_affine::api::calico::{AllowedUse, AssignmentMode, IpPoolSpec};
use host_affine::ipam::{Error, PoolAsked, PoolChoice, Wanted};
use host_affine::net::Family;

use super::super::build::{Ask, any, cidr, configure, exactly, from, ip, pool, put_node, put_pool};
use super::{Net, said};

fn put(net: &mut Net, name: &str, range: &str, block: u8, change: impl FnOnce(&mut IpPoolSpec)) {
    let mut made = pool(name, range, block);
    change(&mut made.spec);
    put_pool(net.store(), made);
}

fn in_zone(zone: &str) -> impl FnOnce(&mut IpPoolSpec) + '_ {
    move |spec| spec.node_selector = Some(format!("zone == '{zone}'"))
}

/// Row 16.
#[test]
fn an_add_writes_no_configuration() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    net.add("a", "x");
    assert_eq!(net.store().revision(&host_affine::datastore::Key::Configuration), None);
}

/// Row 17.
#[test]
fn strict_without_new_blocks_is_obeyed_and_named() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    net.add("a", "x");
    configure(net.store(), |spec| {
        (spec.strict_affinity, spec.auto_allocate_blocks) = (Some(true), Some(false));
    });
    net.add_many("a", "c", 3);
    for host in ["a", "b"] {
        let refusal = said(&net.refused(host, "y"));
        assert!(refusal.contains("autoAllocateBlocks"), "{refusal}");
    }
}

/// Rows 18, 31.
#[test]
fn a_pool_that_does_not_select_the_host_gives_it_nothing_when_the_other_is_full() {
    let mut net = Net::with(&[]);
    put(&mut net, "a", "10.0.0.0/24", 26, in_zone("x"));
    put(&mut net, "b", "10.0.1.0/24", 26, in_zone("y"));
    put_node(net.store(), "n", &[("zone", "x")]);
    let given = net.add_many("n", "c", 256);
    assert!(given.iter().all(|given| cidr("10.0.0.0/24").contains_address(ip(given))));
    let refusal = said(&net.refused("n", "x"));
    assert!(refusal.contains("`a` (10.0.0.0/24)"), "{refusal}");
}

/// Row 21.
#[test]
fn an_empty_block_of_a_pool_that_no_longer_selects_its_host_goes_when_the_host_claims_another() {
    let mut net = Net::with(&[("b", "10.0.1.0/28", 30)]);
    put(&mut net, "a", "10.0.0.0/28", 30, in_zone("x"));
    put_node(net.store(), "n", &[("zone", "x")]);
    assert!(cidr("10.0.0.0/28").contains_address(ip(&net.add("n", "x"))));
    net.del("n", "x");
    put_node(net.store(), "n", &[("zone", "y")]);
    assert!(cidr("10.0.1.0/28").contains_address(ip(&net.add("n", "y"))));
    let blocks = net.blocks_of("n");
    assert!(blocks.len() == 1 && cidr("10.0.1.0/28").contains(cidr(&blocks[0])), "{blocks:?}");
    assert_eq!(net.audit(), []);
}

/// Row 23.
#[test]
fn a_request_for_one_pool_leaves_the_blocks_of_another_alone() {
    let mut net = Net::with(&[("a", "10.0.0.0/28", 30), ("b", "10.0.1.0/28", 30)]);
    net.add("n", "x");
    net.del("n", "x");
    net.ask(&Ask::new("n", "y").wanting([from(Family::V4, &["b"])])).expect("an address of b");
    assert_eq!(net.blocks_of("n").len(), 2);
}

/// Rows 24, 25.
#[test]
fn a_host_that_a_pool_no_longer_selects_gets_nothing_and_the_next_borrows() {
    let mut net = Net::with(&[]);
    put(&mut net, "p", "10.0.0.0/30", 30, in_zone("x"));
    put_node(net.store(), "one", &[("zone", "x")]);
    net.add_many("one", "c", 3);
    put_node(net.store(), "one", &[]);
    put_node(net.store(), "two", &[("zone", "x")]);
    let refusal = net.refused("one", "x");
    assert!(matches!(refusal, Error::NoUsablePool { .. }) && said(&refusal).contains("one"), "{refusal}");
    net.add("two", "y");
    assert_eq!((net.blocks_of("one"), net.blocks_of("two").len()), (vec!["10.0.0.0/30".to_owned()], 0));
}

/// Rows 36, 38, 79.
#[test]
fn a_pool_that_cannot_be_meant_fails_the_request_by_name() {
    let mut net = Net::with(&[("a", "10.0.0.0/28", 30), ("six", "fd00::/64", 122)]);
    let mut refusal =
        |wanted: Wanted| said(&net.ask(&Ask::new("n", "x").wanting([wanted])).expect_err("refused"));
    assert!(refusal(from(Family::V6, &["a"])).contains("`a`"));
    assert!(refusal(from(Family::V4, &["a", "unknown"])).contains("`unknown`"));
    put(&mut net, "z", "10.0.9.0/28", 30, |spec| spec.node_selector = Some("zone ==".into()));
    let broken = said(&net.refused("n", "x"));
    assert!(broken.contains("`z`") && broken.contains("nodeSelector"), "{broken}");
    assert_eq!(net.blocks().len(), 0);
}

/// Row 35: more lenient here: a disabled pool beside another is passed over, and alone it is named.
#[test]
fn a_disabled_pool_that_was_asked_for_gives_nothing() {
    let mut net = Net::with(&[("a", "10.0.0.0/28", 30)]);
    put(&mut net, "c", "10.0.2.0/28", 30, |spec| spec.disabled = true);
    let mut ask = |pools: &[&str], id: &str| net.ask(&Ask::new("n", id).wanting([from(Family::V4, pools)]));
    let given = ask(&["c", "a"], "x").expect("an address of a").remove(0);
    assert!(cidr("10.0.0.0/28").contains_address(ip(&given)));
    let alone = said(&ask(&["c"], "y").expect_err("disabled"));
    assert!(alone.contains("`c` (10.0.2.0/28) is disabled"), "{alone}");
}

/// Rows 37, 39, 40.
#[test]
fn pools_that_are_asked_for_come_in_that_order_whatever_they_select() {
    let mut net = Net::with(&[("a", "10.0.0.0/28", 30), ("b", "10.0.1.0/28", 30)]);
    put(&mut net, "c", "10.0.2.0/28", 30, in_zone("x"));
    put(&mut net, "d", "10.0.3.0/28", 30, |spec| spec.assignment_mode = Some(AssignmentMode::Manual));
    for (number, pools, range) in [
        (0, ["b", "a"].as_slice(), "10.0.1.0/28"),
        (1, &["c"], "10.0.2.0/28"),
        (2, &["d"], "10.0.3.0/28"),
        (3, &["10.0.2.5/28"], "10.0.2.0/28"),
    ] {
        let ask = Ask::new("n", &format!("c{number}")).wanting([from(Family::V4, pools)]);
        let given = net.ask(&ask).expect("an address").remove(0);
        assert!(cidr(range).contains_address(ip(&given)), "{given} of {pools:?}");
    }
}

/// Rows 48, 49.
#[test]
fn pools_that_do_not_serve_workloads_give_them_nothing() {
    let mut net = Net::with(&[]);
    put(&mut net, "t", "10.0.0.0/28", 30, |spec| spec.allowed_uses = vec![AllowedUse::Tunnel]);
    let refusal = said(&net.refused("n", "x"));
    assert!(refusal.contains("allowedUses"), "{refusal}");
    assert!(net.ask(&Ask::new("n", "x").wanting([exactly("10.0.0.1")])).is_err());
}

/// Row 78.
#[test]
fn a_pool_for_some_namespaces_is_not_for_a_container_without_one() {
    let mut net = Net::with(&[]);
    put(&mut net, "a", "10.0.0.0/28", 30, |spec| spec.namespace_selector = Some("has(team)".into()));
    put(&mut net, "b", "10.0.1.0/28", 30, |spec| spec.namespace_selector = Some("!has(team)".into()));
    assert!(cidr("10.0.1.0/28").contains_address(ip(&net.add("n", "x"))));
}

/// The places are those of the reference engine: hosts that run either seldom meet.
#[test]
fn the_first_block_of_a_host_is_where_the_reference_engine_begins() {
    for (host, first, next) in [
        ("node-a", "10.0.0.128/26", "10.0.0.192/26"),
        ("node-b", "10.0.0.64/26", "10.0.0.128/26"),
        ("host-a", "10.0.0.0/26", "10.0.0.64/26"),
    ] {
        let mut net = Net::with(&[("p", "10.0.0.0/24", 26), ("q", "fd00::/64", 122)]);
        net.add_many(host, "c", 64);
        assert_eq!(net.blocks_of(host), [first]);
        net.add(host, "one-more");
        assert!(net.blocks_of(host).contains(&next.to_owned()), "{host}: {:?}", net.blocks_of(host));
    }
    // 251,070,522,519,304,890 blocks of 64 addresses from the beginning.
    let mut net = Net::with(&[("q", "fd00::/64", 122)]);
    net.ask(&Ask::new("node-a", "x").wanting([any(Family::V6)])).expect("an address");
    let start = cidr("fd00::/64").nth_subnet(122, 251_070_522_519_304_890).expect("within");
    assert_eq!(net.blocks_of("node-a"), [start.to_string()]);
}

/// Row 70.
#[test]
fn the_longest_host_names_work() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30), ("q", "fd00::/124", 126)]);
    let (one, other) = ("n".repeat(252), format!("{}m", "n".repeat(251)));
    net.ask(&Ask::new(&one, "x").dual()).expect("both families");
    net.ask(&Ask::new(&other, "y").dual()).expect("both families");
    assert_eq!((net.blocks_of(&one).len(), net.blocks_of(&other).len()), (2, 2));
}

#[test]
fn a_network_brings_its_pools_and_takes_those_of_others_as_they_are() {
    let mut net = Net::with(&[]);
    let ask = |id: &str, name: &str, range: &str, block, name_given| Ask {
        pools: vec![PoolAsked { pool: pool(name, range, block), name_given, block_size_given: true }],
        wanted: vec![Wanted { choice: PoolChoice::OfNetwork(vec![cidr(range)]), ..any(Family::V4) }],
        ..Ask::new("n", id)
    };
    net.ask(&ask("x", "p", "10.0.0.0/24", 28, false)).expect("made");
    net.ask(&ask("y", "other", "10.0.0.0/24", 28, false)).expect("taken as it is");
    let named = net.ask(&ask("z", "other", "10.0.0.0/24", 28, true));
    assert!(matches!(named, Err(Error::PoolDiffers { property: "name", .. })), "{named:?}");
    let sized = net.ask(&ask("z", "p", "10.0.0.0/24", 29, false));
    assert!(matches!(sized, Err(Error::PoolDiffers { property: "blockSize", .. })), "{sized:?}");
    let overlapping = net.ask(&ask("z", "q", "10.0.0.0/25", 28, false));
    assert!(matches!(overlapping, Err(Error::PoolsOverlap { .. })), "{overlapping:?}");
    assert_eq!(net.audit(), []);
}
