//! `create` and `replace`.

use serde_json::json;

use super::support::{Store, resource};

#[test]
fn create_makes_only_what_does_not_exist_and_tries_everything() {
    let store = Store::new();
    let list = json!([
        resource("IPPool", "a", &json!({ "cidr": "10.1.0.0/24" })),
        resource("IPPool", "b", &json!({ "cidr": "10.2.0.0/24" })),
    ]);
    store.apply("IPPool", "a", &json!({ "cidr": "10.1.0.0/24" })).exits(0);
    store.run_with(&["create", "-f", "-"], &list.to_string()).is(
        2,
        "ippool.projectcalico.org/b created\n",
        "
error: IPPool `a`: it exists already
hint: run `host-affine apply` to change what exists
",
    );
}

#[test]
fn replace_takes_a_resource_whole_and_refuses_a_stale_one() {
    let store = Store::new();
    let pool = |spec| resource("IPPool", "p", &spec);
    let replace = |object: &serde_json::Value| store.run_with(&["replace", "-f", "-"], &object.to_string());
    replace(&pool(json!({ "cidr": "10.1.0.0/24" }))).says(
        2,
        "
error: IPPool `p`: it does not exist
hint: run `host-affine apply` or `host-affine create` to make it
",
    );
    store
        .apply("IPPool", "p", &json!({ "cidr": "10.1.0.0/24", "disabled": true, "natOutgoing": true }))
        .exits(0);
    let read = store.run(&["get", "ippool", "p", "-o", "json"]).json();
    replace(&pool(json!({ "cidr": "10.1.0.0/24" }))).prints(0, "ippool.projectcalico.org/p replaced\n");
    let now = store.run(&["get", "ippool", "p", "-o", "json"]).json();
    assert!(now["spec"].get("disabled").is_none() && now["spec"].get("natOutgoing").is_none(), "{now}");
    let stale = replace(&read);
    stale.exits(2);
    assert!(
        stale.err.contains("it has changed since it was read: `metadata.resourceVersion` is"),
        "{stale:?}"
    );
    replace(&now).exits(0);
}
