use serde_json::{Value, json};

use super::*;
use crate::api::milo::{IpAllocation, IpAllocationStatus, IpClaim, IpPoolSpec};
use crate::api::schema::milo::{IP_ALLOCATION, IP_CLAIM, IP_POOL};
use crate::api::validate::check_object;
use crate::clock::Timestamp;

/// Everything that is wrong, a line each.
fn problems(schema: &Schema, metadata: Value, spec: Value) -> Vec<String> {
    let mut object = json!({ "apiVersion": schema.api_version, "kind": schema.kind });
    object["metadata"] = metadata;
    object["spec"] = spec;
    check_object(schema, &object).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn refused(schema: &Schema, spec: Value, expected: &[&str]) {
    let found = problems(schema, json!({ "name": "x" }), spec);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}\nlacks: {expected}");
    }
}

#[track_caller]
fn allowed(schema: &Schema, spec: Value) {
    assert_eq!(problems(schema, json!({ "name": "x" }), spec), [""; 0]);
}

fn with(mut spec: Value, field: &str, value: Value) -> Value {
    spec[field] = value;
    spec
}

fn allocation() -> Value {
    json!({ "ipFamily": "IPv4", "poolRef": { "name": "web-tier-pool" } })
}

fn claim() -> Value {
    json!({ "ipFamily": "IPv4", "prefixLength": 24, "poolRef": { "name": "web" } })
}

fn root() -> Value {
    json!({ "cidr": "10.0.0.0/16", "ipFamily": "IPv4" })
}

#[test]
fn an_allocation_names_a_pool_and_a_family() {
    allowed(&IP_ALLOCATION, allocation());
    refused(&IP_ALLOCATION, json!({}), &["`spec.ipFamily` is missing", "`spec.poolRef` is missing"]);
    refused(&IP_ALLOCATION, with(allocation(), "poolRef", json!({})), &["`spec.poolRef.name` is missing"]);
    refused(
        &IP_ALLOCATION,
        with(allocation(), "poolRef", json!({ "name": "" })),
        &["`spec.poolRef.name` is ``; expected the name of an IPPool"],
    );
    refused(
        &IP_ALLOCATION,
        with(allocation(), "ipFamily", json!("ipv4")),
        &["`spec.ipFamily` is the text \"ipv4\"; expected `IPv4` or `IPv6`"],
    );
}

#[test]
fn an_unknown_field_is_refused_with_what_was_meant() {
    refused(
        &IP_ALLOCATION,
        with(allocation(), "ipfamily", json!("IPv4")),
        &["`spec.ipfamily` is no field of IPAllocation; did you mean `ipFamily`?"],
    );
    refused(
        &IP_POOL,
        with(root(), "allocation", json!({ "stratgey": "FirstFit" })),
        &["`spec.allocation.stratgey` is no field of IPPool; did you mean `strategy`?"],
    );
}

#[test]
fn a_field_of_another_api_of_that_version_is_refused_as_such() {
    let other = "is of another API that was served under the same version, and not supported: ";
    for (schema, spec, field, advice) in [
        (&IP_ALLOCATION, allocation(), "className", "name a pool in `spec.poolRef`"),
        (&IP_ALLOCATION, allocation(), "purpose", "leave it out"),
        (&IP_ALLOCATION, allocation(), "prefixLength", "`ipam.miloapis.com/prefix-length`"),
        (&IP_ALLOCATION, allocation(), "claimRef", "IPClaim"),
        (&IP_CLAIM, claim(), "className", "name a pool"),
        (&IP_CLAIM, claim(), "address", "`ipam.miloapis.com/requested-cidr`"),
        (&IP_CLAIM, claim(), "target", "always a block"),
        (&IP_POOL, root(), "reservations", "IPAllocations"),
        (&IP_POOL, root(), "classNames", "by labels"),
        (&IP_POOL, root(), "maxRetentionLease", "until it is deleted"),
    ] {
        let found = problems(schema, json!({ "name": "x" }), with(spec, field, json!("any")));
        assert_eq!(found.len(), 1, "{field}: {found:?}");
        assert!(found[0].starts_with(&format!("`spec.{field}` {other}")), "{}", found[0]);
        assert!(found[0].contains(advice), "{}", found[0]);
    }
}

#[test]
fn names_of_blocks_and_other_namespaces_are_refused() {
    let of = |metadata| problems(&IP_ALLOCATION, metadata, allocation());
    assert_eq!(of(json!({ "name": "x", "namespace": "default" })), [""; 0]);
    let found = of(json!({ "name": "x", "namespace": "shop" }));
    assert!(
        found[0].contains("`metadata.namespace` is the text \"shop\"; every IPAllocation is in `default`")
    );
    let found = of(json!({ "name": "block-web" }));
    assert!(found[0].contains("`metadata.name` is `block-web`: names with `block-` are"), "{found:?}");
    assert_eq!(problems(&IP_POOL, json!({ "name": "block-web" }), root()), [""; 0]);
    assert!(
        problems(&IP_POOL, json!({ "name": "x", "namespace": "default" }), root())[0].contains("namespaced")
    );
}

