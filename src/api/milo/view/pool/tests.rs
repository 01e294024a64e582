use super::*;
use crate::api::milo::{AllocationRules, LocalRef, Strategy};
use serde_json::json;

fn manifest(text: serde_json::Value) -> IpPool {
    let mut pool = IpPool::new("p", serde_json::from_value(text).expect("a specification"));
    pool.metadata.labels.insert("tier".into(), "web".into());
    pool
}

fn root() -> IpPool {
    manifest(json!({ "cidr": "10.0.0.9/24", "ipFamily": "IPv4", "visibility": "shared" }))
}

fn cidr() -> Cidr {
    "10.0.0.0/24".parse().expect("a CIDR")
}

#[test]
fn a_pool_made_on_this_face_has_the_other_faces_defaults() {
    let record = PoolRecord::from_manifest(&root(), cidr(), None);
    assert_eq!(record.calico.spec, calico::IpPoolSpec::new(cidr()));
    assert_eq!(record.calico.spec.block_prefix(), 26);
    assert_eq!(record.calico.metadata.labels["tier"], "web");
    assert_eq!(PoolRecord::from_manifest(&record.to_manifest(), cidr(), Some(&record)), record);
    let shown = record.to_manifest();
    assert_eq!(
        serde_json::to_value(&shown.spec).expect("JSON"),
        json!({
            "cidr": "10.0.0.0/24", "ipFamily": "IPv4", "visibility": "shared",
            "allocation": { "strategy": "FirstFit" },
        })
    );
}

#[test]
fn neither_face_erases_what_only_the_other_knows() {
    let mut record = PoolRecord::from_manifest(&root(), cidr(), None);
    record.extras.project = Some("shop".into());
    // On the other face.
    record.calico.spec.block_size = Some(28);
    record.calico.spec.node_selector = Some("has(gpu)".into());
    record.calico.metadata.uid = Some("u".into());
    record.calico.metadata.annotations.insert(LAST_APPLIED_ANNOTATION.into(), "theirs".into());
    // On this one again.
    let mut again = root();
    again.spec.allocation =
        Some(AllocationRules { strategy: Some(Strategy::BestFit), ..AllocationRules::default() });
    again.metadata.annotations.insert(LAST_APPLIED_ANNOTATION.into(), "ours".into());
    let changed = PoolRecord::from_manifest(&again, cidr(), Some(&record));
    assert_eq!(changed.calico, record.calico);
    assert_eq!(changed.extras.project.as_deref(), Some("shop"));
    assert_eq!(changed.extras.strategy(), Strategy::BestFit);
    assert_eq!(changed.to_manifest().metadata.annotations[LAST_APPLIED_ANNOTATION], "ours");
    assert_eq!(PoolRecord::from_manifest(&changed.to_manifest(), cidr(), Some(&changed)), changed);
}

#[test]
fn a_child_pool_shows_its_parent_and_serves_pods_by_name_alone() {
    let child = manifest(json!({ "parentPoolRef": { "name": "top" }, "prefixLength": 24 }));
    let record = PoolRecord::from_manifest(&child, cidr(), None);
    assert_eq!(record.calico.spec.assignment_mode, Some(AssignmentMode::Manual));
    let shown = record.to_manifest();
    assert_eq!((shown.spec.cidr, shown.spec.ip_family), (None, None));
    assert_eq!((shown.spec.parent_pool_ref, shown.spec.prefix_length), (Some(LocalRef::to("top")), Some(24)));
}

fn status(record: &PoolRecord, capacity: &Capacity, slots: &Slots) -> serde_json::Value {
    record.to_resource(capacity, slots).status.expect("a status")
}

const WHOLE: Slots = Slots { prefix: 122, total: 4, free: 4, broken: 0, stranded: 0 };

#[test]
fn numbers_stop_where_the_api_stops_and_are_exact_beside() {
    let record = PoolRecord::from_manifest(&root(), cidr(), None);
    let (total, allocated) = (1u128 << 80, 1u128 << 64);
    let capacity = Capacity { total, allocated, available: total - allocated, largest_free_prefix: Some(49) };
    let told = status(&record, &capacity, &WHOLE);
    assert_eq!(told["capacity"], json!({ "total": i64::MAX, "allocated": i64::MAX, "available": 0 }));
    assert_eq!(told["exactCapacity"]["available"], "1208907372870555465154560");
    assert_eq!((&told["utilizationPercent"], &told["largestFreePrefix"]), (&json!(0), &json!(49)));
    assert_eq!(told["phase"], "Ready");
    assert_eq!(told["allocatedCIDR"], "10.0.0.0/24");
}

#[test]
fn a_pool_that_cannot_serve_pods_says_why() {
    let mut record = PoolRecord::from_manifest(&root(), cidr(), None);
    record.calico.spec.disabled = true;
    let capacity = Capacity { total: 256, allocated: 4, available: 252, largest_free_prefix: Some(27) };
    let slots = Slots { prefix: 26, total: 4, free: 0, broken: 4, stranded: 252 };
    let told = status(&record, &capacity, &slots);
    let of = |kind: &str| {
        let all = told["conditions"].as_array().expect("conditions");
        all.iter().find(|c| c["type"] == kind).expect(kind).clone()
    };
    assert_eq!(of("Allocatable")["reason"], "PoolDisabled");
    let message = of("BlocksAvailable")["message"].as_str().expect("a text").to_owned();
    assert!(
        message.starts_with("252 addresses are free, but none of its blocks of /26 is whole"),
        "{message}"
    );
    assert_eq!(told["slots"], json!({ "prefixLength": 26, "total": "4", "free": "0", "broken": "4" }));
}

#[test]
fn what_is_shown_may_be_applied_again() {
    for manifest in [root(), manifest(json!({ "parentPoolRef": { "name": "top" }, "prefixLength": 24 }))] {
        let record = PoolRecord::from_manifest(&manifest, cidr(), None);
        let capacity = Capacity { total: 256, allocated: 0, available: 256, largest_free_prefix: Some(24) };
        let shown = serde_json::to_value(record.to_resource(&capacity, &WHOLE)).expect("JSON");
        assert_eq!(crate::api::validate::check_object(&crate::api::schema::milo::IP_POOL, &shown), []);
    }
}
