//! A cluster in Calico's own words: read, allocated from, and written back without a loss.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::cli::support::Store;

const BLOCK: &str = "/calico/ipam/v2/assignment/ipv4/block/10.244.3.64-26";

/// Everything of the cluster, by key.
fn written() -> BTreeMap<String, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/etcd/cluster.json");
    let text = std::fs::read_to_string(file).expect("the cluster");
    let all: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text).expect("keys and values");
    all.into_iter().map(|(key, value)| (key, value.get().to_owned())).collect()
}

/// An etcd with the cluster in it.
fn cluster() -> Option<Store> {
    let store = Store::in_etcd()?;
    for (key, value) in written() {
        store.etcd().put(&key, &value);
    }
    // What Calico wrote of a host long ago: a key, and nothing in it.
    store.etcd().put("/calico/ipam/v2/host/worker-1", "");
    Some(store)
}

fn value_at(store: &Store, key: &str) -> String {
    let found = store.etcd().list(key).into_iter().find(|(found, _)| found == key);
    found.unwrap_or_else(|| panic!("nothing stands at {key}")).1
}

fn json_at(store: &Store, key: &str) -> Value {
    serde_json::from_str(&value_at(store, key)).expect("JSON")
}

/// Everything that the cluster began with and that is not as it was.
fn changed(store: &Store) -> Vec<String> {
    let now: BTreeMap<String, String> = store.etcd().list("/calico/").into_iter().collect();
    let is_other = |(key, value): &(String, String)| now.get(key) != Some(value);
    written().into_iter().filter(is_other).map(|(key, _)| key).collect()
}

#[test]
fn a_pod_gets_an_address_of_calicos_block_and_gives_it_back() {
    let Some(store) = cluster() else { return };
    let network = store.network("worker-1", &json!([]));
    let added = store.add("ours", &network);
    assert_eq!(added["ips"][0]["address"], "10.244.3.70/32", "the first that is free and not reserved");
    assert_eq!(changed(&store), [BLOCK], "nothing else is touched");
    let text = value_at(&store, BLOCK);
    for kept in [
        r#""futureAttribute":{"exact":123456789012345678901234567890}"#,
        r#""futureField":[9007199254740993,1.10]"#,
        r#""affinity_claim_time":"2026-08-22T06:33:20Z""#,
        r#""sequenceNumber":1787400000123456793"#,
        r#""6":1787400000123456792"#,
    ] {
        assert!(text.contains(kept), "{kept} is not in {text}");
    }
    let block = json_at(&store, BLOCK);
    let handle = block["attributes"][2]["handle_id"].as_str().expect("a handle of ours").to_owned();
    assert_eq!(handle, "net.ours");
    assert_eq!(block["attributes"][2]["secondary"]["node"], "worker-1");
    assert_eq!(block["unallocated"].as_array().map(Vec::len), Some(61));
    assert_eq!(
        value_at(&store, &format!("/calico/ipam/v2/handle/{handle}")),
        r#"{"block":{"10.244.3.64/26":1},"deleted":false}"#
    );
    store.del("ours", &network);
    assert_eq!(store.etcd().list(&format!("/calico/ipam/v2/handle/{handle}")), []);
    let mut after = json_at(&store, BLOCK);
    let mut before: Value = serde_json::from_str(&written()[BLOCK]).expect("JSON");
    // It waits behind all others, and the block was written twice.
    let queue = before["unallocated"].as_array_mut().expect("a queue");
    queue.retain(|ordinal| *ordinal != 6);
    queue.push(6.into());
    before["sequenceNumber"] = 1_787_400_000_123_456_794_u64.into();
    assert_eq!(after["futureField"].take(), before["futureField"].take());
    assert_eq!(after, before);
    assert_eq!(changed(&store), [BLOCK]);
}

