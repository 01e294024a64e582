use std::io::{Seek as _, Write as _};

use serde_json::{Value, json};

use super::support::{Store, resource};

/// A pool, and a container for each name.
fn with(containers: &[&str]) -> (Store, Value) {
    let store = Store::new();
    store.apply("IPPool", "p1", &json!({ "cidr": "10.63.1.0/28", "blockSize": 28 })).exits(0);
    let network = store.network("n1", &json!([]));
    for container in containers {
        store.add(container, &network);
    }
    (store, network)
}

fn inventory(store: &Store, workloads: &Value) -> String {
    store.file("inventory.json", &json!({ "workloads": workloads }))
}

#[test]
fn nothing_to_find_is_said_with_what_was_looked_at() {
    let (store, _) = with(&["a", "b"]);
    let alive = inventory(&store, &json!([{ "containerID": "a" }, { "containerID": "b", "network": "net" }]));
    store.run(&["ipam", "check", "--inventory", &alive]).prints(
        0,
        "
Checking the store at DIR/store
Found 1 pool, of which 1 are active
Found 1 block with 2 addresses in use and 0 that cool down
Who is alive: the inventory lists 2 workloads, with 0 addresses
  n1: 2 addresses, 1 block
Check complete; found 0 problems.
",
    );
}

#[test]
fn an_address_that_nobody_alive_has_is_leaked() {
    let (store, _) = with(&["a", "b"]);
    let alive = inventory(&store, &json!([{ "containerID": "a" }]));
    let told = "10.63.1.1 leaked: the inventory does not list it; handle net.b, pod prod/b, node n1, block 10.63.1.0/28 (affinity host:n1)";
    let checked = store.run(&["ipam", "check", "--show-problem-ips", "--inventory", &alive]);
    checked.exits(1);
    assert!(checked.out.ends_with(&format!("{told}\nCheck complete; found 1 problems.\n")), "{checked:?}");
    let checked = store.run(&["ipam", "check", "--inventory", &alive, "-o", "json"]).exits(1).json();
    assert_eq!(
        checked["problems"],
        json!([{
            "kind": "leaked", "ip": "10.63.1.1", "block": "10.63.1.0/28", "handle": "net.b", "node": "n1",
            "namespace": "prod", "pod": "b", "message": told,
        }])
    );
    assert_eq!(checked["allocations"]["10.63.1.0"][0]["inUse"], true);
    assert_eq!(checked["allocations"]["10.63.1.1"][0]["inUse"], false);
    assert!(checked["allocations"]["10.63.1.1"][0]["sequenceNumber"].is_u64());
}

#[test]
fn the_same_address_in_another_spelling_is_no_leak() {
    let store = Store::new();
    let network = store.network("n1", &json!([{ "cidr": "fd63:a::/122", "blockSize": 122 }]));
    let result = store.add("c1", &network);
    let address = result["ips"][0]["address"].as_str().expect("text").replace("/128", "");
    let parsed: std::net::Ipv6Addr = address.parse().expect("an address");
    let long: Vec<String> = parsed.segments().iter().map(|group| format!("{group:04X}")).collect();
    let alive = inventory(&store, &json!([{ "pod": "c1", "ips": [format!("{}/128", long.join(":"))] }]));
    store.run(&["ipam", "check", "--inventory", &alive]).exits(0);
}

#[test]
fn an_address_that_is_in_use_without_a_record_is_found() {
    let (store, _) = with(&["a"]);
    let alive = inventory(
        &store,
        &json!([
            { "containerID": "a", "ips": ["10.63.1.0"] },
            { "containerID": "late", "namespace": "prod", "pod": "late", "ips": ["10.63.1.5"] },
            { "containerID": "far", "ips": ["192.168.0.7"] },
        ]),
    );
    let checked = store.run(&["ipam", "check", "--inventory", &alive]);
    checked.exits(1);
    for line in
        ["10.63.1.5 in use but not allocated: pod prod/late has it, in pool `p1`\n", "found 1 problems.\n"]
    {
        assert!(checked.out.contains(line), "{line}: {checked:?}");
    }
}

#[test]
fn an_address_that_two_have_is_found_and_one_owner_listed_twice_is_one() {
    let (store, _) = with(&["a", "b"]);
    let listed =
        |name: &str, ips: Value| json!({ "containerID": name, "namespace": "prod", "pod": name, "ips": ips });
    let alive = inventory(
        &store,
        &json!([
            listed("a", json!(["10.63.1.0"])),
            listed("b", json!(["10.63.1.1", "10.63.1.1"])),
            listed("c", json!(["10.63.1.0", "192.168.7.7"])),
            listed("d", json!(["192.168.7.7"])),
        ]),
    );
    let checked = store.run(&["ipam", "check", "--inventory", &alive]);
    checked.exits(1);
    assert!(
        checked.out.ends_with(
            "10.63.1.0 has several owners: pod prod/a, pod prod/c\nCheck complete; found 1 problems.\n"
        ),
        "{checked:?}"
    );
}

#[test]
fn what_lies_in_no_pool_any_more_is_found() {
    let (store, network) = with(&["a"]);
    store.run(&["delete", "ippool", "p1", "--force"]).exits(0);
    let checked = store.run(&["ipam", "check"]);
    checked.exits(1);
    assert!(checked.out.contains("10.63.1.0 is assigned, and lies in no pool; handle net.a"), "{checked:?}");
    assert!(checked.out.ends_with("found 1 problems.\n"), "{checked:?}");
    store.del("a", &network);
    store.run(&["ipam", "check"]).exits(0);
}

