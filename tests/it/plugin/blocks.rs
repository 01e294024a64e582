//! Who gets which block, how many, and what is said when there is none.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;

use host_affine::api::calico::IpamConfigurationSpec;
use serde_json::json;

use crate::support::cni::{Network, all_different, is_release_build};
use crate::support::store::{Lab, View, configure};

fn strict(max_blocks_per_host: Option<u32>) -> IpamConfigurationSpec {
    IpamConfigurationSpec { strict_affinity: Some(true), max_blocks_per_host, ..Default::default() }
}

/// Adds containers `first`, `first + 1`, … until one is refused, several at a time; their addresses.
fn fill(network: &Network, count: usize) -> Vec<IpAddr> {
    const WORKERS: usize = 3;
    let one_worker = |worker: usize| -> Vec<IpAddr> {
        (worker..count).step_by(WORKERS).map(|n| network.add(&format!("c{n}")).address()).collect()
    };
    let one_worker = &one_worker;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || one_worker(worker))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("every ADD succeeds")).collect()
    })
}

#[test]
fn one_host_fills_a_whole_pool_though_only_twenty_blocks_are_its_own() {
    let lab = Lab::in_memory();
    // 64 blocks either way; the build for tests is ten times as slow, and gets smaller ones.
    // The long run: a /16, on request.
    let whole_16 = std::env::var_os("HOST_AFFINE_FILL_16").is_some();
    let (cidr, block_size, blocks) = match (whole_16, is_release_build()) {
        (true, _) => ("10.201.0.0/16", 26, 1024),
        (false, true) => ("10.201.0.0/20", 26, 64),
        (false, false) => ("10.201.0.0/22", 28, 64),
    };
    let pools = json!([{ "cidr": cidr, "blockSize": block_size }]);
    let network = Network::new("pods", &lab.store(), &pools).unflushed();
    // All but the network's own address, its gateway and its broadcast address.
    let count = (blocks << (32 - block_size)) - 3;
    let addresses = all_different(fill(&network, count));
    assert_eq!(addresses.len(), count);
    let refusal = network.add("one-too-many").refused();
    assert_eq!(refusal.code, 101);
    refusal.says(&[cidr, "node-1"]);

    let view = View::of(&lab.store()).sound();
    assert_eq!(view.held.keys().copied().collect::<BTreeSet<_>>(), addresses);
    assert_eq!((view.blocks_of("node-1"), view.blocks.len()), (20, blocks));
}

#[test]
fn with_strict_affinity_a_host_stops_at_its_limit_and_says_which_limit() {
    let lab = Lab::in_memory();
    configure(&lab.store(), strict(None));
    let pools = json!([{ "cidr": "10.201.16.0/22", "blockSize": 30 }]);
    let network = Network::new("pods", &lab.store(), &pools).unflushed();
    let mut given = 0;
    let refusal = loop {
        let answer = network.add(&format!("c{given}"));
        if !answer.is_success() {
            break answer.refused();
        }
        given += 1;
        assert!(given <= 80, "20 blocks of 4 have no more");
    };
    assert_eq!(refusal.code, 103);
    refusal.says(&["20", "maxBlocksPerHost", "node-1"]);
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.held.len(), view.blocks_of("node-1"), view.blocks.len()), (given, 20, 20));
    // Of its blocks at most two hold an address that is the network's own.
    assert!(given >= 77, "{given}");
}

#[test]
fn a_limit_binds_new_blocks_only() {
    let lab = Lab::in_memory();
    configure(&lab.store(), strict(Some(1)));
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.64.2.0/26", "blockSize": 30 }]));
    let network = network.unflushed();
    let first: Vec<IpAddr> = (0..4)
        .map_while(|n| {
            let answer = network.add(&format!("m{n}"));
            answer.is_success().then(|| answer.address())
        })
        .collect();
    let refusal = network.add("m5").refused();
    assert_eq!(refusal.code, 103);
    refusal.says(&["node-1", "maxBlocksPerHost", "1"]);

    network.del("m0").succeeded();
    assert_eq!(network.add("m6").address(), first[0], "room in the block counts");
    configure(&lab.store(), strict(Some(2)));
    network.add("m7").succeeded();
    configure(&lab.store(), strict(Some(1)));
    network.add("m8").succeeded();
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.blocks_of("node-1"), view.held.len()), (2, first.len() + 2), "nothing was revoked");
}

#[test]
fn hosts_of_one_store_have_blocks_of_their_own() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.201.32.0/24" }]));
    let (one, two) = (network.on("host-a"), network.on("host-b"));
    let mut given = Vec::new();
    for n in 0..10 {
        given.push(one.add(&format!("a{n}")).address());
        given.push(two.add(&format!("b{n}")).address());
    }
    all_different(given);
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.blocks_of("host-a"), view.blocks_of("host-b"), view.blocks.len()), (1, 1, 2));
    for block in &view.blocks {
        let of_block = view.held.iter().filter(|(address, _)| block.cidr.contains_address(**address));
        let nodes: BTreeSet<&str> = of_block.map(|(_, holder)| holder.node.as_str()).collect();
        assert_eq!(nodes.len(), 1, "block {} serves {nodes:?}", block.cidr);
    }
}

