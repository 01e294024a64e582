//! What to begin with: the test data, and what the program itself writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use host_affine::datastore::file::{Access, IfAbsent};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::cni::Network;
use crate::support::store::open;

/// What configurations and objects are made of.
pub(super) const WORDS: [&str; 44] = [
    "\"cniVersion\":\"1.1.0\"",
    "\"ipam\":",
    "\"pools\":",
    "\"cidr\":\"",
    "\"ranges\":",
    "\"subnet\":",
    "\"rangeStart\":",
    "\"gateway\":",
    "\"ipv4_pools\":",
    "\"assign_ipv6\":",
    "\"routes\":",
    "\"dst\":",
    "\"runtimeConfig\":",
    "\"ips\":",
    "\"prevResult\":",
    "\"args\":",
    "\"blockSize\":",
    "\"nodeSelector\":",
    "\"metadata\":",
    "\"spec\":",
    "\"status\":",
    "\"resourceVersion\":",
    "\"allocations\":",
    "\"unallocated\":",
    "\"attributes\":",
    "\"sequenceNumber\":",
    "\"affinity\":",
    "0.0.0.0/0",
    "::/0",
    "10.0.0.0/8",
    "fd00::/8",
    "255.255.255.255/32",
    "::ffff:1.2.3.4",
    "null",
    "true",
    "-1",
    "1e400",
    "18446744073709551616",
    "4294967296",
    "\\ud800",
    "[[[[[[[[",
    "- &a [*a]",
    "---\n",
    "!!binary |",
];

/// What `CNI_ARGS` is made of.
pub(super) const ARGS: [&str; 20] = [
    "IgnoreUnknown=1",
    "IgnoreUnknown=",
    "IP=",
    "IP=10.0.0.7",
    "IP=fd00::1/64",
    "IP=::ffff:10.0.0.7,10.0.0.8",
    ";",
    "=",
    ",",
    "K8S_POD_NAME=",
    "K8S_POD_NAMESPACE=",
    "K8S_POD_INFRA_CONTAINER_ID=",
    "K8S_POD_UID=",
    "MAC=",
    "IPAM_VM_NAME=",
    "IPAM_MIGRATION_UID=",
    "../..",
    "%",
    "\u{fe0f}",
    "10.0.0.7/33",
];

/// What records are made of.
pub(super) const OPERATIONS: [&str; 18] = [
    "put ",
    "delete 0 ",
    "set 0 10.0.0.0/29 0 1001 ",
    "clear 0 10.0.0.0/29 0 1002\n",
    "handle-add ",
    "handle-remove ",
    "%%\n",
    "ipam/blocks/10.0.0.0-29.json",
    "state",
    "index",
    "../../x",
    "18446744073709551615",
    "ffffffff",
    "HA01 ",
    "HA02 ",
    "HAJ1 ",
    "HAJ2 ",
    "\n",
];

/// Configurations, as the conformance suite sends them.
pub(super) fn configurations() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for file in files(Path::new("testdata/conformance/cni")) {
        let case: Value = serde_json::from_slice(&fs::read(&file).expect("a case")).expect("JSON");
        for step in case["steps"].as_array().expect("steps") {
            let mut stdin = step["stdin"].clone();
            if stdin["ipam"].is_string() {
                stdin["ipam"] = json!({ "type": "host-affine", "ranges": [[{ "subnet": "10.1.0.0/24" }]] });
            }
            if stdin.is_object() {
                found.push(stdin.to_string().into_bytes());
            }
        }
    }
    found.sort();
    found.dedup();
    let pools = json!([
        { "cidr": "10.0.0.0/24", "blockSize": 28, "nodeSelector": "zone == 'a'", "name": "pods" },
        { "cidr": "fd00::/64", "allowedUses": ["Workload"], "gateway": "fd00::1" },
    ]);
    let network = Network::new("pods", Path::new("/nowhere"), &pools);
    found.push(
        network.with("routes", json!([{ "dst": "0.0.0.0/0", "gw": "10.0.0.1" }])).conf.to_string().into(),
    );
    found.push(
        network
            .with_top("runtimeConfig", json!({ "ips": ["10.0.0.7/24", "fd00::7"] }))
            .conf
            .to_string()
            .into(),
    );
    found.push(
        network
            .with("ipv4_pools", json!(["10.0.0.0/24"]))
            .with("assign_ipv6", "true")
            .conf
            .to_string()
            .into(),
    );
    found
}

