use serde_json::json;

use super::{allocation, carve, got, put, with_pool};

const POOL: &str = "ippools.ipam.miloapis.com";

/// Everything but what differs from one making to the next.
fn without_times(mut resource: serde_json::Value) -> serde_json::Value {
    resource["metadata"]["annotations"] = json!(null);
    resource["metadata"]["resourceVersion"] = json!(null);
    resource
}

#[test]
fn what_apply_makes_and_what_create_makes_are_the_same() {
    let manifest = allocation("web", "web-tier-pool", "IPv4", None);
    let made = ["apply", "create"].map(|verb| {
        let store = with_pool("web-tier-pool", "10.244.0.0/20", "IPv4");
        put(&store, verb, &manifest, &[]).exits(0);
        let address = store.add("a", &store.network("n1", &json!([])))["ips"][0]["address"].clone();
        (without_times(got(&store, "ipallocation", "web")), address)
    });
    assert_eq!(made[0], made[1], "what was applied serves as what was created does");
    // A pool that was applied serves as one that was created.
    let store = super::Store::new();
    let pool = super::resource("IPPool", "p", &json!({ "cidr": "10.244.0.0/20", "ipFamily": "IPv4" }));
    put(&store, "apply", &pool, &[]).exits(0);
    assert_eq!(carve(&store, &allocation("web", "p", "IPv4", None), &[]), "10.244.0.0/26");
}

#[test]
fn the_note_of_what_was_applied_comes_back_and_is_that_of_kubectl() {
    let store = with_pool("web", "10.9.0.0/24", "IPv4");
    let manifest = allocation("a", "web", "IPv4", Some(28));
    put(&store, "create", &manifest, &[]).exits(0);
    let noted = |store: &super::Store| {
        let key = "kubectl.kubernetes.io/last-applied-configuration";
        got(store, "ipallocation", "a")["metadata"]["annotations"][key].as_str().map(str::to_owned)
    };
    assert_eq!(noted(&store), None);
    put(&store, "apply", &manifest, &[]).exits(0);
    let note: serde_json::Value = serde_json::from_str(&noted(&store).expect("a note")).expect("JSON");
    assert_eq!(note, manifest);
    // What was got is applied again, with status, namespace, revision and all.
    let whole = got(&store, "ipallocation", "a");
    put(&store, "apply", &whole, &[]).exits(0);
    put(&store, "replace", &whole, &[]).exits(0);
    store.run(&["patch", "ipalloc", "a", "-p", r#"{"metadata":{"labels":{"x":"y"}}}"#]).exits(0);
    let stale = put(&store, "replace", &whole, &[]);
    stale.exits(2);
    assert!(stale.err.contains("it has changed since it was read"), "{stale:?}");
    put(&store, "replace", &got(&store, "ipallocation", "a"), &[]).exits(0);
    assert_eq!(got(&store, "ipallocation", "a")["status"], whole["status"]);
}

#[test]
fn waiting_for_a_phase_or_a_condition_ends_at_once() {
    let store = with_pool("web", "10.9.0.0/24", "IPv4");
    carve(&store, &allocation("a", "web", "IPv4", None), &[]);
    let status = got(&store, "ipallocation", "a")["status"].clone();
    assert_eq!(status["phase"], "Ready");
    let ready =
        status["conditions"].as_array().expect("conditions").iter().find(|one| one["type"] == "Ready");
    assert_eq!(ready.expect("one")["status"], "True");
}

#[test]
fn a_full_pool_serves_again_once_something_is_deleted_and_is_whole_in_the_end() {
    let store = with_pool("tiny", "10.9.0.0/29", "IPv4");
    let names: Vec<String> = (0..8).map(|n| format!("a{n}")).collect();
    let one = |name: &str| allocation(name, "tiny", "IPv4", Some(32));
    let given: Vec<_> = names.iter().map(|name| carve(&store, &one(name), &[])).collect();
    assert_eq!((given[0].as_str(), given[7].as_str()), ("10.9.0.0/32", "10.9.0.7/32"));
    let full = put(&store, "apply", &one("ninth"), &[]);
    full.exits(2);
    assert!(full.err.contains("pool `tiny` is exhausted: no /32 is free"), "{full:?}");
    assert_eq!(got(&store, POOL, "tiny")["status"]["capacity"]["available"], 0);
    store.run(&["get", "ipallocation", "ninth"]).exits(1);
    store.run(&["delete", "ipallocation", "a3"]).exits(0);
    assert_eq!(carve(&store, &one("ninth"), &[]), given[3]);
    let all: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "a3").collect();
    store.run(&[&["delete", "ipallocation", "ninth"][..], &all].concat()).exits(0);
    assert_eq!(got(&store, POOL, "tiny")["status"]["largestFreePrefix"], 29);
}

#[test]
fn a_name_is_another_thing_in_every_project() {
    let store = with_pool("web", "10.9.0.0/24", "IPv4");
    let manifest = allocation("web-tier-allocation", "web", "IPv4", None);
    let one = carve(&store, &manifest, &["--project", "one"]);
    let two = carve(&store, &manifest, &["--project=two"]);
    assert_ne!(one, two);
    let mut command = super::super::support::program();
    command.env("HOST_AFFINE_PROJECT", "two");
    command.arg("--datastore").arg(format!("file://{}", store.path().display()));
    command.args(["get", "ipallocation", "web-tier-allocation", "-o", "json"]);
    let got = store.ran(super::super::support::feed(&mut command, "")).json();
    assert_eq!(got["status"]["allocatedCIDR"], two.as_str(), "the variable stands for the option");
    store.run(&["get", "ipallocation", "web-tier-allocation"]).exits(1);
    store.run(&["delete", "ipallocation", "web-tier-allocation"]).exits(2);
    store.run(&["--project=one", "delete", "ipallocation", "web-tier-allocation"]).exits(0);
    let left = store.run(&["get", "ipallocations", "--all-projects", "-o", "json"]).json();
    let left = left["items"].as_array().expect("a list");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["annotations"]["ipam.miloapis.com/project"], "two");
}

