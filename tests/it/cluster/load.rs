//! Forty hosts with twenty-five pods each, and exactly as many addresses, in fewer blocks than there are hosts.

use serde_json::json;

use super::hosts::{network, pool, typed};
use crate::support::cni::Call;

pub(super) const HOSTS: usize = 40;
pub(super) const PODS_OF_HOST: usize = 25;
pub(super) const PODS: usize = HOSTS * PODS_OF_HOST;
pub(super) const BLOCKS: usize = 16;
/// Of 1,024 in the pool, besides the pods'.
const RESERVED: [&str; 2] = ["10.77.1.16/28", "10.77.2.8/29"];

/// Makes the pool, and keeps back what is too many in it.
pub(super) fn set_up(endpoints: &[String]) {
    pool(endpoints, "p", "10.77.0.0/22", 26);
    let reservation = json!({
        "apiVersion": "projectcalico.org/v3",
        "kind": "IPReservation",
        "metadata": { "name": "kept" },
        "spec": { "reservedCIDRs": RESERVED },
    });
    typed(endpoints, &["apply", "-f", "-"], &reservation.to_string()).succeeded();
}

/// The call of every pod, host by host. Those of a host take turns by a lock in a directory.
pub(super) fn calls(endpoints: &[String], turns: &tempfile::TempDir, verb: &str) -> Vec<Call> {
    let of_pod = |pod: usize| {
        let host = format!("host-{}", pod / PODS_OF_HOST);
        let lock = turns.path().join(&host).display().to_string();
        network("load", endpoints).on(&host).with_top("ipam_lock_file", lock).call(verb, &container(pod))
    };
    (0..PODS).map(of_pod).collect()
}

/// What a pod's container is called.
pub(super) fn container(pod: usize) -> String {
    format!("pod-{pod}")
}