/// `CNI_ARGS` as runtimes send them.
pub(super) fn args() -> Vec<Vec<u8>> {
    let texts = [
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=3f2a90;K8S_POD_UID=1-2",
        "IgnoreUnknown=true;IP=10.0.0.7",
        "IP=10.0.0.7,fd00::7/64;IgnoreUnknown=1",
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=virt-launcher-db-aaaaa;IPAM_VM_NAME=db",
        "",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// Journals that a store had: raw, and the bodies of their records.
pub(super) fn journals(scratch: &Path) -> Vec<Vec<u8>> {
    let store = store_of(scratch, "journals");
    let mut raw = fs::read(store.join("journal")).expect("a journal");
    let end = raw.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    raw.truncate(end);
    let mut bodies = Vec::new();
    let mut rest = &raw[128..];
    while let Some(head) = rest.get(..66).filter(|head| head.starts_with(b"HA02 ")) {
        let length = std::str::from_utf8(&head[22..30]).expect("hexadecimal");
        let length = usize::from_str_radix(length, 16).expect("hexadecimal");
        bodies.push(rest[66..66 + length].to_vec());
        rest = &rest[67 + length..];
    }
    assert!(bodies.len() >= 5, "{} records", bodies.len());
    let joined = bodies.join(&b"%%\n"[..]);
    vec![raw, joined, bodies[0].clone(), bodies[..2].join(&b"%%\n"[..])]
}

/// Files of objects, each behind the byte that says which.
pub(super) fn objects(scratch: &Path) -> Vec<Vec<u8>> {
    let store = store_of(scratch, "objects");
    open(&store, Access::Change, IfAbsent::None).expect("it is there").write_out().expect("written out");
    let mut found = Vec::new();
    let kinds = [
        (0, "ipam/affinities/"),
        (1, "ipam/blocks/"),
        (10, "projectcalico.org/ippools/"),
        (13, "state"),
        (14, "index"),
        (15, "format"),
    ];
    for file in files(&store) {
        let name = file.strip_prefix(&store).expect("below").display().to_string();
        for (kind, _) in kinds.iter().filter(|(_, start)| name.starts_with(start)) {
            found.push([vec![*kind], fs::read(&file).expect("it is there")].concat());
        }
    }
    let others = [
        (
            2,
            json!({ "resourceVersion": "4", "pool": "a", "owner": { "allocation": { "project": "default", "name": "web" } } }),
        ),
        (3, json!({ "resourceVersion": "4", "handle": "pods.c", "machines": ["pods.vmi.prod.db"] })),
        (
            4,
            json!({ "resourceVersion": "4", "handle": "pods.vmi.prod.db", "network": "pods", "namespace": "prod", "name": "db", "attachments": [] }),
        ),
        (
            5,
            json!({ "resourceVersion": "4", "network": "pods", "hosts": { "n": { "directory": "/var/lib/cni/networks/pods", "inode": 7, "ranges": ["10.0.0.0/24"] } } }),
        ),
        (
            6,
            json!({ "project": "default", "metadata": { "name": "web", "resourceVersion": "4" }, "spec": { "ipFamily": "IPv4", "poolRef": { "name": "a" } } }),
        ),
        (
            9,
            json!({ "apiVersion": "projectcalico.org/v3", "kind": "IPAMConfiguration", "metadata": { "name": "default", "resourceVersion": "3" }, "spec": { "strictAffinity": true } }),
        ),
        (
            12,
            json!({ "apiVersion": "projectcalico.org/v3", "kind": "Node", "metadata": { "name": "n", "resourceVersion": "3" }, "spec": {} }),
        ),
    ];
    found.extend(others.map(|(kind, object)| [vec![kind], object.to_string().into_bytes()].concat()));
    assert!(found.len() > 10, "{}", found.len());
    found
}

/// Manifests of the test data.
pub(super) fn manifests() -> Vec<Vec<u8>> {
    let files = files(Path::new("testdata/cli")).into_iter();
    let manifests = files.filter(|file| file.extension().is_some_and(|e| e == "yaml" || e == "json"));
    let found: Vec<_> = manifests.map(|file| fs::read(file).expect("a manifest")).collect();
    assert!(found.len() > 20, "{}", found.len());
    found
}

/// A store in which a few calls were made.
fn store_of(scratch: &Path, name: &str) -> PathBuf {
    let store = scratch.join(name);
    let pools = json!([{ "cidr": "10.0.0.0/28", "blockSize": 29, "name": "pods" }]);
    let network = Network::new("pods", &store, &pools).on("n").unflushed();
    for container in ["a", "b", "c"] {
        network.add(container).succeeded();
    }
    network.del("b").succeeded();
    network.add("d").succeeded();
    store
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// What stands in a cluster that Calico wrote, a key and its value each, and what only we write.
pub(super) fn etcd_values() -> Vec<Vec<u8>> {
    let cluster = fs::read_to_string("testdata/etcd/cluster.json").expect("a cluster");
    let cluster: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&cluster).expect("keys and values");
    let attachment = json!({
        "containerId": "c", "ifname": "eth0", "role": "source", "pod": "p", "node": "n", "since": "2026-01-01T00:00:00Z",
    });
    let of_people = |kind: &str, spec: Value| json!({ "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": kind, "metadata": { "name": "web" }, "spec": spec });
    let allocation = of_people("IPAllocation", json!({ "ipFamily": "IPv4", "poolRef": { "name": "a" } }));
    let claim = of_people(
        "IPClaim",
        json!({ "ipFamily": "IPv4", "prefixLength": 28, "poolRef": { "name": "a" }, "reclaimPolicy": "Delete" }),
    );
    let machine =
        json!({ "network": "pods", "namespace": "prod", "name": "db", "attachments": [attachment] });
    let ours = [
        (
            "carved/ipv4/10.0.1.0-28",
            json!({ "pool": "a", "owner": { "allocation": { "project": "default", "name": "web" } } }),
        ),
        (
            "imports/pods",
            json!({ "network": "pods", "hosts": { "n": { "directory": "/var/lib/cni/networks/pods", "inode": 7, "ranges": ["10.0.0.0/24"] } } }),
        ),
        ("vms/pods.vmi.prod.db", machine),
        ("vms-of/pods.c", json!({ "machines": ["pods.vmi.prod.db"] })),
        ("ipallocations/default/web", allocation),
        ("ipclaims/default/web", claim),
    ];
    let ours = ours.into_iter().map(|(name, value)| (format!("/host-affine/{name}"), value.to_string()));
    let edited = json!({
        "apiVersion": "projectcalico.org/v3", "kind": "IPAMConfiguration", "metadata": { "name": "default" },
        "spec": { "strictAffinity": true, "futureField": 7 },
    });
    let edited =
        ("/calico/resources/v3/projectcalico.org/ipamconfigurations/default".to_owned(), edited.to_string());
    // As an older version spells a range, beside a member that says nothing.
    let old = json!({ "block": { "10.0.0.1/26": 1 }, "futureField": null });
    let old = ("/calico/ipam/v2/handle/old".to_owned(), old.to_string());
    let long = json!({ "metadata": { "name": "n" }, "spec": {} }).to_string();
    let long = long.replacen('{', &format!(r#"{{"futureField":4{}.6,"#, "6".repeat(71)), 1);
    let long = ("/calico/resources/v3/projectcalico.org/nodes/n".to_owned(), long);
    let written = cluster.into_iter().map(|(key, value)| (key, value.get().to_owned()));
    written
        .chain(ours)
        .chain([edited, old, long])
        .map(|(key, value)| format!("{key}\n{value}").into_bytes())
        .collect()
}
