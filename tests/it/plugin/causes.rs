//! Why there is no address: each cause has a code and words of its own, and names what would have to change.

use std::collections::BTreeSet;
use std::net::IpAddr;

use host_affine::api::calico::{IpReservation, IpReservationSpec};
use host_affine::datastore::file::{Access, IfAbsent};
use host_affine::datastore::{Batch, Commit, Datastore as _, Key, run_in_place};
use serde_json::{Value, json};

use crate::support::cni::{Network, Refusal, all_different};
use crate::support::store::{Lab, View, configure, open};

/// Writes a reservation, as an administrator does.
fn reserve(lab: &Lab, name: &str, cidrs: &[&str]) {
    let mut store = open(&lab.store(), Access::Change, IfAbsent::Create).expect("it is made");
    let reserved_cidrs = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
    let spec = IpReservationSpec { reserved_cidrs, ..Default::default() };
    let mut batch = Batch::default();
    batch.create(Key::Reservation(name.to_owned()), IpReservation::new(name, spec));
    assert_eq!(run_in_place(store.commit(batch)).expect("committed"), Commit::Applied);
}

fn pods(lab: &Lab, pools: &Value) -> Network {
    Network::new("pods", &lab.store(), pools)
}

/// A pool of four addresses, of which one is usable once the network has its own.
fn tiny(more: &Value) -> Value {
    let mut pool = json!({ "cidr": "10.209.0.0/30", "blockSize": 30 });
    for (key, value) in more.as_object().expect("an object") {
        pool[key] = value.clone();
    }
    json!([pool])
}

#[test]
fn six_causes_have_six_codes_and_each_names_the_host_and_what_is_concerned() {
    let mut causes: Vec<Refusal> = Vec::new();
    let mut note = |refusal: Refusal, words: &[&str]| {
        refusal.says(words);
        causes.push(refusal);
    };
    // No pool at all, only disabled ones, none that selects this host.
    let lab = Lab::in_memory();
    let mut without = pods(&lab, &json!(null));
    without.conf["ipam"].as_object_mut().expect("an object").remove("pools");
    note(without.add("c").refused(), &["no", "pool", "node-1"]);
    let lab = Lab::in_memory();
    note(
        pods(&lab, &tiny(&json!({ "disabled": true }))).add("c").refused(),
        &["10.209.0.0/30", "disabled", "node-1"],
    );
    let lab = Lab::in_memory();
    let selecting = pods(&lab, &tiny(&json!({ "nodeSelector": "zone == 'x'" })));
    note(selecting.add("c").refused(), &["10.209.0.0/30", "zone == 'x'", "node-1"]);

    // Full; free, but another host's; free, but beyond the limit.
    let lab = Lab::in_memory();
    let full = pods(&lab, &tiny(&json!({})));
    full.add("c").succeeded();
    note(full.add("d").refused(), &["10.209.0.0/30", "node-1"]);
    let lab = Lab::in_memory();
    let strict = |max| host_affine::api::calico::IpamConfigurationSpec {
        strict_affinity: Some(true),
        max_blocks_per_host: max,
        ..Default::default()
    };
    configure(&lab.store(), strict(None));
    let shared = pods(&lab, &json!([{ "cidr": "10.209.0.0/28", "blockSize": 28 }]));
    shared.add("c").succeeded();
    note(shared.on("node-2").add("d").refused(), &["10.209.0.0/28", "node-2", "node-1 (1)", "strict"]);
    let lab = Lab::in_memory();
    configure(&lab.store(), strict(Some(1)));
    let limited = pods(&lab, &json!([{ "cidr": "10.209.0.0/27", "blockSize": 30 }]));
    let refusal = (0..5).map(|n| limited.add(&format!("c{n}"))).find(|answer| !answer.is_success());
    note(refusal.expect("a block has four").refused(), &["10.209.0.0/27", "node-1", "maxBlocksPerHost", "1"]);

    let codes: Vec<u64> = causes.iter().map(|cause| cause.code).collect();
    assert_eq!(codes, [104, 105, 106, 101, 102, 103]);
    let messages: BTreeSet<String> = causes.iter().map(|c| format!("{}\n{}", c.msg, c.details)).collect();
    assert_eq!(messages.len(), 6);
}

#[test]
fn a_requested_address_that_is_taken_is_refused_with_its_holder() {
    let lab = Lab::in_memory();
    let network = pods(&lab, &json!([{ "cidr": "10.209.1.0/28", "blockSize": 28 }]));
    let ask = |container: &str, pod: &str, address: &str| {
        let words = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME={pod};IP={address}");
        network.call("ADD", container).variable("CNI_ARGS", words).run()
    };
    let wanted: IpAddr = "10.209.1.5".parse().expect("an address");
    assert_eq!(ask("c1", "a", "10.209.1.5").address(), wanted);
    let refusal = ask("c2", "b", "10.209.1.5").refused();
    assert_eq!(refusal.code, 107);
    refusal.says(&["10.209.1.5", "prod", "a", "c1", "node-1"]);
    // The same pod in a new sandbox, while the old one was never deleted.
    assert_eq!(ask("c1b", "a", "10.209.1.5").refused().code, 107);
    assert_eq!(View::of(&lab.store()).sound().held.len(), 1);
    network.gc_call(&["c1b"]).run().succeeded();
    assert_eq!(ask("c1b", "a", "10.209.1.5").address(), wanted);
    let refusal = ask("c3", "c", "10.209.1.1").refused();
    assert_eq!(refusal.code, 109);
    refusal.says(&["10.209.1.1"]);
    let refusal = ask("c3", "c", "10.99.0.1").refused();
    assert_eq!(refusal.code, 108);
    refusal.says(&["10.99.0.1", "10.209.1.0/28"]);
    assert_eq!(View::of(&lab.store()).sound().held.len(), 1);
}

