//! Fields that nobody knows yet, at every level of every object.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::api::calico::{AffinityState, Attribute, AttributeFields, BlockAffinity, IpamBlock, IpamHandle};

/// Values as others may write them, with numbers that no float holds.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Members whose names no version has given yet.
fn unknown() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("future[A-Z][a-z]{0,3}", value(), 0..3)
        .prop_map(|map| map.into_iter().collect())
}

fn with(mut object: Value, extra: &Map<String, Value>) -> Value {
    let members = object.as_object_mut().expect("an object");
    members.extend(extra.clone());
    object
}

fn check(key: &str, value: &Value) -> Result<(), TestCaseError> {
    let text = value.to_string();
    let Entry { key, object, .. } =
        entry(key, &text).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&sorted(&rewritten(&key, &object, &text)), &sorted(&text));
    let alone = encode(&key, &object, None).expect("it may be stored");
    let alone: Value = serde_json::from_slice(&alone).expect("json");
    prop_assert_eq!(&alone, value, "without what stood there");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_resource_keeps_what_others_keep_in_it(
        around in unknown(), in_metadata in unknown(), in_spec in unknown(), status in value(),
    ) {
        let metadata = with(json!({"name": "a", "labels": {"x": "y"}}), &in_metadata);
        for (kind, plural, spec) in [
            ("IPPool", "ippools", json!({"cidr": "10.0.0.0/8"})),
            ("IPReservation", "ipreservations", json!({"reservedCIDRs": ["10.0.0.0/30"]})),
            ("Node", "nodes", json!({"orchRefs": [{"nodeName": "a"}]})),
        ] {
            let spec = with(spec, &in_spec);
            let object = json!({
                "apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": metadata, "spec": spec, "status": status,
            });
            let key = format!("/calico/resources/v3/projectcalico.org/{plural}/a");
            check(&key, &with(object, &around))?;
        }
    }

    #[test]
    fn a_block_keeps_what_others_keep_in_it(around in unknown(), in_attribute in unknown(), number: u64) {
        let attribute = with(json!({"handle_id": "h", "secondary": {"node": "n"}}), &in_attribute);
        let block = json!({
            "cidr": "10.244.3.64/31", "affinity": "virtual:load-balancer", "allocations": [null, 0], "unallocated": [0],
            "attributes": [attribute], "sequenceNumber": number, "sequenceNumberForAllocation": {"1": number},
            "deleted": false,
        });
        check("/calico/ipam/v2/assignment/ipv4/block/10.244.3.64-31", &with(block, &around))?;
        check("/calico/ipam/v2/handle/h", &with(json!({"block": {"10.244.3.64/31": 1}, "deleted": false}), &around))?;
    }
}

/// What stands at a key, with a field that we do not know.
const OF_THE_FUTURE: &str = r#""future":{"digits":123456789012345678901234567890}"#;

#[test]
fn a_record_made_anew_keeps_what_stood_there() {
    let confirmed = BlockAffinity::new(AffinityState::Confirmed).into();
    let key = parse_key("/calico/ipam/v2/host/a/ipv4/block/10.0.0.0-26").expect("an affinity");
    let stored = format!(r#"{{"state":"pending","deleted":false,{OF_THE_FUTURE}}}"#);
    assert_eq!(
        sorted(&rewritten(&key, &confirmed, &stored)),
        sorted(&format!(r#"{{"state":"confirmed","deleted":false,{OF_THE_FUTURE}}}"#))
    );
    let key = parse_key("/calico/ipam/v2/handle/h").expect("a handle");
    let stored = format!(r#"{{"block":{{"10.0.0.0/26":2}},{OF_THE_FUTURE}}}"#);
    let written = rewritten(&key, &IpamHandle::default().into(), &stored);
    assert_eq!(sorted(&written), sorted(&format!(r#"{{"block":{{}},"deleted":false,{OF_THE_FUTURE}}}"#)));
    let cidr = "10.0.0.0/31".parse().expect("cidr");
    let block = IpamBlock::new(cidr, None, crate::clock::Timestamp::default(), 5);
    let key = Key::Block(cidr);
    let stored = format!(
        r#"{{"cidr":"10.0.0.0/31","affinity":"host:a","affinity_claim_time":"2026-08-22T06:33:20Z",{OF_THE_FUTURE}}}"#
    );
    let written = rewritten(&key, &block.into(), &stored);
    assert!(written.contains(OF_THE_FUTURE) && written.contains(r#""affinity":null"#), "{written}");
    assert!(!written.contains("claim_time"), "what was taken away stays away: {written}");
}

#[test]
fn an_allocation_beside_others_leaves_their_attributes_alone() {
    let theirs = format!(r#"{{"handle_id":"theirs","secondary":{{}},{OF_THE_FUTURE}}}"#);
    let stored = format!(
        r#"{{"cidr":"10.0.0.0/31","affinity":"host:a","allocations":[0,null],"unallocated":[1],"attributes":[{theirs}],"sequenceNumber":9007199254740993,"deleted":false,{OF_THE_FUTURE}}}"#
    );
    let Entry { key, object, .. } =
        entry("/calico/ipam/v2/assignment/ipv4/block/10.0.0.0-31", &stored).expect("a block");
    let Object::Block(mut block) = object else { panic!("a block") };
    let ours =
        Attribute::new(&AttributeFields { handle_id: Some("ours".into()), ..AttributeFields::default() });
    assert!(block.set(1, &ours, 9_007_199_254_740_994));
    let written = rewritten(&key, &Object::Block(block), &stored);
    assert!(written.contains(&format!(r#""attributes":[{theirs},{{"handle_id":"ours"}}]"#)), "{written}");
    assert!(written.contains(r#""sequenceNumberForAllocation":{"1":9007199254740993}"#), "{written}");
    assert_eq!(written.matches(OF_THE_FUTURE).count(), 2, "{written}");
}

#[test]
fn a_person_who_takes_a_field_away_takes_it_away() {
    let stored = r#"{"apiVersion":"projectcalico.org/v3","kind":"IPPool","metadata":{"name":"a","annotations":{"x":"y"}},"spec":{"cidr":"10.0.0.0/8","natOutgoing":true,"mtu":1450.0}}"#;
    let Entry { key, object, .. } =
        entry("/calico/resources/v3/projectcalico.org/ippools/a", stored).expect("a pool");
    let Object::Pool(mut pool) = object else { panic!("a pool") };
    pool.metadata.annotations.clear();
    pool.spec.extra.remove("natOutgoing");
    let written = rewritten(&key, &Object::Pool(pool), stored);
    assert_eq!(
        sorted(&written),
        r#"{"apiVersion":"projectcalico.org/v3","kind":"IPPool","metadata":{"name":"a"},"spec":{"cidr":"10.0.0.0/8","mtu":1450.0}}"#
    );
}