#[test]
fn a_dry_run_of_each_verb_changes_nothing() {
    let store = with_pool("web", "10.9.0.0/24", "IPv4");
    let manifest = allocation("a", "web", "IPv4", None);
    carve(&store, &manifest, &[]);
    let all = |store: &super::Store| {
        [POOL, "ipallocations", "ipclaims"].map(|kind| store.run(&["get", kind, "-o", "yaml"]).out)
    };
    let before = all(&store);
    put(&store, "apply", &allocation("b", "web", "IPv4", None), &["--dry-run=server"]).exits(0);
    put(&store, "create", &allocation("b", "web", "IPv4", None), &["--dry-run"]).exits(0);
    put(&store, "replace", &manifest, &["--dry-run"]).exits(0);
    store.run(&["patch", "ipalloc", "a", "-p", r#"{"metadata":{"labels":{"x":"y"}}}"#, "--dry-run"]).exits(0);
    store.run(&["delete", "ipalloc", "a", "--dry-run"]).exits(0);
    store.run(&["delete", POOL, "web", "--dry-run", "--force"]).exits(0);
    let claim = super::resource(
        "IPClaim",
        "c",
        &json!({ "ipFamily": "IPv4", "prefixLength": 28, "poolRef": { "name": "web" } }),
    );
    let would = put(&store, "create", &claim, &["--dry-run", "-o", "json"]).exits(0).json();
    assert_eq!(
        (&would["status"]["phase"], &would["status"]["allocatedCIDR"]),
        (&json!("Bound"), &json!("10.9.0.64/28"))
    );
    assert_eq!(all(&store), before);
}

#[test]
fn a_block_shows_as_an_allocation_of_its_host_and_goes_with_it() {
    let store = with_pool("web", "10.9.0.0/24", "IPv4");
    let network = store.network("node-1", &json!([]));
    store.add("a", &network);
    let blocks =
        store.run(&["get", "ipallocations", "-l", "ipam.miloapis.com/host=node-1", "-o", "json"]).json();
    let name = blocks["items"][0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let cidr = blocks["items"][0]["status"]["allocatedCIDR"].as_str().expect("a CIDR").to_owned();
    assert_eq!(name, format!("block-{}", cidr.replace(['.', '/'], "-")));
    for (verb, args) in [
        ("delete", &["ipallocation", &*name][..]),
        ("patch", &["ipallocation", &*name, "-p", r#"{"metadata":{"labels":{"x":"y"}}}"#]),
    ] {
        let refused = store.run(&[&[verb], args].concat());
        refused.exits(2);
        assert!(refused.err.contains("is a block, kept for `host:node-1`"), "{refused:?}");
    }
    for verb in ["apply", "create", "replace"] {
        let refused = put(&store, verb, &got(&store, "ipallocation", &name), &[]);
        refused.exits(2);
        assert!(refused.err.contains("is a block, kept for `host:node-1`"), "{refused:?}");
    }
    let mut asked = allocation("mine", "web", "IPv4", None);
    asked["metadata"]["annotations"] = json!({ "ipam.miloapis.com/requested-cidr": cidr });
    let taken = put(&store, "apply", &asked, &[]);
    taken.exits(2);
    assert!(taken.err.contains("(the block of host `node-1`)"), "{taken:?}");
    store.run(&["get", "ipallocation", &name, "--project=other"]).exits(1);
    store.del("a", &network);
    store.run(&["delete", "node", "node-1"]).exits(0);
    assert_eq!(carve(&store, &asked, &[]), cidr);
}