#[test]
fn an_annotation_that_asks_for_no_size_is_refused() {
    let annotated = |annotations: Value| {
        problems(&IP_ALLOCATION, json!({ "name": "x", "annotations": annotations }), allocation())
    };
    assert_eq!(annotated(json!({ "ipam.miloapis.com/prefix-length": "32" })), [""; 0]);
    let found = annotated(json!({ "ipam.miloapis.com/prefix-length": "64" }));
    assert!(found[0].ends_with("expected a prefix length from 1 to 32 for IPv4"), "{found:?}");
}

#[test]
fn a_claim_asks_one_pool_for_a_length_of_its_family() {
    allowed(&IP_CLAIM, claim());
    allowed(
        &IP_CLAIM,
        with(with(claim(), "poolRef", Value::Null), "poolSelector", json!({ "matchLabels": { "a": "b" } })),
    );
    refused(
        &IP_CLAIM,
        with(claim(), "prefixLength", json!(0)),
        &["`spec.prefixLength` is 0; expected a whole number from 1"],
    );
    refused(
        &IP_CLAIM,
        with(claim(), "prefixLength", json!(33)),
        &["`spec.prefixLength` is 33; expected 1 to 32 for IPv4"],
    );
    refused(&IP_CLAIM, with(claim(), "prefixLength", Value::Null), &["`spec.prefixLength` is missing"]);
    refused(&IP_CLAIM, with(claim(), "poolRef", Value::Null), &["`spec.poolRef` is missing, and so is"]);
    refused(&IP_CLAIM, with(claim(), "poolSelector", json!({})), &["`spec.poolSelector` is given beside"]);
    refused(&IP_CLAIM, with(claim(), "reclaimPolicy", json!("Keep")), &["expected `Delete` or `Retain`"]);
    let selector = |asked: Value| {
        with(with(claim(), "poolRef", Value::Null), "poolSelector", json!({ "matchExpressions": [asked] }))
    };
    refused(
        &IP_CLAIM,
        selector(json!({ "key": "a", "operator": "In" })),
        &["`spec.poolSelector.matchExpressions[0].values` has nothing in it; `In` needs a value"],
    );
    refused(
        &IP_CLAIM,
        selector(json!({ "key": "a", "operator": "Exists", "values": ["b"] })),
        &["`Exists` takes none"],
    );
    refused(
        &IP_CLAIM,
        with(claim(), "ownerRef", json!({ "kind": "Pod", "name": "x" })),
        &["`spec.ownerRef.apiGroup` is missing"],
    );
}

#[test]
fn a_requested_range_has_the_length_of_the_claim() {
    let of = |cidr: &str| {
        let annotations = json!({ "ipam.miloapis.com/requested-cidr": cidr });
        problems(&IP_CLAIM, json!({ "name": "x", "annotations": annotations }), claim())
    };
    assert_eq!(of("10.0.1.0/24"), [""; 0]);
    assert!(of("10.0.0.0/23")[0].ends_with("is 10.0.0.0/23, but `spec.prefixLength` is 24"));
}

#[test]
fn a_pool_is_a_root_or_a_child() {
    allowed(&IP_POOL, root());
    allowed(&IP_POOL, json!({ "cidr": "10.1.2.3/16", "ipFamily": "IPv4", "visibility": "shared" }));
    allowed(&IP_POOL, json!({ "parentPoolRef": { "name": "top" }, "prefixLength": 24 }));
    refused(&IP_POOL, json!({}), &["`spec.cidr` is missing: a root pool has"]);
    refused(
        &IP_POOL,
        with(root(), "ipFamily", Value::Null),
        &["`spec.ipFamily` is missing; expected `IPv4`"],
    );
    refused(
        &IP_POOL,
        with(root(), "ipFamily", json!("IPv6")),
        &["`spec.ipFamily` is IPv6, but 10.0.0.0/16 is IPv4"],
    );
    refused(&IP_POOL, with(root(), "prefixLength", json!(24)), &["`spec.prefixLength` is for child pools"]);
    refused(
        &IP_POOL,
        with(root(), "parentPoolRef", json!({ "name": "top" })),
        &["`spec.parentPoolRef` is given beside"],
    );
    refused(
        &IP_POOL,
        json!({ "parentPoolRef": { "name": "top" }, "ipFamily": "IPv4" }),
        &["`spec.prefixLength` is missing", "`spec.ipFamily` is for root pools"],
    );
    refused(&IP_POOL, with(root(), "cidr", json!("10.0.0.0")), &["expected a CIDR such as"]);
    refused(&IP_POOL, with(root(), "cidr", json!("169.254.0.0/16")), &["overlaps the link-local range"]);
    refused(
        &IP_POOL,
        with(root(), "visibility", json!("public")),
        &["expected `platform`, `consumer` or `shared`"],
    );
}

