//! Reservations, and the addresses that a subnet needs itself.

use host_affine::api::calico::IpReservation;
use host_affine::datastore::{Answer, Datastore, Key, Want, run_in_place};
use host_affine::ipam::{Error, OwnAddresses, PoolAsked};
use host_affine::net::{Cidr, Family};

use super::super::build::{Ask, any, at, cidr, exactly, ip, pool, reserve, strict};
use super::{Net, said};

/// Row 41.
#[test]
fn reserved_addresses_are_passed_over() {
    let mut net = Net::with(&[("p", "10.0.0.0/26", 26)]);
    reserve(net.store(), "r", &["10.0.0.1", "10.0.0.32/30", "10.0.0.17/32"]);
    let given = net.add_many("a", "c", 58);
    for reserved in ["10.0.0.1", "10.0.0.17", "10.0.0.32", "10.0.0.33", "10.0.0.34", "10.0.0.35"] {
        assert!(!given.iter().any(|given| given == reserved), "{reserved}");
    }
    let refusal = net.refused("a", "x");
    assert!(said(&refusal).contains("6 addresses are reserved"), "{}", said(&refusal));
    assert_eq!(net.ask(&Ask::new("a", "y").wanting([exactly("10.0.0.1")])).expect("asked for"), ["10.0.0.1"]);
}

/// Row 43.
#[test]
fn an_own_block_that_is_wholly_reserved_is_passed_over() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    net.add("a", "x");
    let block = net.blocks_of("a").remove(0);
    net.del("a", "x");
    reserve(net.store(), "r", &[&block]);
    let address = net.add("a", "y");
    assert!(!cidr(&block).contains_address(ip(&address)), "{address} is reserved");
}

/// Rows 73, 74: here reserved addresses that are in use count as in use.
#[test]
fn counts_add_up_and_overlapping_reservations_count_once() {
    let mut net = Net::with(&[("p", "10.0.0.0/24", 26)]);
    let address = net.add("a", "x");
    let block = net.blocks_of("a").remove(0);
    let other_half = if cidr("10.0.0.0/25").contains(cidr(&block)) { "10.0.0.128/25" } else { "10.0.0.0/25" };
    reserve(net.store(), "r", &[other_half]);
    let usage = run_in_place(net.ipam.usage(at(0))).expect("counts");
    let (pool, of_block) = (&usage.pools[0], &usage.pools[0].blocks[0]);
    assert_eq!((pool.capacity, pool.in_use, pool.free, pool.reserved), (256, 1, 127, 128));
    assert_eq!((of_block.capacity, of_block.in_use, of_block.free, of_block.reserved), (64, 1, 63, 0));
    reserve(net.store(), "r", &[&block, &format!("{address}/32")]);
    reserve(net.store(), "s", &[&block]);
    let usage = run_in_place(net.ipam.usage(at(0))).expect("counts");
    let (pool, of_block) = (&usage.pools[0], &usage.pools[0].blocks[0]);
    assert_eq!((pool.reserved, pool.in_use, pool.free), (63, 1, 192));
    assert_eq!((of_block.reserved, of_block.in_use, of_block.free), (63, 1, 0));
}

#[test]
fn no_block_that_is_wholly_reserved_is_ever_claimed() {
    let mut net = Net::with(&[("p4", "10.0.0.0/28", 30), ("p6", "fd74::/120", 124)]);
    reserve(net.store(), "r", &["fd74::/121", "10.0.0.0/30", "10.0.0.4"]);
    for number in 0..11 {
        let given = net.ask(&Ask::new("a", &format!("c{number}")).dual()).expect("an address of each");
        assert!(ip(&given[1]) >= ip("fd74::80"), "{given:?}");
        assert!(ip(&given[0]) >= ip("10.0.0.5"), "{given:?}");
    }
    net.refused("a", "x");
    assert!(net.block(cidr("10.0.0.0/30")).is_none());
}

/// As quick as without, for there is no address by address.
#[test]
fn huge_reservations_cost_nothing() {
    let mut net = Net::with(&[("p4", "10.0.0.0/8", 26), ("p6", "fd75::/64", 122)]);
    reserve(net.store(), "r4", &["10.0.0.0/9", "10.128.0.0/10", "10.192.0.0/11"]);
    reserve(net.store(), "r6", &["fd75::/65"]);
    for (host, id) in [("a", "1"), ("a", "2"), ("b", "3"), ("c", "4")] {
        let given = net.ask(&Ask::new(host, id).dual()).expect("an address of each");
        assert!(cidr("10.224.0.0/11").contains_address(ip(&given[0])), "{given:?}");
        assert!(cidr("fd75:0:0:0:8000::/65").contains_address(ip(&given[1])), "{given:?}");
    }
    let usage = run_in_place(net.ipam.usage(at(0))).expect("counts");
    assert_eq!(usage.pools[1].reserved, 1 << 63);
}

