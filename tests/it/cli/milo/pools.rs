use serde_json::{Value, json};

use super::super::support::{Store, resource as of_calico};
use super::{allocation, carve, got, put, resource, with_pool};

const POOL: &str = "ippools.ipam.miloapis.com";

#[test]
fn a_pool_of_ipv6_is_counted_exactly_at_every_size() {
    let store = with_pool("six", "fd00::/48", "IPv6");
    for (name, cidr) in [("a", "fd00::/64"), ("b", "fd00:0:0:1::/64")] {
        assert_eq!(carve(&store, &allocation(name, "six", "IPv6", Some(64)), &[]), cidr);
    }
    let status = got(&store, POOL, "six")["status"].clone();
    let all = u128::pow(2, 80);
    assert_eq!(
        status["exactCapacity"],
        json!({
            "total": all.to_string(), "allocated": u128::pow(2, 65).to_string(),
            "available": (all - u128::pow(2, 65)).to_string(),
        })
    );
    assert_eq!(
        status["capacity"],
        json!({ "total": i64::MAX, "allocated": i64::MAX, "available": 0 }),
        "as that API counts"
    );
    assert_eq!((&status["largestFreePrefix"], &status["utilizationPercent"]), (&json!(49), &json!(0)));
    let shown = store.run(&["ipam", "show", "-o", "json"]).json()["pools"][0].clone();
    assert_eq!(shown["carved"], u128::pow(2, 65).to_string());
}

#[test]
fn each_face_keeps_what_the_other_knows() {
    let store = Store::new();
    let mut calico = of_calico("IPPool", "pods", &json!({ "cidr": "10.9.0.0/24", "natOutgoing": true }));
    calico["metadata"]["labels"] = json!({ "zone": "north" });
    put(&store, "apply", &calico, &[]).exits(0);
    let spec = json!({ "cidr": "10.9.0.0/24", "ipFamily": "IPv4", "allocation": { "maxPrefixLength": 28 } });
    put(&store, "apply", &resource("IPPool", "pods", &spec), &[]).exits(0);
    calico["spec"]["vxlanMode"] = json!("Always");
    put(&store, "apply", &calico, &[]).exits(0);
    let (one, other) = (got(&store, "ippool", "pods"), got(&store, POOL, "pods"));
    assert_eq!((&one["spec"]["natOutgoing"], &one["spec"]["vxlanMode"]), (&json!(true), &json!("Always")));
    assert_eq!(other["spec"]["allocation"], json!({ "strategy": "FirstFit", "maxPrefixLength": 28 }));
    assert_eq!(one["metadata"]["labels"], other["metadata"]["labels"]);
    assert_eq!(one["metadata"]["labels"], json!({ "zone": "north" }));
    // What this face no longer says is taken back here, and nothing there.
    put(
        &store,
        "apply",
        &resource("IPPool", "pods", &json!({ "cidr": "10.9.0.0/24", "ipFamily": "IPv4" })),
        &[],
    )
    .exits(0);
    assert_eq!(got(&store, POOL, "pods")["spec"]["allocation"], json!({ "strategy": "FirstFit" }));
    assert_eq!(got(&store, "ippool", "pods")["spec"]["natOutgoing"], true);
    // The same name by either face is the same pool.
    store.run(&["delete", POOL, "pods"]).exits(0);
    store.run(&["get", "ippool", "pods"]).exits(1);
}

#[test]
fn a_child_pool_is_carved_and_what_it_holds_keeps_its_parent() {
    let store = with_pool("top", "10.32.0.0/11", "IPv4");
    let child = |name: &str| {
        resource("IPPool", name, &json!({ "parentPoolRef": { "name": "top" }, "prefixLength": 12 }))
    };
    let cidr = |made: Value| made["status"]["allocatedCIDR"].as_str().map(str::to_owned);
    let made: Vec<_> = ["a", "b"]
        .iter()
        .map(|name| {
            cidr(put(&store, "create", &child(name), &["-o", "json"]).exits(0).json()).expect("a CIDR")
        })
        .collect();
    assert_eq!(made, ["10.32.0.0/12", "10.48.0.0/12"]);
    put(&store, "create", &child("c"), &[]).exits(2);
    assert_eq!(carve(&store, &allocation("x", "a", "IPv4", Some(24)), &[]), "10.32.0.0/24");
    for pool in ["a", "top"] {
        let refused = store.run(&["delete", POOL, pool]);
        refused.exits(2);
        assert!(refused.err.contains("was not deleted: it holds"), "{refused:?}");
    }
    store.run(&["delete", "ipallocation", "x"]).exits(0);
    store.run(&["delete", POOL, "a", "b", "top"]).exits(0);
    store.run(&["get", POOL]).exits(1);
}

#[test]
fn a_manifest_is_told_apart_by_its_group_and_a_bare_word_is_calicos() {
    let store = with_pool("web", "10.9.0.0/24", "IPv4");
    for (word, group) in [
        ("ippool", "projectcalico.org"),
        ("IPPools", "projectcalico.org"),
        ("ippools.projectcalico.org", "projectcalico.org"),
        ("ippool.ipam.miloapis.com", "ipam.miloapis.com"),
        ("ippools.v1alpha1.ipam.miloapis.com", "ipam.miloapis.com"),
    ] {
        store.run(&["get", word, "-o", "name"]).prints(0, &format!("ippool.{group}/web\n"));
    }
    let tree = |args: &[&str]| store.run(&[&["explain"], args].concat()).exits(0).out.clone();
    let milo = tree(&["ippool", "--api-version=ipam.miloapis.com/v1alpha1", "--recursive"]);
    assert_eq!(milo, tree(&["ippools.ipam.miloapis.com", "--recursive"]));
    assert!(milo.contains("    parentPoolRef\t<LocalRef>\n      name\t<string> -required-\n"), "{milo}");
    assert!(!tree(&["ippool", "--recursive"]).contains("parentPoolRef"));
    let list = store.run(&["get", POOL, "-o", "json"]).json();
    assert_eq!(
        (&list["apiVersion"], &list["kind"]),
        (&json!("ipam.miloapis.com/v1alpha1"), &json!("IPPoolList"))
    );
    // A list that was got is applied as it is.
    put(&store, "apply", &list, &["-o", "name"]).prints(0, "ippool.ipam.miloapis.com/web\n");
}
