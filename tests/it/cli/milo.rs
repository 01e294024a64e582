//! What people carve out of pools, and pools' other face, on the command line. How it all looks is written down in
//! `testdata/cli/milo*`; here is what has to be computed.

mod allocations;
mod claims;
mod pools;

use serde_json::{Value, json};

use super::support::{Ran, Store};

/// A resource of `ipam.miloapis.com`.
fn resource(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

/// A store with a pool.
fn with_pool(name: &str, cidr: &str, family: &str) -> Store {
    let store = Store::new();
    put(&store, "create", &resource("IPPool", name, &json!({ "cidr": cidr, "ipFamily": family })), &[])
        .exits(0);
    store
}

/// An allocation of a length out of a pool.
fn allocation(name: &str, pool: &str, family: &str, length: Option<u8>) -> Value {
    let mut allocation =
        resource("IPAllocation", name, &json!({ "ipFamily": family, "poolRef": { "name": pool } }));
    if let Some(length) = length {
        allocation["metadata"]["annotations"]["ipam.miloapis.com/prefix-length"] = length.to_string().into();
    }
    allocation
}

/// Writes a resource by a verb.
fn put(store: &Store, verb: &str, resource: &Value, args: &[&str]) -> Ran {
    store.run_with(&[&[verb, "-f", "-"], args].concat(), &resource.to_string())
}

/// Writes an allocation or a claim, and says which CIDR it got.
#[track_caller]
fn carve(store: &Store, resource: &Value, args: &[&str]) -> String {
    let made = put(store, "apply", resource, &[&["-o", "json"], args].concat());
    made.exits(0).json()["status"]["allocatedCIDR"].as_str().expect("a CIDR").to_owned()
}

/// One resource in full.
#[track_caller]
fn got(store: &Store, kind: &str, name: &str) -> Value {
    store.run(&["get", kind, name, "-o", "json"]).exits(0).json()
}
