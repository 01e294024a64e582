//! Stores to which something was done behind the back of everybody.

use std::path::{Path, PathBuf};
use std::time::Duration;

use host_affine::api::HandleId;
use host_affine::api::calico::IpamHandle;
use host_affine::datastore::file::{Access, Durability, FileStore, IfAbsent, Options};
use host_affine::datastore::{Batch, Commit, Datastore as _, Key, run_in_place};
use serde_json::{Value, json};

use super::support::{Ran, Store, feed, program};
use crate::support::cni::skip;
use crate::support::netns::Namespace;

/// The store itself, as a call has it.
fn open(store: &Store) -> FileStore {
    let options = Options {
        path: store.path(),
        durability: Durability::Process,
        allow_network_file_system: true,
        lock_timeout: Duration::from_secs(60),
        operation: "a test".to_owned(),
    };
    FileStore::open(&options, Access::Change, IfAbsent::None).expect("opens").expect("exists")
}

/// Has everything in its file.
fn write_out(store: &Store) {
    open(store).write_out().expect("written out");
}

/// The files of a folder of the store, sorted.
fn files(store: &Store, folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(store.path().join(folder)).expect("a folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// A handle that has no address anywhere, although a block is named for it.
fn plant_handle(store: &Store, id: &str, block: &str) {
    let mut batch = Batch::default();
    let block = [(block.parse().expect("a block"), 1)].into();
    let handle = IpamHandle { block, ..IpamHandle::default() };
    batch.create(Key::Handle(HandleId::new(id).expect("a handle")), handle);
    assert_eq!(run_in_place(open(store).commit(batch)).expect("the store works"), Commit::Applied);
}

/// Gives the first free address of a block away, as somebody with an editor would.
fn assign_by_hand(file: &Path, attribute: &Value) -> String {
    let text = std::fs::read(file).expect("a block");
    let mut block: Value = serde_json::from_slice(&text).expect("JSON");
    let ordinal = block["unallocated"].as_array_mut().expect("a list").remove(0).as_u64().expect("a number");
    let attributes = block["attributes"].as_array_mut().expect("a list");
    attributes.push(attribute.clone());
    let index = attributes.len() - 1;
    block["allocations"][usize::try_from(ordinal).expect("small")] = index.into();
    std::fs::write(file, format!("{block}\n")).expect("written");
    let cidr = block["cidr"].as_str().expect("a range");
    let first: std::net::Ipv4Addr = cidr.split_once('/').expect("a range").0.parse().expect("an address");
    std::net::Ipv4Addr::from(u32::from(first) + u32::try_from(ordinal).expect("small")).to_string()
}

fn damage(file: &Path) {
    std::fs::write(file, "{").expect("damaged");
}

/// The command line with the configuration of a network, which names this host.
fn run(store: &Store, conf: &str, args: &[&str]) -> Ran {
    let mut command = program();
    store.ran(feed(command.args(["--conf", conf]).args(args), ""))
}

#[test]
fn each_fault_is_named_and_no_other_and_a_report_frees_exactly_the_leak() {
    let namespaces: Result<Vec<_>, _> = ["a", "b", "c", "gone"].into_iter().map(Namespace::new).collect();
    let mut namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(reason) => return skip(&format!("network namespaces: {reason}")),
    };
    let store = Store::new();
    let network = store.network("n1", &json!([{ "cidr": "10.64.7.0/24", "name": "pods" }]));
    let conf = store.file("net.conf", &network);
    for (id, namespace) in ["a", "b", "c", "gone"].into_iter().zip(&namespaces) {
        let added = store.call_in("ADD", id, &network, &namespace.path().display().to_string());
        assert!(added.status.success(), "{added:?}");
    }
    write_out(&store);
    drop(namespaces.pop());
    let block = files(&store, "ipam/blocks").remove(0);
    let by_hand = assign_by_hand(&block, &json!({ "handle_id": "by-hand", "secondary": { "note": "mine" } }));
    plant_handle(&store, "net.ghost", "10.64.7.192/26");

    let report = store.dir().join("report.json").display().to_string();
    let checked = run(&store, &conf, &["ipam", "check", "-o", &report]);
    checked.exits(1);
    let document: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    let problems = document["problems"].as_array().expect("problems");
    let mut kinds: Vec<_> =
        problems.iter().map(|problem| problem["kind"].as_str().expect("a word")).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["leaked", "lostHandle", "strayHandle"], "{checked:?}");
    let of = |kind: &str| problems.iter().find(|problem| problem["kind"] == kind).expect("found").clone();
    assert_eq!(of("lostHandle")["ip"], by_hand);
    assert_eq!(of("leaked")["handle"], "net.gone");
    assert!(of("strayHandle")["message"].to_string().contains("10.64.7.192/26"), "{checked:?}");
    assert!(checked.out.ends_with("Check complete; found 3 problems.\n"), "{checked:?}");

    let leaked = of("leaked")["ip"].as_str().expect("an address").to_owned();
    let released = run(&store, &conf, &["ipam", "release", "--from-report", &report]);
    released.exits(0);
    assert!(released.out.starts_with(&format!("Released {leaked} (handle net.gone")), "{released:?}");
    assert!(released.out.ends_with("\nReleased 1 address; 0 skipped; 0 errors.\n"), "{released:?}");
    run(&store, &conf, &["ipam", "show", "--ip", &leaked]).exits(1);
    run(&store, &conf, &["ipam", "show", "--ip", &by_hand]).exits(0);

    let repaired = run(&store, &conf, &["ipam", "check", "--repair"]);
    repaired.exits(0);
    assert!(repaired.out.starts_with("Repaired: made `index` anew from the blocks\n"), "{repaired:?}");
    for id in ["a", "b", "c"] {
        store.del(id, &network);
    }
    let shown = run(&store, &conf, &["ipam", "show", "-o", "json"]).json();
    assert_eq!(shown["pools"][0]["inUse"], 1, "what was assigned by hand is nobody's to free");
    run(&store, &conf, &["ipam", "check"]).exits(0);
}

