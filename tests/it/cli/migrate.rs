use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::support::{Ran, Store, feed, program};
use crate::support::cni::skip;

/// The real one, as Debian packages it.
const HOST_LOCAL: &str = "/usr/lib/cni/host-local";

/// What host-local writes for an address.
fn record(store: &Store, network: &str, address: &str, container: &str) {
    let dir = records(store).join(network);
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join(address), format!("{container}\r\neth0")).expect("a record");
}

fn records(store: &Store) -> PathBuf {
    store.dir().join("networks")
}

fn migrate(store: &Store, args: &[&str]) -> Ran {
    let dir = format!("--from-host-local={}", records(store).display());
    store.run(&[&["ipam", "migrate", &dir], args].concat())
}

#[test]
fn containers_of_the_real_host_local_keep_their_addresses_and_del_frees_them() {
    if !Path::new(HOST_LOCAL).is_file() {
        return skip("host-local is not installed");
    }
    let store = Store::new();
    let data_dir = records(&store);
    let network = |kind: &str| {
        json!({
            "cniVersion": "1.0.0", "name": "old", "type": "bridge", "nodename": "n1",
            "ipam": {
                "type": kind, "subnet": "10.77.0.0/24", "dataDir": data_dir,
                "datastore": { "type": "file", "path": store.path() },
            },
        })
    };
    let mut before = BTreeSet::new();
    for number in 0..20 {
        let mut command = Command::new(HOST_LOCAL);
        command.env_clear().envs([
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", &format!("old{number}")),
            ("CNI_NETNS", "/var/run/netns/none"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/usr/lib/cni"),
        ]);
        let output = feed(&mut command, &network("host-local").to_string());
        let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
        let address = result["ips"][0]["address"].as_str().expect("an address").to_owned();
        before.insert(address.trim_end_matches("/24").to_owned());
    }
    assert_eq!(before.len(), 20);
    let after = network("host-affine");
    let conf = store.file("net.conf", &after);
    let migrate = |args: &[&str]| {
        let dir = format!("--from-host-local={}", data_dir.display());
        let mut command = program();
        command.args(["--conf", &conf, "ipam", "migrate", &dir]).args(args);
        store.ran(feed(&mut command, ""))
    };
    let dry = migrate(&["--dry-run"]);
    dry.exits(0);
    assert!(dry.out.ends_with("Network `old`: would import 20 addresses.\n"), "{dry:?}");
    assert!(!store.path().exists(), "a dry run made a store");
    let taken = migrate(&[]);
    taken.exits(0);
    assert!(taken.out.contains("(container old7, eth0) into pool 10-77-0-0-24\n"), "{taken:?}");
    assert!(taken.out.ends_with("Network `old`: imported 20 addresses.\n"), "{taken:?}");

    let held = || store.run(&["ipam", "show", "-o", "json"]).json()["pools"][0]["inUse"].clone();
    assert_eq!(held(), 20);
    for address in &before {
        store.run(&["ipam", "show", "--ip", address]).exits(0);
    }
    let new = store.add("new", &after)["ips"][0]["address"].as_str().expect("an address").to_owned();
    assert!(!before.contains(new.trim_end_matches("/24")), "{new} was given twice");
    let again = migrate(&[]);
    assert!(again.out.ends_with("Network `old`: imported 0 addresses.\n"), "{again:?}");
    assert_eq!(held(), 21);
    store.del("new", &after);
    for number in 0..20 {
        store.del(&format!("old{number}"), &after);
    }
    assert_eq!(held(), 0);
    store.run(&["ipam", "check"]).exits(0);
}

#[test]
fn each_network_has_a_directory_and_the_pools_may_be_there_already() {
    let store = Store::new();
    store.apply("IPPool", "pods", &json!({ "cidr": "10.78.0.0/24" })).exits(0);
    record(&store, "one", "10.78.0.2", "a");
    record(&store, "two", "10.78.0.3", "b");
    migrate(&store, &["--network=one"]).prints(
        0,
        "
Imported 10.78.0.2 (container a, eth0) into pool pods
Network `one`: imported 1 address.
",
    );
    let document = migrate(&store, &["--dry-run", "-o", "json"]).exits(0).json();
    assert_eq!(
        document,
        json!({ "dryRun": true, "networks": [
            { "network": "one", "addresses": [
                { "ip": "10.78.0.2", "containerID": "a", "ifname": "eth0", "outcome": "heldAlready", "pool": null, "heldBy": null },
            ] },
            { "network": "two", "addresses": [
                { "ip": "10.78.0.3", "containerID": "b", "ifname": "eth0", "outcome": "imported", "pool": "pods", "heldBy": null },
            ] },
        ] })
    );
    let dir = format!("--from-host-local={}", records(&store).join("two").display());
    store.run(&["ipam", "migrate", &dir]).exits(0);
    store
        .run(&["get", "ipamhandles", "-o", "name"])
        .prints(0, "ipamhandle.projectcalico.org/one.a\nipamhandle.projectcalico.org/two.b\n");
}

#[test]
fn who_has_an_address_keeps_it_and_the_conflict_is_told() {
    let store = Store::new();
    store.apply("IPPool", "pods", &json!({ "cidr": "10.79.0.0/30", "blockSize": 30 })).exits(0);
    store.add("new", &store.network("n1", &json!([])));
    record(&store, "old", "10.79.0.0", "a");
    migrate(&store, &[]).prints(
        1,
        "
CONFLICT: 10.79.0.0 (container a, eth0) belongs to handle net.new, which keeps it
Network `old`: imported 0 addresses.
",
    );
}

#[test]
fn what_has_no_pool_or_is_no_record_stops_everything() {
    let store = Store::new();
    store.apply("IPPool", "pods", &json!({ "cidr": "10.80.0.0/24" })).exits(0);
    record(&store, "old", "10.80.0.2", "a");
    record(&store, "old", "10.99.0.2", "b");
    migrate(&store, &[]).says(
        2,
        "
error: 1 recorded address lies in no pool; nothing was imported
  10.99.0.2 (network `old`)
hint: name the network's configuration with `--conf`, or make a pool for them with `host-affine apply`
",
    );
    store.run(&["get", "ipamblocks"]).exits(1);
    migrate(&store, &["--network=new"]).says(2, "error: DIR/networks has no records of network `new`\n");
    std::fs::create_dir(store.dir().join("empty")).expect("a directory");
    let empty = format!("--from-host-local={}", store.dir().join("empty").display());
    store.run(&["ipam", "migrate", &empty]).says(
        2,
        "error: DIR/empty holds no records of host-local, and no directory of a network that does\n",
    );
}