#[test]
fn without_an_inventory_only_what_this_host_knows_is_judged() {
    let (store, network) = with(&[]);
    let conf = store.file("net.conf", &network);
    let other = store.network("n2", &json!([]));
    let netns = |name: &str| store.dir().join("netns").join(name).display().to_string();
    for id in ["a", "b"] {
        std::fs::create_dir_all(netns(id)).expect("a directory");
    }
    for (id, network) in [("a", &network), ("b", &network), ("c", &other)] {
        assert!(store.call_in("ADD", id, network, &netns(id)).status.success());
    }
    std::fs::remove_dir(netns("b")).expect("removed");
    let mut command = super::support::program();
    let checked = store
        .ran(super::support::feed(command.args(["--conf", &conf, "ipam", "check", "--show-all-ips"]), ""));
    checked.exits(1);
    for line in [
        "Who is alive: no inventory: host `n1` judges the attachments that it sees, and no others\n",
        "10.63.1.0 in use, alive (its network namespace DIR/netns/a exists); handle net.a",
        "10.63.1.1 leaked: its network namespace DIR/netns/b is gone; handle net.b",
        "10.63.1.2 in use, not known to be alive (nothing noted proves it dead); handle net.c",
        "found 1 problems.\n",
    ] {
        assert!(checked.out.contains(line), "{line}: {checked:?}");
    }
    // Collecting does what the check found, and no more.
    let mut command = super::support::program();
    let dry = store.ran(super::support::feed(command.args(["--conf", &conf, "ipam", "gc", "--dry-run"]), ""));
    dry.exits(0);
    assert!(
        dry.out.starts_with("Would release 10.63.1.1: its network namespace DIR/netns/b is gone"),
        "{dry:?}"
    );
    let mut command = super::support::program();
    let collected = store.ran(super::support::feed(command.args(["--conf", &conf, "ipam", "gc"]), ""));
    assert!(collected.out.ends_with("\nReleased 1 address.\n"), "{collected:?}");
    store
        .run(&["get", "ipamhandles", "-o", "name"])
        .prints(0, "ipamhandle.projectcalico.org/net.a\nipamhandle.projectcalico.org/net.c\n");
}

#[test]
fn a_host_that_is_gone_is_named_with_what_it_left() {
    let (store, network) = with(&["a"]);
    store.run_with(&["apply", "-f", "-"], &resource("Node", "n2", &json!({})).to_string()).exits(0);
    let alive = inventory(&store, &json!([]));
    let checked = store.run(&["ipam", "check", "--inventory", &alive]);
    checked.exits(1);
    assert!(checked.out.contains("  n1: 1 address, 1 block; there is no Node of that name\n"), "{checked:?}");
    assert!(checked.out.contains("10.63.1.0 leaked: "), "{checked:?}");
    store.del("a", &network);
}

#[test]
fn a_damaged_file_is_named_and_the_rest_is_checked() {
    let store = Store::new();
    let network = store.network("n1", &json!([{ "cidr": "10.63.0.0/24", "blockSize": 28 }]));
    let two = store.network("n2", &json!([{ "cidr": "10.63.0.0/24", "blockSize": 28 }]));
    // Enough of them that the journal is written out to the files.
    for number in 0..140 {
        store.add(&format!("a{number}"), &network);
        store.del(&format!("a{number}"), &network);
    }
    store.add("keep", &network);
    store.add("other", &two);
    let blocks = store.path().join("ipam/blocks");
    let mut files: Vec<_> = walk(&blocks);
    files.sort();
    let damaged = files.first().expect("a block's file");
    let mut file = std::fs::OpenOptions::new().write(true).open(damaged).expect("a file");
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(b"{")).expect("damaged");
    let checked = store.run(&["ipam", "check"]);
    checked.exits(1);
    assert!(checked.out.contains(" is damaged: "), "{checked:?}");
    let name = damaged.file_name().and_then(|name| name.to_str()).expect("text");
    assert!(checked.out.contains(name), "{checked:?}");
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).map(|entries| entries.map(|entry| entry.expect("an entry").path()));
    let paths: Vec<_> = entries.into_iter().flatten().collect();
    paths.into_iter().flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn what_is_no_inventory_is_refused() {
    let (store, _) = with(&["a"]);
    let bad = store.file("bad.json", &json!({ "workloads": [{ "ips": ["10.0.0.300"] }] }));
    store
        .run(&["ipam", "check", "--inventory", &bad])
        .says(2, "error: DIR/bad.json `workloads[0].ips` has `10.0.0.300`, which is no address\n");
    store.run(&["ipam", "check", "--inventory", "/nowhere"]).exits(2);
}

#[test]
fn a_repair_mends_what_is_derivable_and_looks_again() {
    let (store, _) = with(&["a"]);
    let repaired = store.run(&["ipam", "check", "--repair"]);
    repaired.exits(0);
    assert!(repaired.out.starts_with("Checking the store at DIR/store\n"), "{repaired:?}");
    let absent = Store::new();
    absent.run(&["ipam", "check", "--repair"]).exits(0);
    assert!(!absent.path().exists());
}