/// Two hosts with a block each, all of it in files.
fn two_hosts() -> (Store, Value, Value) {
    let store = Store::new();
    let pools = json!([{ "cidr": "10.65.0.0/24", "blockSize": 28, "name": "pods" }]);
    let (one, two) = (store.network("n1", &pools), store.network("n2", &pools));
    store.add("a", &one);
    store.add("b", &two);
    store.add("c", &two);
    write_out(&store);
    (store, one, two)
}

#[test]
fn a_list_shows_what_can_be_read_and_names_what_cannot() {
    let (store, ..) = two_hosts();
    let node = |name: &str| super::support::resource("Node", name, &json!({})).to_string();
    let allocation = |name: &str| {
        json!({
            "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPAllocation", "metadata": { "name": name },
            "spec": { "ipFamily": "IPv4", "poolRef": { "name": "pods" } },
        })
        .to_string()
    };
    for name in ["whole", "torn"] {
        store.run_with(&["apply", "-f", "-"], &node(name)).exits(0);
        store.run_with(&["apply", "-f", "-"], &allocation(name)).exits(0);
    }
    write_out(&store);
    for (kind, file) in [
        ("nodes", "projectcalico.org/nodes/torn.json"),
        ("ipallocations", "ipam.miloapis.com/ipallocations/default/torn.json"),
    ] {
        let path = store.path().join(file);
        let original = std::fs::read(&path).expect("a file");
        damage(&path);
        let listed = store.run(&["get", kind]);
        assert!(listed.exits(0).out.contains("whole") && !listed.out.contains("torn"), "{listed:?}");
        assert!(listed.err.starts_with(&format!("warning: DIR/store/{file} is damaged: ")), "{listed:?}");
        assert_eq!(listed.err.matches("warning: ").count(), 1, "{listed:?}");
        // Who asks for it by name is not told that there is none.
        let named = store.run(&["get", kind, "torn"]);
        assert!(
            !named.err.contains("not found") && named.err.contains(&format!("DIR/store/{file} is damaged")),
            "{named:?}"
        );
        std::fs::write(&path, original).expect("as it was");
        store.run(&["get", kind, "torn"]).exits(0);
    }
}

