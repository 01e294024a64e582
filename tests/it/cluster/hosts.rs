//! Networks of hosts that share an etcd, and the command line on it.

use std::net::IpAddr;

use host_affine::net::Cidr;
use serde_json::{Value, json};

use crate::support::cni::{Answer, Call, Network};

/// A network without pools of its own: those of the store serve it, to their first and last address.
pub(super) fn network(name: &str, endpoints: &[String]) -> Network {
    Network::of(&json!({
        "cniVersion": "1.1.0",
        "name": name,
        "type": "bridge",
        "ipam": {
            "type": "host-affine",
            "nodename": "node-1",
            "addressing": "routed",
            "datastore": { "type": "etcdv3", "endpoints": endpoints },
        },
    }))
}

/// What a person types, on that etcd.
pub(super) fn typed(endpoints: &[String], words: &[&str], stdin: &str) -> Answer {
    let places: Vec<&str> = endpoints.iter().map(|url| url.rsplit('/').next().unwrap_or_default()).collect();
    let store = format!("--datastore=etcd://{}", places.join(","));
    let words: Vec<&str> = [store.as_str()].into_iter().chain(words.iter().copied()).collect();
    Call::typed(&words, stdin).run()
}

/// Creates a pool as a person does.
pub(super) fn pool(endpoints: &[String], name: &str, cidr: &str, block_size: u8) {
    let pool = json!({
        "apiVersion": "projectcalico.org/v3",
        "kind": "IPPool",
        "metadata": { "name": name },
        "spec": { "cidr": cidr, "blockSize": block_size },
    });
    typed(endpoints, &["apply", "-f", "-"], &pool.to_string()).succeeded();
}

/// Every address that is held, with the handle of its holder, in the order of the addresses: from the blocks themselves.
#[track_caller]
pub(super) fn held(endpoints: &[String]) -> Vec<(IpAddr, String)> {
    let listed: Value =
        serde_json::from_str(&typed(endpoints, &["get", "ipamblocks", "-o", "json"], "").succeeded().stdout)
            .expect("a list of blocks");
    let mut held = Vec::new();
    for block in listed["items"].as_array().expect("items") {
        let spec = &block["spec"];
        let cidr: Cidr = spec["cidr"].as_str().expect("a range").parse().expect("a range");
        for (ordinal, attribute) in (0..).zip(spec["allocations"].as_array().expect("allocations")) {
            if let Some(place) = attribute.as_u64() {
                let handle = &spec["attributes"][usize::try_from(place).expect("small")]["handle_id"];
                let address = cidr.nth(ordinal).expect("as many as the block has");
                held.push((address, handle.as_str().unwrap_or_default().to_owned()));
            }
        }
    }
    held.sort();
    held
}

/// `ipam check` must find nothing.
#[track_caller]
pub(super) fn is_sound(endpoints: &[String]) {
    let found = typed(endpoints, &["ipam", "check"], "");
    assert!(found.is_success(), "{}{}", found.stdout, found.stderr);
}