#[test]
fn a_subnet_keeps_its_network_broadcast_and_gateway_addresses() {
    let mut net = Net::with(&[]);
    let subnet = |id: &str| Ask {
        pools: vec![PoolAsked {
            pool: pool("p", "10.0.0.0/29", 30),
            name_given: false,
            block_size_given: false,
        }],
        gateways: Some(Vec::new()),
        ..Ask::new("a", id)
    };
    let mut given: Vec<_> =
        (0..5).map(|n| net.ask(&subnet(&format!("c{n}"))).expect("an address").remove(0)).collect();
    given.sort();
    assert_eq!(given, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
    assert!(matches!(net.ask(&subnet("x")), Err(Error::Exhausted { .. })));
    let gateway = net.ask(&Ask { wanted: vec![exactly("10.0.0.1")], ..subnet("x") });
    assert!(matches!(gateway, Err(Error::KeptBack { .. })), "{gateway:?}");
    let further = net.ask(&Ask { gateways: Some(vec![ip("10.0.0.4")]), ..subnet("y") });
    assert!(
        matches!(further, Err(Error::GatewayTaken { .. })),
        "a gateway that a container holds: {further:?}"
    );
    let key = Key::Reservation("p-subnet".into());
    let stored = run_in_place(net.store().read(&[Want::Object(key)])).expect("read").remove(0);
    let stored: IpReservation = Answer::object(stored).expect("a reservation").into();
    assert_eq!(stored.spec.reserved_cidrs, ["10.0.0.0/32", "10.0.0.7/32", "10.0.0.1/32"]);
}

/// A host whose own interfaces have one address of every block.
struct FirstOfEach;

impl OwnAddresses for FirstOfEach {
    fn within(&self, block: Cidr) -> Vec<std::net::IpAddr> {
        vec![block.first()]
    }
}

#[test]
fn a_host_never_gives_its_own_interfaces_addresses_to_a_container() {
    let mut net = Net::with(&[("p", "10.0.0.0/30", 31), ("q", "10.0.1.0/31", 32)]);
    let mut given = Vec::new();
    loop {
        let ask = Ask::new("a", &format!("c{}", given.len()));
        match run_in_place(ask.of_host_with(&mut net.ipam, &FirstOfEach)) {
            Ok(assigned) => given.push(assigned.addresses[0].address.to_string()),
            Err(error) => break assert!(matches!(error, Error::Exhausted { .. }), "{error}"),
        }
    }
    given.sort();
    assert_eq!(given, ["10.0.0.1", "10.0.0.3"], "blocks of one address are wholly the host's");
}

#[test]
fn a_block_that_changes_hands_keeps_back_what_its_new_host_has_itself() {
    for (block, expected) in [(31, Some("10.0.0.1")), (32, None)] {
        let mut net = Net::with(&[("p", if block == 31 { "10.0.0.0/31" } else { "10.0.0.0/32" }, block)]);
        strict(net.store());
        net.add("b", "x");
        net.del("b", "x");
        net.now = 3600;
        let ask = Ask::new("a", "y").after(3600);
        let given = run_in_place(ask.of_host_with(&mut net.ipam, &FirstOfEach));
        let given = given.ok().map(|assigned| assigned.addresses[0].address.to_string());
        assert_eq!(given.as_deref(), expected, "blocks of /{block}");
        assert_eq!(net.audit(), []);
    }
}

#[test]
fn ranges_of_a_network_bind_blocks_too() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    let mut usable = host_affine::net::AddrSet::new();
    usable.insert_range(ip("10.0.0.6"), ip("10.0.0.9"));
    let wanted = host_affine::ipam::Wanted { usable: Some(usable), ..any(Family::V4) };
    let ask = |id: usize| Ask::new("a", &format!("c{id}")).wanting([wanted.clone()]);
    let mut given: Vec<_> = (0..4).map(|id| net.ask(&ask(id)).expect("in range").remove(0)).collect();
    given.sort();
    assert_eq!(given, ["10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9"]);
    assert!(net.ask(&ask(4)).is_err());
    assert_eq!(net.blocks().len(), 2, "no block without a usable address is claimed");
}