#[test]
fn an_address_that_was_asked_for_counts_against_the_hosts_blocks_too() {
    let lab = Lab::in_memory();
    configure(
        &lab.store(),
        host_affine::api::calico::IpamConfigurationSpec {
            strict_affinity: Some(true),
            max_blocks_per_host: Some(1),
            ..Default::default()
        },
    );
    let network = pods(&lab, &json!([{ "cidr": "10.209.2.0/24", "blockSize": 28 }]));
    let given = network.add("c").address();
    let elsewhere = if given < "10.209.2.128".parse::<IpAddr>().expect("an address") {
        "10.209.2.200"
    } else {
        "10.209.2.20"
    };
    let asked = network.call("ADD", "d").variable("CNI_ARGS", format!("IgnoreUnknown=1;IP={elsewhere}"));
    let refusal = asked.run().refused();
    assert_eq!(refusal.code, 103);
    refusal.says(&[elsewhere, "maxBlocksPerHost", "1"]);
    assert_eq!(View::of(&lab.store()).sound().blocks.len(), 1);
}

#[test]
fn reserved_addresses_are_not_given_and_a_block_that_has_no_others_is_not_claimed() {
    let lab = Lab::in_memory();
    reserve(&lab, "r1", &["fd74::/121", "10.209.3.0/30", "10.209.3.4"]);
    let pools =
        json!([{ "cidr": "fd74::/120", "blockSize": 124 }, { "cidr": "10.209.3.0/28", "blockSize": 30 }]);
    let network = pods(&lab, &pools);
    // .5 to .14: the first block is reserved, and the last address is the broadcast address.
    let given: Vec<Vec<IpAddr>> = (0..10).map(|n| network.add(&format!("r{n}")).addresses()).collect();
    let given = all_different(given.into_iter().flatten());
    let upper: IpAddr = "fd74::80".parse().expect("an address");
    assert!(given.iter().filter(|address| address.is_ipv6()).all(|address| *address >= upper), "{given:?}");
    let v4: Vec<String> = given.iter().filter(|address| address.is_ipv4()).map(ToString::to_string).collect();
    let expected: Vec<String> = (5..15).map(|last| format!("10.209.3.{last}")).collect();
    assert_eq!(v4.iter().collect::<BTreeSet<_>>(), expected.iter().collect());
    assert_eq!(network.add("r12").refused().code, 101);
    let view = View::of(&lab.store()).sound();
    let reserved = |cidr: &str| view.blocks.iter().any(|block| block.cidr.to_string() == cidr);
    assert!(!reserved("10.209.3.0/30"), "a block that is wholly reserved was claimed");
    assert!(view.blocks.iter().all(|b| !b.cidr.contains_address("fd74::1".parse().expect("an address"))));
}

#[test]
fn a_very_large_reservation_is_passed_over_at_once() {
    let lab = Lab::in_memory();
    reserve(&lab, "r4", &["10.0.0.0/9", "10.128.0.0/10", "10.192.0.0/11"]);
    reserve(&lab, "r6", &["fd75::/65"]);
    let network = pods(&lab, &json!([{ "cidr": "10.0.0.0/8", "blockSize": 26 }, { "cidr": "fd75::/64" }]));
    for (n, node) in ["n1", "n1", "n2", "n3", "n4"].iter().enumerate() {
        let given = network.on(node).add(&format!("f{n}")).addresses();
        let (first, last): (IpAddr, IpAddr) =
            ("10.224.0.0".parse().expect("an address"), "10.255.255.255".parse().expect("an address"));
        assert!((first..=last).contains(&given[0]), "{given:?}");
        assert!(given[1] >= "fd75::8000:0:0:0".parse::<IpAddr>().expect("an address"), "{given:?}");
    }
    View::of(&lab.store()).sound();
}

#[test]
fn a_pool_that_is_added_when_the_first_is_full_serves_at_once() {
    let lab = Lab::in_memory();
    configure(
        &lab.store(),
        host_affine::api::calico::IpamConfigurationSpec { strict_affinity: Some(true), ..Default::default() },
    );
    let one = json!({ "cidr": "10.209.64.0/25", "blockSize": 30 });
    let two = json!({ "cidr": "10.209.96.0/25", "blockSize": 30 });
    let (before, after) = (pods(&lab, &json!([one])).unflushed(), pods(&lab, &json!([one, two])).unflushed());
    for n in 0..32 {
        before.on(&format!("n{n}")).add(&format!("z{n}")).succeeded();
    }
    let refusal = before.on("new").add("late").refused();
    assert_eq!(refusal.code, 102);
    let given = after.on("new").add("late").address();
    assert!(given >= "10.209.96.0".parse::<IpAddr>().expect("an address"), "{given}");
}
