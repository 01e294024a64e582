use serde_json::{Value, json};

use super::support::Store;

fn with(containers: &[&str]) -> (Store, Value) {
    let store = Store::new();
    store.apply("IPPool", "p1", &json!({ "cidr": "10.73.2.0/29", "blockSize": 29 })).exits(0);
    let network = store.network("n1", &json!([]));
    for container in containers {
        store.add(container, &network);
    }
    (store, network)
}

fn inventory(store: &Store, containers: &[&str]) -> String {
    let listed: Vec<_> =
        containers.iter().map(|id| json!({ "containerID": id, "namespace": "prod", "pod": id })).collect();
    store.file("inventory.json", &json!({ "workloads": listed }))
}

#[test]
fn one_address_is_freed_unless_its_owner_is_alive() {
    let (store, network) = with(&["live1", "dead1"]);
    let alive = inventory(&store, &["live1"]);
    let release = |args: &[&str]| store.run(&[&["ipam", "release", "--inventory", &alive], args].concat());
    release(&["--ip=10.73.2.7"]).says(
        2,
        "
error: 10.73.2.7 is not assigned
hint: `host-affine ipam show --ip` says what is known of it
",
    );
    release(&["--ip", "10.99.0.1"]).says(
        2,
        "
error: 10.99.0.1 is not assigned: it lies in no pool
hint: run `host-affine get ippools` for the ranges that are managed here
",
    );
    release(&["--ip", "10.73.2"]).says(2, "error: invalid IP address `10.73.2`\n");
    release(&["--ip", "10.73.2.1"]).prints(
        0,
        "Released 10.73.2.1 (handle net.dead1, pod prod/dead1, node n1, block 10.73.2.0/29 (affinity host:n1))\n",
    );
    release(&["--ip", "10.73.2.0"]).says(
        2,
        "
error: 10.73.2.0 is in use, and its owner is alive: the inventory lists pod prod/live1; handle net.live1, pod prod/live1, node n1, block 10.73.2.0/29 (affinity host:n1)
hint: delete its container, or use `--force`: then two may have the address
",
    );
    store.run(&["ipam", "show", "--ip=10.73.2.0"]).exits(0);
    release(&["--ip", "10.73.2.0", "--dry-run", "--force"]).exits(0);
    store.run(&["ipam", "show", "--ip=10.73.2.0"]).exits(0);
    let forced = release(&["--ip", "10.73.2.0", "--force"]);
    forced.exits(0);
    assert!(forced.err.starts_with("warning: the owner of 10.73.2.0 was alive: "), "{forced:?}");
    assert!(forced.err.contains("pod prod/live1"), "{forced:?}");
    store.run(&["get", "ipamhandles"]).exits(1);
    store.del("live1", &network);
}

#[test]
fn a_long_spelling_frees_the_same_address() {
    let store = Store::new();
    let network = store.network("n1", &json!([{ "cidr": "fd67:7::/122", "blockSize": 122 }]));
    let result = store.add("g1", &network);
    let address = result["ips"][0]["address"].as_str().expect("text").replace("/128", "");
    let parsed: std::net::Ipv6Addr = address.parse().expect("an address");
    let long: Vec<String> = parsed.segments().iter().map(|group| format!("{group:04x}")).collect();
    store.run(&["ipam", "release", "--ip", &long.join(":")]).exits(0);
    store.run(&["ipam", "show", "--ip", &address]).exits(1);
}

#[test]
fn a_report_frees_what_is_still_the_same_and_nothing_else() {
    let (store, network) = with(&["dead1", "dead2", "full"]);
    let alive = inventory(&store, &["full"]);
    let report = store.dir().join("r.json").display().to_string();
    let check = || store.run(&["ipam", "check", "--inventory", &alive, "-o", &report]);
    check().exits(1);
    // The same address, with another owner.
    store.del("dead1", &network);
    for filler in ["x1", "x2", "x3", "x4", "x5"] {
        store.add(filler, &network);
    }
    let fresh = store.add("fresh", &network);
    assert_eq!(fresh["ips"][0]["address"], "10.73.2.0/32", "every other address is taken");
    let release = |args: &[&str]| store.run(&[&["ipam", "release", "--from-report", &report], args].concat());
    let dry = release(&["--dry-run"]);
    dry.exits(0);
    assert!(dry.out.contains("Would release 10.73.2.1 "), "{dry:?}");
    let released = release(&["--force"]);
    released.exits(0);
    assert!(
        released.out.contains("Skipped: 10.73.2.0 not released: assigned again since it was read"),
        "{released:?}"
    );
    assert!(released.out.ends_with("Released 1 address; 1 skipped; 0 errors.\n"), "{released:?}");
    store.run(&["ipam", "show", "--ip=10.73.2.0"]).exits(0);
    store.run(&["ipam", "show", "--ip=10.73.2.1"]).exits(1);
    store.run(&["ipam", "show", "--ip=10.73.2.2"]).exits(0);
    let again = release(&[]);
    assert!(again.out.ends_with("Released 0 addresses; 2 skipped; 0 errors.\n"), "{again:?}");
}

#[test]
fn a_report_of_another_store_is_refused() {
    let (store, _) = with(&["a"]);
    let (other, _) = with(&["a"]);
    let report = store.dir().join("r.json").display().to_string();
    store.run(&["ipam", "check", "-o", &report]).exits(0);
    let refused = other.run(&["ipam", "release", "--from-report", &report, "--force"]);
    refused.exits(2);
    assert!(refused.err.contains(" is about the store "), "{refused:?}");
    let broken = store.file("broken.json", &json!({ "version": "1" }));
    store.run(&["ipam", "release", "--from-report", &broken]).exits(2);
}

#[test]
fn handles_and_nodes_are_freed_whole() {
    let (store, _) = with(&["a", "b"]);
    let on_two = store.network("n2", &json!([]));
    store.add("c", &on_two);
    store.run(&["ipam", "release", "--handle=net.a"]).prints(
        0,
        "Released 10.73.2.0 (handle net.a, pod prod/a, node n1, block 10.73.2.0/29 (affinity host:n1))\n",
    );
    store.run(&["ipam", "release", "--handle=net.a"]).says(1, "note: nothing is held by it\n");
    store.run(&["ipam", "release", "--node=n1"]).prints(
        0,
        "Released 10.73.2.1 (handle net.b, pod prod/b, node n1, block 10.73.2.0/29 (affinity host:n1))\nGave up 1 block of node n1\n",
    );
    let block = store.run(&["get", "ipamblocks", "-o", "json"]).json()["items"][0]["spec"].clone();
    assert_eq!(block.get("affinity"), None, "another host's address keeps the block: {block}");
    store.run(&["ipam", "release", "--node=n2"]).exits(0);
    store.run(&["get", "ipamblocks"]).exits(1);
}

#[test]
fn what_to_release_is_said_once() {
    let (store, _) = with(&["a"]);
    for args in [&[][..], &["--ip=10.73.2.0", "--handle=net.a"], &["--vm=db"]] {
        store.run(&[&["ipam", "release"], args].concat()).exits(2);
    }
    store
        .run(&["ipam", "release", "--vm=prod/db"])
        .says(1, "note: virtual machine prod/db has no address and no record\n");
    store.run(&["ipam", "show", "--ip=10.73.2.0"]).exits(0);
}
