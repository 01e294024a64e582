//! Many calls at once, and many networks side by side.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use serde_json::json;

use crate::support::cni::{Answer, Call, Network, all_different, at_once};
use crate::support::store::{Lab, View};

#[test]
fn a_hundred_containers_start_and_stop_at_once_on_a_store_that_does_not_exist_yet() {
    let lab = Lab::new();
    let pools = json!([{ "cidr": "10.71.64.0/18" }, { "cidr": "fd71:64::/64" }]);
    let network = Network::new("pods", &lab.store(), &pools);
    let calls =
        |verb: &str| -> Vec<Call> { (0..100).map(|n| network.call(verb, &format!("u{n}"))).collect() };

    let answers = at_once(&calls("ADD"));
    let given = all_different(answers.into_iter().flat_map(Answer::addresses));
    assert_eq!(given.len(), 200);
    let view = View::of(&lab.store()).sound();
    assert_eq!(view.held.keys().copied().collect::<BTreeSet<_>>(), given);
    assert_eq!((view.handles, view.blocks.len()), (100, 4), "two blocks of each family hold 100");

    for answer in at_once(&calls("DEL")) {
        assert_eq!(answer.succeeded().stdout, "");
    }
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.held.len(), view.handles), (0, 0));
    for pool in &view.usage.pools {
        assert!(pool.blocks.len() <= 1, "{} keeps {} blocks", pool.cidr, pool.blocks.len());
    }
}

#[test]
fn adds_and_deletions_at_once_on_several_hosts_never_share_an_address() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.62.0.0/26", "blockSize": 30 }]));
    let network = network.unflushed();
    // As many hosts as there are blocks, which all reach for one at the same instant.
    for round in 0..3 {
        let calls: Vec<Call> =
            (0..16).map(|n| network.on(&format!("n{n}")).call("ADD", &format!("r{round}-n{n}"))).collect();
        all_different(at_once(&calls).into_iter().map(Answer::address));
    }
    let view = View::of(&lab.store()).sound();
    assert_eq!(view.held.len(), 48);

    let mut calls = Vec::new();
    for n in 0..16 {
        let network = network.on(&format!("n{n}"));
        calls.push(network.call("DEL", &format!("r0-n{n}")));
        calls.push(network.call("ADD", &format!("late-n{n}")));
        calls.push(network.call("DEL", &format!("r1-n{n}")));
    }
    // An ADD that comes before the deletions finds the pool nearly full; it is served or refused, and nothing else.
    let answers = at_once(&calls);
    let (added, deleted): (Vec<_>, Vec<_>) = answers.into_iter().enumerate().partition(|(n, _)| n % 3 == 1);
    for (_, answer) in deleted {
        answer.succeeded();
    }
    let mut given = BTreeSet::new();
    for (_, answer) in added {
        if answer.is_success() {
            assert!(given.insert(answer.address()), "given twice");
        } else {
            assert_eq!(answer.refused().code, 101);
        }
    }
    let view = View::of(&lab.store()).sound();
    let late: BTreeSet<IpAddr> = view
        .held
        .iter()
        .filter(|(_, holder)| holder.container.starts_with("late"))
        .map(|(a, _)| *a)
        .collect();
    assert_eq!(late, given);
    assert_eq!(view.held.len(), 16 + given.len());
}

#[test]
fn somebody_who_removes_the_lock_all_the_time_lets_no_two_in() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.72.4.0/23" }])).unflushed();
    network.add("first").succeeded();
    let done = AtomicBool::new(false);
    let lock = lab.store().join("lock");
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::remove_file(&lock);
            }
        });
        let calls: Vec<Call> = (0..80).map(|n| network.call("ADD", &format!("u{n}"))).collect();
        let answers = at_once(&calls);
        done.store(true, Ordering::Relaxed);
        all_different(answers.into_iter().map(Answer::address));
    });
    assert_eq!(View::of(&lab.store()).sound().held.len(), 81);
}

#[test]
fn networks_whose_names_are_alike_never_meet() {
    let lab = Lab::in_memory();
    let mut names = Vec::new();
    for stem in ["pods", "Pods", "PODS", "pOds", "podS"] {
        for end in ["", ".", "-", "_", "..", "--", "._", "-."] {
            names.push(format!("{stem}{end}"));
        }
    }
    assert_eq!(names.len(), 40);
    let pools = json!([{ "cidr": "10.72.0.0/24" }]);
    let networks: Vec<Network> =
        names.iter().map(|name| Network::new(name, &lab.store(), &pools).unflushed()).collect();
    let given: Vec<IpAddr> = networks.iter().map(|network| network.add("same").address()).collect();
    all_different(given.clone());
    for (network, address) in networks.iter().zip(&given) {
        assert_eq!(network.add("same").address(), *address, "each finds its own again");
    }
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.held.len(), view.handles), (40, 40));

    for (n, (network, address)) in networks.iter().zip(&given).enumerate() {
        network.del("same").succeeded();
        let left = View::of(&lab.store()).held;
        assert!(!left.contains_key(address) && left.len() == 39 - n, "{}: {left:?}", names[n]);
    }
    assert_eq!(View::of(&lab.store()).sound().handles, 0);
}

#[test]
fn a_dot_in_a_name_does_not_make_two_attachments_one() {
    let lab = Lab::in_memory();
    let pools = json!([{ "cidr": "10.72.1.0/24" }]);
    let network = |name: &str| Network::new(name, &lab.store(), &pools);
    // Calico's handle of both is `a.b.c`.
    let (short, long) = (network("a"), network("a.b"));
    let one = short.add("b.c").address();
    let two = long.add("c").address();
    assert_ne!(one, two);
    assert_eq!((short.add("b.c").address(), long.add("c").address()), (one, two));
    short.del("b.c").succeeded();
    assert_eq!(View::of(&lab.store()).sound().held.keys().copied().collect::<Vec<_>>(), [two]);
    assert_eq!(long.add("c").address(), two);
    long.del("c").succeeded();
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.held.len(), view.handles), (0, 0));
}

#[test]
fn two_interfaces_of_a_container_on_one_network_are_two_attachments() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.72.2.0/24" }]));
    let calls = [network.call("ADD", "c").ifname("eth0"), network.call("ADD", "c").ifname("eth1")];
    let given = all_different(at_once(&calls).into_iter().map(Answer::address));
    assert_eq!(given.len(), 2);
    network.call("DEL", "c").ifname("eth1").run().succeeded();
    let view = View::of(&lab.store()).sound();
    let left: Vec<&str> = view.held.values().map(|holder| holder.ifname.as_str()).collect();
    assert_eq!(left, ["eth0"]);
}

#[test]
fn ids_of_any_length_and_look_stay_within_the_store() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.69.2.0/28", "blockSize": 28 }]));
    let ids = ["kata_0A1B-x.y".to_owned(), "UPPERlower123".to_owned(), "a".repeat(3000), "a".repeat(3001)];
    let given: Vec<IpAddr> = ids.iter().map(|id| network.add(id).address()).collect();
    all_different(given.clone());
    for (id, address) in ids.iter().zip(given) {
        assert_eq!(network.add(id).address(), address);
        assert_eq!(View::of(&lab.store()).of_container(id), [address]);
        network.del(id).succeeded();
    }
    for id in ["bad/../id", "-lead", "..", "trail\n", ""] {
        assert_eq!(network.add(id).refused().code, 4, "{id:?}");
    }
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.held.len(), view.handles), (0, 0));
    let beside: Vec<_> = fs::read_dir(lab.path()).expect("a directory").collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}