#[test]
fn what_is_whole_is_shown_and_the_damaged_file_is_named() {
    let (store, one, two) = two_hosts();
    let blocks = files(&store, "ipam/blocks");
    let of_one = |file: &&PathBuf| std::fs::read_to_string(file).expect("a block").contains("host:n1");
    let damaged = blocks.iter().find(of_one).expect("the block of n1").clone();
    let original = std::fs::read(&damaged).expect("a block");
    damage(&damaged);
    let name = damaged.file_name().and_then(|name| name.to_str()).expect("text");
    let warning = format!("warning: DIR/store/ipam/blocks/{name} is damaged: ");
    for args in [
        &["ipam", "show"][..],
        &["ipam", "show", "--show-blocks", "--show-borrowed"],
        &["ipam", "metrics"],
        &["ipam", "map"],
        &["ipam", "map", "-o", "svg"],
        &["ipam", "map", "-o", "html"],
        &["describe", "ippool", "pods"],
        &["get", "ipamblocks"],
        &["get", "ipamhandles"],
        &["get", "ipallocations"],
    ] {
        let shown = store.run(args);
        shown.exits(0);
        assert!(shown.err.starts_with(&warning), "{args:?}: {shown:?}");
        assert_eq!(shown.err.matches("warning: ").count(), 1, "{args:?}: {shown:?}");
    }
    assert_eq!(store.run(&["ipam", "show", "-o", "json"]).json()["pools"][0]["inUse"], 2);
    assert!(store.run(&["ipam", "metrics"]).out.contains("host_affine_unreadable_blocks 1\n"));
    let checked = store.run(&["ipam", "check"]);
    checked.exits(1);
    assert!(
        checked.out.ends_with("; put it back from a backup\nCheck complete; found 1 problems.\n"),
        "{checked:?}"
    );
    assert!(checked.err.starts_with(&warning), "{checked:?}");
    // A repair leaves it, and what leads to it.
    let repaired = store.run(&["ipam", "check", "--repair"]);
    repaired.exits(1);
    assert!(!repaired.out.contains("Repaired"), "{repaired:?}");
    store.del("b", &two);
    std::fs::write(&damaged, original).expect("put back");
    store.run(&["ipam", "check"]).exits(0);
    store.del("a", &one);
    store.del("c", &two);
    store.run(&["get", "ipamhandles"]).exits(1);
}

#[test]
fn whatever_is_derived_is_made_anew() {
    let (store, one, _) = two_hosts();
    let befall = |file: &str| {
        let path = store.path().join(file);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).expect("removed");
        } else {
            std::fs::write(&path, "x").expect("overwritten");
        }
    };
    for file in ["index", "state"] {
        befall(file);
        let checked = store.run(&["ipam", "check"]);
        checked.exits(1);
        let told = format!("the file `{file}` is missing or altered; it is derived, and not used\n");
        assert!(checked.out.contains(&told), "{file}: {checked:?}");
        store.run(&["ipam", "check", "--repair"]).exits(0);
        store.run(&["ipam", "check"]).exits(0);
    }
    // Which blocks have room is only ever a hint: nobody misses it, and it is there again.
    befall("ipam/room");
    store.run(&["ipam", "check", "--repair"]).exits(0);
    assert_eq!(files(&store, "ipam/room").len(), 2);
    // A record of an affinity that cannot be read says nothing that its block does not say.
    let owner = files(&store, "ipam/affinities").remove(0);
    let record =
        std::fs::read_dir(owner).expect("a folder").next().expect("a record").expect("an entry").path();
    damage(&record);
    let checked = store.run(&["ipam", "check"]);
    checked.exits(1);
    assert!(checked.out.ends_with("found 1 problems.\n"), "{checked:?}");
    let repaired = store.run(&["ipam", "check", "--repair"]);
    repaired.exits(0);
    assert!(repaired.out.contains("which could not be read\nRepaired: block 10.65.0."), "{repaired:?}");
    store.run(&["ipam", "check"]).exits(0);
    store.add("d", &one);
}

#[test]
fn an_address_without_a_handle_is_named_and_left() {
    let (store, ..) = two_hosts();
    let by_hand = assign_by_hand(&files(&store, "ipam/blocks")[0], &json!({}));
    let report = store.dir().join("r.json").display().to_string();
    let checked = store.run(&["ipam", "check", "-o", &report]);
    checked.exits(1);
    assert!(checked.out.contains(&format!("{by_hand} is assigned without a handle: ")), "{checked:?}");
    let released = store.run(&["ipam", "release", "--from-report", &report]);
    assert!(released.out.ends_with("Released 0 addresses; 0 skipped; 0 errors.\n"), "{released:?}");
    store.run(&["ipam", "release", "--ip", &by_hand]).exits(0);
    store.run(&["ipam", "check"]).exits(0);
}