#[test]
fn a_strict_host_without_a_block_is_told_who_has_them_and_what_to_do() {
    let lab = Lab::in_memory();
    configure(&lab.store(), strict(None));
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.201.33.0/25", "blockSize": 27 }]));
    for (n, node) in ["node-1", "node-1", "node-2", "node-3"].iter().enumerate() {
        let network = network.on(node);
        // Fills the first block of node-1, so that it takes a second one.
        let count = if n == 0 { 32 } else { 1 };
        for m in 0..count {
            network.add(&format!("{node}-{n}-{m}")).succeeded();
        }
    }
    let before = View::of(&lab.store()).sound();
    assert_eq!((before.blocks.len(), before.blocks_of("node-1")), (4, 2));
    let refusal = network.on("node-4").add("late").refused();
    assert_eq!(refusal.code, 102);
    refusal.says(&["node-4", "10.201.33.0/25", "strict", "hint:"]);
    // Of the two blocks of node-1 one is full.
    refusal.says(&["90 addresses are free", "node-1 (1)", "node-2 (1)", "node-3 (1)"]);
    assert_eq!(View::of(&lab.store()).held, before.held);

    configure(&lab.store(), IpamConfigurationSpec::default());
    let borrowed = network.on("node-4").add("late").address();
    let view = View::of(&lab.store()).sound();
    assert_eq!(view.held[&borrowed].node, "node-4");
    assert_eq!(view.blocks_of("node-4"), 0, "a borrowed block stays the other host's");
}

#[test]
fn a_loan_stays_valid_when_borrowing_is_forbidden_later() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.64.3.0/28", "blockSize": 28 }]));
    let (owner, borrower) = (network.on("n1"), network.on("n2"));
    owner.add("o1").succeeded();
    let loan = borrower.add("l1").address();
    borrower.add("l2").succeeded();
    let loans = |view: &View| view.usage.pools[0].blocks[0].borrowed.clone();
    assert_eq!(loans(&View::of(&lab.store()).sound()), [("n2".to_owned(), 2)]);

    configure(&lab.store(), strict(None));
    let refusal = borrower.add("l3").refused();
    assert_eq!(refusal.code, 102);
    refusal.says(&["strict", "n1"]);
    owner.add("o2").succeeded();
    assert_eq!(borrower.add("l1").address(), loan, "asked again, it has what it had");
    borrower.del("l1").succeeded();
    assert_eq!(loans(&View::of(&lab.store()).sound()), [("n2".to_owned(), 1)]);
}

#[test]
fn the_family_that_is_short_is_named_and_the_other_loses_nothing() {
    let lab = Lab::in_memory();
    for (short, pools) in [
        ("fd61:2::/126", json!([{ "cidr": "10.61.2.0/27" }, { "cidr": "fd61:2::/126", "blockSize": 126 }])),
        ("10.61.3.0/30", json!([{ "cidr": "10.61.3.0/30", "blockSize": 30 }, { "cidr": "fd61:3::/122" }])),
    ] {
        let network = Network::new("dual", &lab.path().join(short.replace('/', "-")), &pools);
        let mut given = Vec::new();
        let refusal = loop {
            let answer = network.add(&format!("a{}", given.len()));
            if !answer.is_success() {
                break answer.refused();
            }
            given.push(answer.addresses());
        };
        refusal.says(&[short]);
        assert_eq!(refusal.code, 101);
        assert!(!given.is_empty() && given.iter().all(|pair| pair.len() == 2), "{given:?}");
        let view = View::of(&lab.path().join(short.replace('/', "-"))).sound();
        assert_eq!(view.held.len(), 2 * given.len());
    }
}

#[test]
fn the_address_that_was_freed_last_is_given_last() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.62.3.0/28", "blockSize": 28 }]));
    network.add("keep").succeeded();
    let once: Vec<IpAddr> = (0..12)
        .map(|n| {
            let address = network.add(&format!("j{n}")).address();
            network.del(&format!("j{n}")).succeeded();
            address
        })
        .collect();
    assert_eq!(all_different(once).len(), 12);
}

#[test]
fn a_successor_of_the_same_name_keeps_its_address_when_the_old_sandbox_is_deleted_late() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.62.1.0/28", "blockSize": 28 }]));
    let of_pod = "IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=db-0";
    let old = network.call("ADD", "c-old").variable("CNI_ARGS", of_pod).run().address();
    let new = network.call("ADD", "c-new").variable("CNI_ARGS", of_pod).run().address();
    network.call("DEL", "c-old").variable("CNI_ARGS", of_pod).run().succeeded();
    let mut rest = BTreeSet::new();
    for n in 0.. {
        let answer = network.add(&format!("x{n}"));
        if !answer.is_success() {
            break;
        }
        rest.insert(answer.address());
    }
    assert!(!rest.contains(&new) && rest.contains(&old), "{old} {new} {rest:?}");
    assert_eq!(rest.len(), 16 - 3 - 1);
}
