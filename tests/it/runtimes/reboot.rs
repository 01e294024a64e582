//! The power fails: what the runtime knew is gone, what ran is dead, and the store is there.

use serde_json::json;

use super::podman::Podman;
use crate::support::cni::{all_different, skip};

#[test]
fn after_a_reboot_old_leases_are_listed_taken_back_when_needed_and_kept_by_who_comes_again() {
    let ipam = |store: &str| {
        json!({
            "type": "host-affine", "nodename": "node-1", "datastore": { "type": "file", "path": store },
            // Five that containers can have.
            "pools": [{ "cidr": "10.88.7.0/29", "blockSize": 29 }],
        })
    };
    let mut podman = match Podman::start(&ipam("/run/first")) {
        Ok(podman) => podman,
        Err(reason) => return skip(&reason),
    };
    let ipam = ipam(&podman.machine.path("store"));
    podman.serve(&ipam);
    let before: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| podman.keep(name, &[])).into();
    // The bridge's own address lies in their block as well.
    podman.machine.host_affine(&["ipam", "check"]).well();
    podman.machine.boot_again();

    // All are listed, with the proof, until somebody needs the room.
    let listed = podman.gc_with(&ipam, &["--dry-run"]).well();
    assert_eq!(listed.out.matches("its host has booted since").count(), 5, "{listed:?}");
    assert_eq!(podman.machine.view().held.len(), 5);
    // One that the runtime brings back has what it had, or another: never one that somebody alive has.
    podman.run(&["start", "a"]).well();
    let again = podman.address_of("a");
    let mut alive = vec![again];
    for name in ["n1", "n2", "n3", "n4"] {
        alive.push(podman.keep(name, &[]));
    }
    let alive = all_different(alive);
    assert_eq!(alive, before.iter().copied().collect(), "all five serve again");
    let full = podman.run_ip(&[]);
    full.fails_with(&["no free IPv4 address", "10.88.7.0/29"]);
    // Those that died with the old boot take nothing with them when they are removed.
    podman.run(&["rm", "-f", "-t", "0", "b", "c", "d", "e"]).well();
    assert!(podman.machine.view().held.keys().eq(alive.iter()));
    podman.clear();
    assert_eq!(podman.machine.view().held.len(), 0);
}
