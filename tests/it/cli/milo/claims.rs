use serde_json::{Value, json};

use super::{got, put, resource, with_pool};

const POOL: &str = "ippools.ipam.miloapis.com";

fn claim(name: &str, length: u8, policy: &str) -> Value {
    let spec = json!({
        "ipFamily": "IPv4", "prefixLength": length, "poolRef": { "name": "web" }, "reclaimPolicy": policy,
    });
    resource("IPClaim", name, &spec)
}

#[test]
fn deleting_a_claim_gives_back_exactly_what_it_had() {
    let store = with_pool("web", "10.9.0.0/20", "IPv4");
    let available = |store: &super::Store| {
        got(store, POOL, "web")["status"]["capacity"]["available"].as_u64().expect("a number")
    };
    let before = available(&store);
    put(&store, "apply", &claim("web", 24, "Delete"), &[]).exits(0);
    let made = got(&store, "ipclaim", "web");
    let allocation = made["status"]["boundAllocationRef"]["name"].as_str().expect("a name").to_owned();
    assert_eq!(
        got(&store, "ipallocation", &allocation)["status"]["allocatedCIDR"],
        made["status"]["allocatedCIDR"]
    );
    assert_eq!(available(&store), before - 256);
    store.run(&["delete", "ipclaim", "web"]).exits(0);
    assert_eq!(available(&store), before);
    store.run(&["get", "ipallocation", &allocation]).exits(1);
}

#[test]
fn what_a_claim_retains_belongs_to_its_project() {
    let store = with_pool("web", "10.9.0.0/20", "IPv4");
    let get =
        |project: &str| store.run(&["get", "ipclaim", "web", "-o", "json", "--project", project]).json();
    for project in ["one", "two"] {
        put(&store, "apply", &claim("web", 24, "Retain"), &["--project", project]).exits(0);
    }
    let first = get("one")["status"]["allocatedCIDR"].clone();
    assert_ne!(first, get("two")["status"]["allocatedCIDR"]);
    for project in ["one", "two"] {
        store.run(&["delete", "ipclaim", "web", "--project", project]).exits(0);
    }
    put(&store, "apply", &claim("web", 24, "Delete"), &["--project=one"]).exits(0);
    assert_eq!(get("one")["status"]["allocatedCIDR"], first, "its own, not the other's");
    let names = store.run(&["get", "ipallocations", "-A", "-o", "name"]);
    assert_eq!(names.out.lines().count(), 2, "{names:?}");
}

#[test]
fn a_policy_that_a_file_no_longer_says_is_taken_back() {
    let store = with_pool("web", "10.9.0.0/20", "IPv4");
    put(&store, "apply", &claim("web", 24, "Retain"), &[]).exits(0);
    let mut without = claim("web", 24, "Retain");
    without["spec"].as_object_mut().expect("an object").remove("reclaimPolicy");
    put(&store, "apply", &without, &["-o", "name"]).exits(0);
    assert_eq!(got(&store, "ipclaim", "web")["spec"].get("reclaimPolicy"), None);
    store.run(&["delete", "ipclaim", "web"]).exits(0);
    store.run(&["get", "ipallocations"]).exits(1);
}