#[test]
fn a_block_that_was_never_used_and_a_pool_without_blocks_serve() {
    let Some(store) = cluster() else { return };
    let mut network = store.network("worker-2", &json!([]));
    network["ipam"]["assign_ipv6"] = true.into();
    let added = store.add("ours", &network);
    assert_eq!(added["ips"][0]["address"], "10.244.3.128/32");
    let block = json_at(&store, "/calico/ipam/v2/assignment/ipv4/block/10.244.3.128-26");
    assert_eq!((&block["hostAffinity"], &block["strictAffinity"]), (&json!("worker-2"), &json!(false)));
    let affinities = store.etcd().list("/calico/ipam/v2/host/worker-2/ipv6/block/");
    let [(key, affinity)] = affinities.as_slice() else { panic!("{affinities:?}") };
    assert!(key.contains("/block/fd80:24e2:f998:72d6:") && key.ends_with("-122"), "{key}");
    assert_eq!(affinity, r#"{"state":"confirmed","deleted":false}"#);
}

#[test]
fn people_see_the_cluster_and_change_it_without_a_loss() {
    let Some(store) = cluster() else { return };
    let pool = "/calico/resources/v3/projectcalico.org/ippools/pods-v4";
    let shown = store.run(&["get", "ippool", "pods-v4", "-o", "json"]).exits(0).json();
    assert_eq!(shown["spec"]["vxlanMode"], "CrossSubnet");
    assert!(shown["metadata"]["resourceVersion"].is_string(), "{shown}");
    store.run(&["patch", "ippool", "pods-v4", "-p", r#"{"spec":{"disabled":true}}"#]).exits(0);
    let text = value_at(&store, pool);
    assert!(
        text.contains(r#""futureField":{"digits":0.10}"#) && text.contains(r#""disabled":true"#),
        "{text}"
    );
    assert!(!text.contains("resourceVersion"), "{text}");
    let mut after = json_at(&store, pool);
    after["spec"].as_object_mut().expect("a specification").remove("disabled");
    let mut before: Value = serde_json::from_str(&written()[pool]).expect("JSON");
    for value in [&mut after, &mut before] {
        value["spec"]["futureField"].take();
    }
    assert_eq!(after, before);
    assert_eq!(changed(&store), [pool]);
    let nodes = store.run(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.exits(0).out, "node.projectcalico.org/worker-1\nnode.projectcalico.org/worker-2\n");
    let shown = store.run(&["ipam", "show", "--ip=10.244.3.65"]);
    assert!(shown.exits(0).out.contains("pod: shop-0"), "{shown:?}");
}

#[test]
fn what_cannot_be_read_is_named_and_stops_nobody_else() {
    let Some(store) = cluster() else { return };
    let damaged = [
        ("/calico/ipam/v2/assignment/ipv4/block/10.244.9.0-26", "{}"),
        ("/calico/ipam/v2/assignment/ipv4/block/10.244.9.65-26", "{}"),
        ("/calico/ipam/v2/host/worker-1/ipv4/block/10.244.9.0-26", r#"{"state":"lost"}"#),
        ("/calico/ipam/v2/handle/a/b", "{}"),
        ("/calico/resources/v3/projectcalico.org/ippools/spoilt", "no JSON"),
        ("/calico/resources/v3/projectcalico.org/ipreservations/spoilt", r#"{"metadata":{"name":"other"}}"#),
        ("/host-affine/carved/ipv4/10.244.8.0-26", "{}"),
    ];
    for (key, value) in damaged {
        store.etcd().put(key, value);
    }
    store.add("ours", &store.network("worker-1", &json!([])));
    let shown = store.run(&["get", "ippools", "-o", "name"]);
    assert_eq!(
        shown.out, "ippool.projectcalico.org/pods-v4\nippool.projectcalico.org/pods-v6\n",
        "{shown:?}"
    );
    let checked = store.run(&["ipam", "check"]);
    checked.exits(1);
    for (key, _) in damaged {
        assert!(checked.err.contains(key) || checked.out.contains(key), "{key} is not named: {checked:?}");
    }
    assert!(!checked.err.contains("/calico/ipam/v2/host/worker-1 "), "{checked:?}");
}
