//! The command line's verbs where etcd makes a difference: both homes of the configuration, what keeps Calico off carved
//! networks, and how the store is named. That everything else looks as it does in files is `cli::sessions`.

use serde_json::{Value, json};

use crate::cli::support::{Ran, Store, feed, program, resource};

const ALLOCATOR: &str = "/calico/ipam/v2/config";
const EDITED: &str = "/calico/resources/v3/projectcalico.org/ipamconfigurations/default";
const RESERVATIONS: &str = "/calico/resources/v3/projectcalico.org/ipreservations/";
const SHIELD: &str = "/calico/resources/v3/projectcalico.org/ipreservations/host-affine-carved-10-9-0-16-28";

fn value_at(store: &Store, key: &str) -> Option<Value> {
    let found = store.etcd().list(key).into_iter().find(|(found, _)| found == key);
    found.map(|(_, value)| serde_json::from_str(&value).expect("JSON"))
}

/// Both homes of the configuration: what the allocator goes by, and the specification that people edit.
fn homes(store: &Store) -> [Option<Value>; 2] {
    [value_at(store, ALLOCATOR), value_at(store, EDITED).map(|edited| edited["spec"].clone())]
}

fn shown(store: &Store) -> Ran {
    store.run(&["ipam", "show", "--show-configuration"])
}

#[test]
fn what_is_set_is_set_in_both_homes() {
    let Some(store) = Store::in_etcd() else { return };
    let url = store.url();
    assert_eq!(homes(&store), [None, None]);
    store
        .run(&["ipam", "configure", "--strictaffinity=true"])
        .prints(0, "Successfully set StrictAffinity to: true\n");
    assert_eq!(
        homes(&store),
        [
            Some(
                json!({ "strict_affinity": true, "auto_allocate_blocks": true, "kubeVirtVMAddressPersistence": "Disabled" })
            ),
            Some(json!({ "strictAffinity": true, "kubeVirtVMAddressPersistence": "Disabled" })),
        ],
        "{url}"
    );
    let spec =
        json!({ "maxBlocksPerHost": 4, "ipCooldownSeconds": 30, "kubeVirtVMAddressPersistence": "Enabled" });
    store.apply("IPAMConfiguration", "default", &spec).exits(0);
    let allocator = value_at(&store, ALLOCATOR).expect("it is there");
    assert_eq!((&allocator["maxBlocksPerHost"], &allocator["ipCooldownSeconds"]), (&json!(4), &json!(30)));
    assert_eq!(allocator["kubeVirtVMAddressPersistence"], "Enabled");
    assert_eq!(value_at(&store, EDITED).expect("it is there")["spec"]["maxBlocksPerHost"], 4);
    let told = shown(&store);
    assert_eq!((told.exits(0).err.as_str(), told.out.matches(ALLOCATOR).count()), ("", 4), "{told:?}");
    store.run(&["delete", "ipamconfiguration", "default", "--yes"]).exits(0);
    assert_eq!(homes(&store), [None, None]);
    store.run(&["get", "ipamconfiguration", "default"]).exits(1);
    let created = resource("IPAMConfiguration", "default", &json!({ "strictAffinity": true }));
    store.run_with(&["create", "-f", "-"], &created.to_string()).exits(0);
    assert_eq!(homes(&store)[0], Some(json!({ "strict_affinity": true, "auto_allocate_blocks": true })));
}

