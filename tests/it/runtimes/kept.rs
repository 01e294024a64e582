//! What podman's users do, with containers that run and ones that die.

use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::podman::Podman;
use crate::support::cni::{all_different, skip};

fn ipam(podman_store: &str) -> Value {
    json!({
        "type": "host-affine", "pools": [{ "cidr": "10.88.6.0/24" }], "nodename": "node-1",
        "routes": [{ "dst": "0.0.0.0/0" }], "datastore": { "type": "file", "path": podman_store },
    })
}

/// podman with a network of ours.
fn podman() -> Option<Podman> {
    // The store's place is known only with the machine: the first network has one that is replaced at once.
    let started = Podman::start(&ipam("/run/first"));
    match started {
        Ok(podman) => {
            podman.serve(&ipam(&podman.machine.path("store")));
            Some(podman)
        }
        Err(reason) => {
            skip(&reason);
            None
        }
    }
}

#[test]
fn podman_gives_a_container_an_address_or_the_one_it_asks_for_and_says_why_not() {
    let Some(podman) = podman() else { return };
    let some = podman.run_ip(&[]).address();
    assert!(some.to_string().starts_with("10.88.6."), "{some}");
    assert_eq!(podman.machine.view().held.len(), 0, "it came back when the container ended");
    let asked: IpAddr = "10.88.6.99".parse().expect("an address");
    assert_eq!(podman.run_ip(&["--ip", "10.88.6.99"]).address(), asked);
    assert_eq!(podman.keep("holder", &["--ip", "10.88.6.99"]), asked);
    podman.run_ip(&["--ip", "10.88.6.99"]).fails_with(&["10.88.6.99", "holder", "node-1"]);
    podman.run_ip(&["--ip", "10.99.0.1"]).fails_with(&["10.99.0.1", "10.88.6.0/24"]);
    assert_eq!(podman.machine.view().held.len(), 1);
    podman.clear();
    let view = podman.machine.view();
    assert_eq!((view.held.len(), view.handles), (0, 0));
}

#[test]
fn a_published_port_of_podmans_leads_to_the_container_also_after_a_restart() {
    let Some(podman) = podman() else { return };
    podman.keep("web", &["-p", "8077:80"]);
    // The server in it needs a moment.
    let page = || {
        let get = ["curl", "-s", "--max-time", "10", "http://127.0.0.1:8077/"];
        (0..50).map(|_| podman.machine.run(&get)).find(|ran| ran.is_success).expect("an answer")
    };
    assert_eq!(podman.machine.view().held.len(), 1);
    for _ in 0..2 {
        assert_eq!(page().well().out, "here I am\n");
        podman.run(&["restart", "-t", "0", "web"]).well();
        let view = podman.machine.view();
        assert_eq!(view.held.keys().copied().collect::<Vec<_>>(), [podman.address_of("web")]);
    }
    assert_eq!(page().well().out, "here I am\n");
    // Two containers see each other.
    let address = podman.address_of("web").to_string();
    let ping = podman.container(&["--rm"], &["/bin/wget", "-q", "-O", "-", &address]);
    assert_eq!(podman.run(&ping).well().out, "here I am\n");
    podman.clear();
    assert_eq!(podman.machine.view().held.len(), 0);
}

#[test]
fn podman_that_is_killed_while_it_starts_a_container_costs_no_address_for_good() {
    let Some(podman) = podman() else { return };
    let kept = podman.keep("kept", &[]);
    for n in 0..10_u64 {
        let name = format!("killed{n}");
        let words = podman.container(&["-d", "--name", &name], &["/bin/sleep", "100000"]);
        let mut child = podman.spawn(&words);
        thread::sleep(Duration::from_millis(40 * n));
        // `nsenter` has become its parent: the name of the process is podman's own.
        podman.machine.run(&[
            "sh",
            "-c",
            "for p in /proc/[0-9]*; do \
            [ \"$(cat $p/comm 2>/dev/null)\" = podman ] && kill -9 ${p#/proc/}; done; true",
        ]);
        let _ = child.kill();
        child.wait().expect("its end");
    }
    let other = podman.keep("other", &[]);
    let held = podman.machine.view().held;
    assert!(held.contains_key(&kept) && held.contains_key(&other) && kept != other, "{held:?}");
    podman.run(&["rm", "-f", "-a", "-t", "0"]);
    // What podman forgot has namespaces that it forgot as well; when these are gone nobody doubts any more.
    podman.machine.run(&["sh", "-c", "for n in /run/netns/*; do umount $n; rm -f $n; done; true"]);
    podman.gc(&ipam(&podman.machine.path("store"))).well();
    let view = podman.machine.view();
    assert_eq!((view.held.len(), view.handles), (0, 0), "{:?}", view.held);
}

#[test]
fn thirty_containers_of_podmans_start_at_once() {
    let Some(podman) = podman() else { return };
    let names: Vec<String> = (0..30).map(|n| format!("c{n}")).collect();
    thread::scope(|scope| {
        for name in &names {
            let podman = &podman;
            scope.spawn(move || {
                let words = podman.container(&["-d", "--name", name], &["/bin/sleep", "100000"]);
                podman.run(&words).well();
            });
        }
    });
    let addresses = names.iter().map(|name| podman.address_of(name));
    let given = all_different(addresses);
    assert!(podman.machine.view().held.keys().eq(given.iter()));
    podman.clear();
    assert_eq!(podman.machine.view().held.len(), 0);
}

#[test]
fn podmans_network_of_host_locals_is_switched_while_its_containers_run() {
    let range = |kind: &str| {
        json!({
            "type": kind, "ranges": [[{ "subnet": "10.88.9.0/24" }]], "routes": [{ "dst": "0.0.0.0/0" }],
        })
    };
    let mut podman = match Podman::start(&range("host-local")) {
        Ok(podman) => podman,
        Err(reason) => return skip(&reason),
    };
    let before = [podman.keep("old1", &[]), podman.keep("old2", &[])];
    podman.serve(&range("host-affine"));
    let after: Vec<IpAddr> = ["new1", "new2", "new3"].iter().map(|name| podman.keep(name, &[])).collect();
    all_different(before.iter().chain(&after).copied());
    let first = before[0].to_string();
    let page = podman.run(&["exec", "new1", "/bin/wget", "-q", "-O", "-", &first]);
    assert_eq!(page.well().out, "here I am\n", "old and new meet");
    podman.run(&["restart", "-t", "0", "old1"]).well();
    assert!(!after.contains(&podman.address_of("old1")));
    podman.clear();
    // podman sends the DEL of a container to the plugin that its ADD went to: host-local has none left, and the address
    // of the one that was not started again stays imported. The next boot ends it.
    let records = podman.machine.run(&["sh", "-c", "ls /var/lib/cni/networks/pods"]).well();
    assert!(!records.out.contains("10.88.9."), "{records:?}");
    let store = Path::new("/var/lib/cni/host-affine");
    let shown = podman.on(store, &["get", "ipamhandles", "-o", "name"]);
    assert_eq!(shown.out.lines().count(), 1, "{shown:?}");
    podman.on(store, &["ipam", "show", "--ip", &before[1].to_string()]).well();
    podman.machine.boot_again();
    let freed = podman.gc(&range("host-affine")).well();
    assert!(freed.out.contains(&format!("Released {}: its host has booted since", before[1])), "{freed:?}");
    assert!(!podman.on(store, &["get", "ipamhandles"]).is_success);
}