#[test]
fn the_rules_of_a_pool_hold_together() {
    let of = |rules: Value| with(root(), "allocation", rules);
    allowed(&IP_POOL, of(json!({ "strategy": "BestFit", "minPrefixLength": 0, "maxPrefixLength": 24 })));
    allowed(&IP_POOL, of(json!({ "minPrefixLength": 24, "maxPrefixLength": 24 })));
    refused(
        &IP_POOL,
        of(json!({ "strategy": "Random" })),
        &["expected `FirstFit`, `BestFit` or `LeastUtilized`"],
    );
    refused(
        &IP_POOL,
        of(json!({ "minPrefixLength": 28, "maxPrefixLength": 24 })),
        &[
            "`spec.allocation.minPrefixLength` is 28, more than `spec.allocation.maxPrefixLength`, which is 24",
        ],
    );
    refused(&IP_POOL, of(json!({ "maxPrefixLength": 64 })), &["is 64; expected 32 at most for IPv4"]);
}

#[test]
fn a_child_is_no_larger_than_its_parent() {
    let parent = "10.0.0.0/16".parse().expect("a CIDR");
    for fitting in [16, 24, 32] {
        assert_eq!(check_child(fitting, "top", parent), None);
    }
    for odd in [15, 33] {
        let problem = check_child(odd, "top", parent).expect("a problem").to_string();
        assert!(problem.ends_with("expected 16 to 32: the parent `top` is 10.0.0.0/16"), "{problem}");
    }
}

#[test]
fn what_was_carved_cannot_be_changed_and_each_field_is_named() {
    let mut stored = IpAllocation::new("x", serde_json::from_value(allocation()).expect("a specification"));
    let cidr = "10.0.0.0/26".parse().expect("a CIDR");
    stored.status = IpAllocationStatus::carved(cidr, "web", Timestamp::from_nanos(0)).into_value();
    let mut asked = stored.clone();
    assert_eq!(check_allocation_change(&stored, &asked), []);
    asked.metadata.labels.insert("a".into(), "b".into());
    asked.metadata.annotations.insert("ipam.miloapis.com/prefix-length".into(), "26".into());
    assert_eq!(check_allocation_change(&stored, &asked), [], "it is what was carved");
    asked.spec =
        serde_json::from_value(json!({ "ipFamily": "IPv6", "poolRef": { "name": "other" } })).expect("one");
    asked.metadata.annotations.insert("ipam.miloapis.com/prefix-length".into(), "28".into());
    let found: Vec<_> = check_allocation_change(&stored, &asked).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "`spec.ipFamily` cannot be changed: it is IPv4, and would become IPv6",
            "`spec.poolRef` cannot be changed: it is {\"name\":\"web-tier-pool\"}, and would become {\"name\":\"other\"}",
            "`metadata.annotations.\"ipam.miloapis.com/prefix-length\"` is 28, but 10.0.0.0/26 was carved, which cannot be changed",
        ]
    );
}

#[test]
fn a_claim_may_change_its_mind_about_what_becomes_of_it_alone() {
    let stored = IpClaim::new("x", serde_json::from_value(claim()).expect("a specification"));
    let asked = |field: &str, value: Value| {
        let spec = serde_json::from_value(with(claim(), field, value)).expect("a specification");
        let found = check_claim_change(&stored, &IpClaim::new("x", spec));
        found.iter().map(|problem| problem.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(asked("reclaimPolicy", json!("Retain")), [""; 0]);
    assert_eq!(asked("prefixLength", json!(25)), ["spec.prefixLength"]);
    assert_eq!(asked("poolRef", Value::Null), ["spec.poolRef"]);
    assert_eq!(asked("poolSelector", json!({})), ["spec.poolSelector"]);
}

#[test]
fn a_pool_may_change_its_rules_alone() {
    let of = |value: Value| -> IpPoolSpec { serde_json::from_value(value).expect("a specification") };
    let stored = of(root());
    let changed = |value| {
        let found = check_pool_change(&stored, &of(value));
        found.iter().map(|problem| problem.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(changed(with(root(), "allocation", json!({ "strategy": "BestFit" }))), [""; 0]);
    assert_eq!(changed(with(root(), "cidr", json!("10.0.9.9/16"))), [""; 0], "the same range");
    assert_eq!(
        changed(json!({ "parentPoolRef": { "name": "top" }, "prefixLength": 24 })),
        ["spec.cidr", "spec.ipFamily", "spec.parentPoolRef", "spec.prefixLength"]
    );
}
