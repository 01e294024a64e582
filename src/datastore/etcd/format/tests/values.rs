//! The values that Calico writes and wrote, one by one.

use super::*;
use crate::api::calico::{AffinityState, IpamBlock, IpamHandle};
use crate::datastore::Stored;

const BLOCK: &str = "/calico/ipam/v2/assignment/ipv4/block/10.244.3.64-30";
const AFFINITY: &str = "/calico/ipam/v2/host/worker-1/ipv4/block/10.244.3.64-30";
const HANDLE: &str = "/calico/ipam/v2/handle/k8s-pod-network.4f2a";

/// A block, with what is to be said besides its range and allocations.
fn block(rest: &str) -> Result<IpamBlock, Error> {
    let value = format!(r#"{{"allocations":[null,0,null,null],"unallocated":[2,3,0]{rest}}}"#);
    entry(BLOCK, &value).map(Entry::into)
}

#[test]
fn what_calico_writes_is_written_back_as_it_was() {
    for (key, value) in [
        (
            BLOCK,
            r#"{"cidr":"10.244.3.64/30","affinity":"host:worker-1","affinity_claim_time":"2026-08-22T06:33:20Z","allocations":[null,0,null,null],"unallocated":[2,3,0],"attributes":[{"handle_id":"k8s-pod-network.4f2a","secondary":{"namespace":"web","node":"worker-1","pod":"shop-0","timestamp":"2026-08-22 06:33:21.5 +0000 UTC"}}],"sequenceNumber":1787400000123456792,"sequenceNumberForAllocation":{"1":1787400000123456789},"deleted":false}"#,
        ),
        (
            BLOCK,
            r#"{"cidr":"10.244.3.64/30","affinity":null,"allocations":[0,null,null,null],"unallocated":[1,2,3],"attributes":[{"releasedAt":"2026-08-22T06:33:20Z"}],"sequenceNumber":18446744073709551615,"sequenceNumberForAllocation":{"0":18446744073709551614},"deleted":false}"#,
        ),
        (AFFINITY, r#"{"state":"confirmed","deleted":false}"#),
        (AFFINITY, r#"{"state":"pending","deleted":false}"#),
        (AFFINITY, r#"{"state":"pendingDeletion","deleted":false}"#),
        (HANDLE, r#"{"block":{"10.244.3.64/30":1},"deleted":false}"#),
        (
            "/calico/resources/v3/projectcalico.org/ippools/pods-v4",
            r#"{"kind":"IPPool","apiVersion":"projectcalico.org/v3","metadata":{"name":"pods-v4","uid":"8a0d1e22-0000-4000-8000-000000000001","creationTimestamp":"2026-08-01T00:00:00Z"},"spec":{"cidr":"10.244.0.0/16","vxlanMode":"CrossSubnet","ipipMode":"Never","natOutgoing":true,"blockSize":26,"nodeSelector":"all()","allowedUses":["Workload","Tunnel"],"assignmentMode":"Automatic"}}"#,
        ),
        (
            "/calico/resources/v3/projectcalico.org/ipreservations/gw",
            r#"{"kind":"IPReservation","apiVersion":"projectcalico.org/v3","metadata":{"name":"gw"},"spec":{"reservedCIDRs":["10.244.0.1/32"]}}"#,
        ),
        (
            "/calico/resources/v3/projectcalico.org/nodes/worker-1",
            r#"{"kind":"Node","apiVersion":"projectcalico.org/v3","metadata":{"name":"worker-1","labels":{"zone":"a"}},"spec":{"bgp":{"ipv4Address":"192.0.2.7/24","asNumber":4200000001}},"status":{"podCIDRs":["10.244.0.0/24"]}}"#,
        ),
    ] {
        let Entry { key: of, object, .. } = entry(key, value).expect(key);
        assert_eq!(sorted(&rewritten(&of, &object, value)), sorted(value));
        let alone = encode(&of, &object, None).expect("it may be stored");
        assert_eq!(sorted(std::str::from_utf8(&alone).expect("text")), sorted(value), "written elsewhere");
    }
}

#[test]
fn what_older_versions_wrote_is_read() {
    let ours = r#","cidr":"10.244.3.64/30","attributes":[{"handle_id":"h"}]"#;
    let named = block(ours).expect("no affinity, claim time, number or map");
    assert_eq!((named.affinity.clone(), named.sequence_number), (None, 0));
    for rest in [
        r#","affinity":null,"affinity_claim_time":null,"sequenceNumberForAllocation":null"#,
        r#","affinity":"""#,
        r#","hostAffinity":"worker-0","strictAffinity":true"#,
        r#","affinity_claim_time":"0001-01-01T00:00:00Z","deleted":null"#,
    ] {
        let block = block(&format!("{ours}{rest}")).expect(rest);
        assert_eq!((&block.affinity, block.affinity_claim_time), (&None, None), "{rest}");
        assert_eq!(block.attributes, named.attributes, "{rest}");
    }
    let never_used = r#"{"cidr":"10.244.3.64/30","affinity":"host:worker-1","allocations":[null,null,null,null],"unallocated":[0,1,2,3],"attributes":null,"deleted":false}"#;
    let never_used: IpamBlock = entry(BLOCK, never_used).expect("a block never used").into();
    assert!(never_used.attributes.is_empty());
    let host_bits = block(r#","cidr":"10.244.3.65/30","attributes":[{}]"#).expect("host bits");
    assert_eq!(host_bits.cidr.to_string(), "10.244.3.64/30");
}

#[test]
fn a_range_may_be_a_bare_address() {
    let key = "/calico/ipam/v2/assignment/ipv4/block/10.244.3.64-32";
    let value =
        r#"{"cidr":"10.244.3.64","affinity":null,"allocations":[null],"unallocated":[0],"attributes":[]}"#;
    let block: IpamBlock = entry(key, value).expect("a block of one address").into();
    assert_eq!(block.cidr.to_string(), "10.244.3.64/32");
    let handle = r#"{"block":{"10.244.3.64":1,"fd00::1":2}}"#;
    let handle: IpamHandle = entry(HANDLE, handle).expect("a handle").into();
    let blocks: Vec<_> = handle.block.iter().map(|(cidr, count)| format!("{cidr}={count}")).collect();
    assert_eq!(blocks, ["10.244.3.64/32=1", "fd00::1/128=2"]);
    let pool = r#"{"metadata":{"name":"a","creationTimestamp":null},"spec":{"cidr":"10.9.8.7","assignmentMode":""}}"#;
    let pool = entry("/calico/resources/v3/projectcalico.org/ippools/a", pool).expect("a pool");
    let Object::Pool(pool) = pool.object else { panic!("{pool:?}") };
    assert_eq!((pool.spec.cidr.to_string(), pool.kind.as_str()), ("10.9.8.7/32".into(), "IPPool"));
}

#[test]
fn an_empty_value_is_an_object_without_anything_in_it() {
    for value in ["", " ", "{}", r#"{"state":""}"#, r#"{"state":null,"deleted":null}"#] {
        let entry = entry(AFFINITY, value).unwrap_or_else(|error| panic!("{value:?}: {error}"));
        let Object::Affinity(affinity) = entry.object else { panic!("an affinity") };
        assert_eq!((affinity.state, affinity.deleted), (AffinityState::Confirmed, false), "{value:?}");
    }
    for value in ["", r#"{"block":null,"deleted":false}"#] {
        let handle: IpamHandle = entry(HANDLE, value).expect("a handle").into();
        assert!(handle.block.is_empty());
    }
    let node = entry("/calico/resources/v3/projectcalico.org/nodes/worker-1", "").expect("a node");
    let Object::Node(node) = node.object else { panic!("{node:?}") };
    assert_eq!(node.name(), "worker-1");
}

#[test]
fn what_does_not_parse_is_damaged_and_names_its_key() {
    let pool = "/calico/resources/v3/projectcalico.org/ippools/a";
    for (key, value, problem) in [
        (BLOCK, "", "cannot be read"),
        (BLOCK, "[]", "cannot be read"),
        (BLOCK, "{", "cannot be read"),
        (
            BLOCK,
            r#"{"cidr":"10.244.3.0/30","affinity":null,"allocations":[],"unallocated":[]}"#,
            "it holds block 10.244.3.0/30",
        ),
        (
            BLOCK,
            r#"{"cidr":"10.244.3.64/30","affinity":null,"allocations":[null],"unallocated":[0]}"#,
            "has 1 allocations",
        ),
        (
            BLOCK,
            r#"{"cidr":"10.244.3.64/30","affinity":null,"allocations":[5,null,null,null],"unallocated":[1,2,3],"attributes":[{}]}"#,
            "has no attribute 5",
        ),
        (
            BLOCK,
            r#"{"cidr":"10.244.3.64/30","affinity":"rack:a","allocations":[null,null,null,null],"unallocated":[0,1,2,3]}"#,
            "cannot be read",
        ),
        (AFFINITY, r#"{"state":"lost"}"#, "cannot be read"),
        (AFFINITY, "\"confirmed\"", "cannot be read"),
        (HANDLE, r#"{"block":{"here":1}}"#, "cannot be read"),
        (HANDLE, r#"{"block":{"10.244.3.64/30":-1}}"#, "cannot be read"),
        (pool, r#"{"metadata":{"name":"b"},"spec":{"cidr":"10.0.0.0/8"}}"#, "it holds `b`"),
        (pool, r#"{"metadata":{"name":"a"}}"#, "cannot be read"),
    ] {
        let error = entry(key, value).expect_err(value).to_string();
        assert!(
            error.starts_with(&format!("{key} is damaged: ")) && error.contains(problem),
            "{value}: {error}"
        );
    }
    let of = parse_key(AFFINITY).expect("a key");
    assert!(decode(&of, b"\xff", Revision(1)).expect_err("no text").to_string().contains("not UTF-8"));
}

#[test]
fn the_revision_is_etcds_and_never_stored() {
    let value = r#"{"kind":"IPReservation","apiVersion":"projectcalico.org/v3","metadata":{"name":"gw","resourceVersion":"3"},"spec":{"reservedCIDRs":[]}}"#;
    let Entry { key, object, .. } =
        entry("/calico/resources/v3/projectcalico.org/ipreservations/gw", value).expect("a reservation");
    let Object::Reservation(kept) = &object else { panic!("{object:?}") };
    assert_eq!(kept.metadata.resource_version.as_deref(), Some("7"));
    let written = rewritten(&key, &object, value);
    assert!(!written.contains("resourceVersion") && written.contains(r#""name":"gw""#), "{written}");
    assert!(IpamBlock::from_object(object).is_none());
}

#[test]
fn a_value_that_nests_deep_is_damaged() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200_000), "}".repeat(200_000));
    for key in [
        "/calico/ipam/v2/handle/n.x5",
        "/calico/resources/v3/projectcalico.org/ippools/p",
        "/calico/resources/v3/projectcalico.org/ipreservations/r",
    ] {
        let told = entry(key, &format!(r#"{{"block":null,"x":{deep}}}"#)).expect_err("damaged").to_string();
        assert!(told.contains(key) && told.contains("it nests too deep"), "{told}");
    }
}