#[test]
fn homes_that_disagree_are_told_and_brought_into_step() {
    let Some(store) = Store::in_etcd() else { return };
    // `calicoctl apply` of an IPAMConfiguration, which Calico's allocator does not see.
    let edited =
        resource("IPAMConfiguration", "default", &json!({ "strictAffinity": true, "futureField": 7 }));
    store.etcd().put(EDITED, &edited.to_string());
    let told = shown(&store);
    assert!(
        told.exits(0).err.contains("note: strictAffinity: Calico's allocator does not go by it"),
        "{told:?}"
    );
    assert!(
        told.out
            .contains("| StrictAffinity               | true     | false    | IPAMConfiguration `default` |"),
        "{told:?}"
    );
    let document = store.run(&["ipam", "show", "--show-configuration", "-o", "json"]).json();
    assert_eq!(
        document["configurationFrom"]["maxBlocksPerHost"],
        json!({ "place": "default", "note": null })
    );
    // Nothing changes in what is in effect, and both say so afterwards.
    store.run(&["ipam", "configure", "--strictaffinity=true"]).exits(0);
    let [allocator, edited] = homes(&store);
    assert_eq!(allocator.expect("it is made")["strict_affinity"], true);
    assert_eq!(edited.expect("it is kept")["futureField"], 7);
    // `calicoctl ipam configure` turns it off, where the plugin's own resource still says that it is on.
    store.etcd().put(ALLOCATOR, r#"{"auto_allocate_blocks":true,"futureField":1}"#);
    let told = shown(&store);
    assert!(
        told.err.contains("IPAMConfiguration `default` says true, which Calico's allocator does not go by"),
        "{told:?}"
    );
    assert!(told.out.contains("| StrictAffinity               | false "), "{told:?}");
    let mut document = store.run(&["get", "ipamconfiguration", "default", "-o", "json"]).json();
    // It says every default. What nobody knows yet cannot be applied, but stays.
    document["spec"].as_object_mut().expect("a specification").remove("futureField");
    store.run_with(&["apply", "-f", "-"], &document.to_string()).exits(0);
    let [allocator, edited] = homes(&store);
    assert_eq!(
        allocator,
        Some(json!({
            "auto_allocate_blocks": true, "futureField": 1, "kubeVirtVMAddressPersistence": "Disabled",
            "maxBlocksPerHost": 20,
        }))
    );
    let edited = edited.expect("it is there");
    assert_eq!((&edited["strictAffinity"], &edited["futureField"]), (&json!(false), &json!(7)));
    assert_eq!(shown(&store).err, "");
}

#[test]
fn an_empty_configuration_of_the_allocator_claims_no_blocks() {
    let Some(store) = Store::in_etcd() else { return };
    store.apply("IPPool", "pods", &json!({ "cidr": "10.9.0.0/16" })).exits(0);
    store.etcd().put(ALLOCATOR, "{}");
    let network = store.network("n1", &json!([]));
    assert!(!store.call("ADD", "a", &network).status.success(), "Calico claims no block either");
    let told = shown(&store);
    assert!(told.out.contains("| AutoAllocateBlocks           | false "), "{told:?}");
    store.run(&["ipam", "configure", "--auto-allocate-blocks=true"]).exits(0);
    store.add("a", &network);
}

/// A store with a pool, and 10.9.0.16/28 carved out of it.
fn carved() -> Option<Store> {
    let store = Store::in_etcd()?;
    store.apply("IPPool", "pods", &json!({ "cidr": "10.9.0.0/16" })).exits(0);
    let allocation = json!({
        "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPAllocation",
        "metadata": { "name": "lab", "annotations": { "ipam.miloapis.com/requested-cidr": "10.9.0.16/28" } },
        "spec": { "ipFamily": "IPv4", "poolRef": { "name": "pods" } },
    });
    store.run_with(&["apply", "-f", "-"], &allocation.to_string()).exits(0);
    Some(store)
}

#[test]
fn calicos_allocator_is_kept_off_what_people_carve() {
    let Some(store) = carved() else { return };
    let shield = value_at(&store, SHIELD).expect("it goes with what was carved");
    assert_eq!(
        shield["spec"]["reservedCIDRs"],
        json!(["10.9.0.0/26"]),
        "no block that overlaps it is claimed"
    );
    assert_eq!(shield["metadata"]["labels"], json!({ "host-affine/carved": "true" }));
    assert_eq!(
        (&shield["kind"], &shield["apiVersion"]),
        (&json!("IPReservation"), &json!("projectcalico.org/v3"))
    );
    // People's own reservations are listed, and counted once.
    store.apply("IPReservation", "gw", &json!({ "reservedCIDRs": ["10.9.1.1"] })).exits(0);
    store.run(&["get", "ipreservations", "-o", "name"]).prints(0, "ipreservation.projectcalico.org/gw\n");
    let pools = store.run(&["ipam", "show", "-o", "json"]).json()["pools"].clone();
    assert_eq!((&pools[0]["reserved"], &pools[0]["carved"]), (&json!(1), &json!(16)), "{pools}");
    store.run(&["ipam", "check"]).exits(0);
    // No pod of ours gets a block there.
    for id in ["a", "b", "c"] {
        store.add(id, &store.network(id, &json!([])));
    }
    assert_eq!(store.etcd().list("/calico/ipam/v2/assignment/ipv4/block/10.9.0.0-26"), []);
    let taken = store.apply("IPReservation", "host-affine-carved-x", &json!({ "reservedCIDRs": [] }));
    assert!(taken.exits(2).err.contains("those of carved networks"), "{taken:?}");
    store.run(&["delete", "ipallocation", "lab", "--yes"]).exits(0);
    assert_eq!(store.etcd().list(RESERVATIONS).len(), 1, "it goes with it; the other stays");
}

#[test]
fn what_keeps_calico_off_is_checked_and_made_anew() {
    let Some(store) = carved() else { return };
    let before = value_at(&store, SHIELD);
    store.etcd().clear(SHIELD);
    let left = json!({
        "apiVersion": "projectcalico.org/v3", "kind": "IPReservation",
        "metadata": { "name": "host-affine-carved-10-9-7-0-24", "labels": { "host-affine/carved": "true" } },
        "spec": { "reservedCIDRs": ["10.9.7.0/24"] },
    });
    store.etcd().put(&format!("{RESERVATIONS}host-affine-carved-10-9-7-0-24"), &left.to_string());
    let checked = store.run(&["ipam", "check"]);
    checked.exits(1);
    for problem in [
        "carved network 10.9.0.16/28 has no IPReservation of its own",
        "IPReservation `host-affine-carved-10-9-7-0-24` is left of a carved network",
    ] {
        assert!(checked.out.contains(problem), "{problem}: {checked:?}");
    }
    store.run(&["ipam", "check", "--repair", "--yes"]).exits(0);
    assert_eq!(value_at(&store, SHIELD), before);
    assert_eq!(store.etcd().list(RESERVATIONS).len(), 1);
    store.run(&["ipam", "check"]).exits(0);
}

#[test]
fn a_block_of_calicos_over_a_carved_network_does_not_go_unnoticed() {
    let Some(store) = carved() else { return };
    let free: Vec<u16> = (1..64).collect();
    let mut allocations = vec![Value::Null; 64];
    allocations[0] = 0.into();
    let block = json!({
        "cidr": "10.9.0.0/26", "affinity": "host:calico", "allocations": allocations, "unallocated": free,
        "attributes": [{ "handle_id": "k8s-pod-network.1", "secondary": { "node": "calico", "pod": "p", "namespace": "n" } }],
        "sequenceNumber": 5, "sequenceNumberForAllocation": { "0": 4 }, "deleted": false,
    });
    store.etcd().put("/calico/ipam/v2/assignment/ipv4/block/10.9.0.0-26", &block.to_string());
    store.etcd().put(
        "/calico/ipam/v2/host/calico/ipv4/block/10.9.0.0-26",
        r#"{"state":"confirmed","deleted":false}"#,
    );
    store
        .etcd()
        .put("/calico/ipam/v2/handle/k8s-pod-network.1", r#"{"block":{"10.9.0.0/26":1},"deleted":false}"#);
    let checked = store.run(&["ipam", "check"]);
    assert!(
        checked.exits(1).out.contains("10.9.0.0/26") && checked.out.contains("10.9.0.16/28"),
        "{checked:?}"
    );
}

#[test]
fn calicos_variables_name_the_store() {
    let Some(store) = Store::in_etcd() else { return };
    store.apply("IPPool", "pods", &json!({ "cidr": "10.9.0.0/16" })).exits(0);
    let pools = |variables: &[(&str, &str)]| {
        let mut command = program();
        command.env("NETCONFPATH", store.dir().join("absent")).envs(variables.iter().copied());
        store.ran(feed(command.args(["get", "ippools", "-o", "name"]), ""))
    };
    let listed = "ippool.projectcalico.org/pods\n";
    let (url, endpoint, dead) = (store.url(), store.etcd().url(), "http://127.0.0.1:1");
    pools(&[("HOST_AFFINE_DATASTORE", &url), ("ETCD_ENDPOINTS", dead)]).prints(0, listed);
    pools(&[("ETCD_ENDPOINTS", &endpoint)]).prints(0, listed);
    pools(&[("DATASTORE_TYPE", "etcdv3"), ("ETCD_ENDPOINTS", &format!("{dead},{endpoint}"))])
        .prints(0, listed);
    pools(&[("CALICO_ETCD_ENDPOINTS", &endpoint), ("ETCD_ENDPOINTS", dead)]).prints(0, listed);
    let other =
        [("HOST_AFFINE_DATASTORE", ""), ("DATASTORE_TYPE", "kubernetes"), ("ETCD_ENDPOINTS", &*endpoint)];
    let file = pools(&other);
    assert!(!file.out.contains("pods"), "that is for Calico's programs alone: {file:?}");
    let conf = store.file("net.conf", &json!({
        "cniVersion": "1.0.0", "name": "net", "type": "calico", "etcd_endpoints": endpoint, "ipam": { "type": "host-affine" },
    }));
    let mut command = program();
    store.ran(feed(command.args(["--conf", &conf, "get", "ippools", "-o", "name"]), "")).prints(0, listed);
}
