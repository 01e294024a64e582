//! Leases that nobody will ever delete: what this host knows to be dead, and nothing else.

use std::fs;

use serde_json::{Value, json};

use super::{Field, exits, shows};
use crate::support::cni::{Answer, Call, Network};

/// A file with a network's configuration, from which the command line takes store and host.
fn conf(field: &Field, node: &str) -> String {
    field.file(&format!("{node}.conf"), &field.on(node).conf.to_string())
}

fn gc(conf: &str, options: &[&str]) -> Answer {
    Call::typed(&[&["--conf", conf, "ipam", "gc", "--yes"], options].concat(), "").run()
}

/// A container whose namespace is at a path of the test's own, and goes after the ADD unless it `stays`.
fn add_at(field: &Field, network: &Network, id: &str, stays: bool) -> (String, String) {
    let path = field.lab.path().join("netns").join(id);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(&path, "").expect("a file");
    let text = path.display().to_string();
    let given = network.call("ADD", id).variable("CNI_NETNS", text.clone()).run().address();
    if !stays {
        fs::remove_file(&path).expect("removed");
    }
    (given.to_string(), text)
}

/// A call in an earlier boot of this host.
fn in_boot(field: &Field, number: u32, call: Call) -> Call {
    let id = field.file("boot", &format!("00000000-0000-4000-8000-{number:012}\n"));
    let bind = format!("mount --bind {id} /proc/sys/kernel/random/boot_id && exec \"$@\"");
    call.under(&["/usr/bin/unshare", "-m", "/bin/sh", "-c", &bind, "sh"])
}

#[test]
fn each_address_is_freed_with_its_proof_and_a_dry_run_frees_none() {
    let field = Field::new();
    field.pool("p1", "10.70.8.0/28", 28);
    let (alive, _) = add_at(&field, &field.on("n1"), "alive", true);
    let (dead, netns) = add_at(&field, &field.on("n1"), "dead", false);
    let proof = format!("its network namespace {netns} is gone");
    let dry = exits(gc(&conf(&field, "n1"), &["--dry-run"]), 0);
    shows(&dry, &[&format!("Would release {dead}: {proof}"), "fieldnet.dead", "node n1"]);
    assert!(!dry.stdout.contains(&format!("{alive}:")), "{}", dry.stdout);
    assert_eq!(field.count().0, 2);
    let told: Value =
        serde_json::from_str(&gc(&conf(&field, "n1"), &["--dry-run", "-o", "json"]).stdout).expect("JSON");
    let told = &told["addresses"][0];
    assert_eq!((&told["ip"], &told["outcome"]), (&json!(dead), &json!("wouldRelease")));
    assert_eq!((&told["reason"], &told["handle"]), (&json!(proof), &json!("fieldnet.dead")));
    let done = exits(gc(&conf(&field, "n1"), &[]), 0);
    shows(&done, &[&format!("Released {dead}: {proof}"), "Released 1 address."]);
    assert_eq!(field.view().of_container("alive").len(), 1);
    assert_eq!(field.count(), (1, 1));
    shows(&exits(gc(&conf(&field, "n1"), &[]), 0), &["Released 0 addresses."]);
}

/// F30: what a boot left is listed until it is taken back or collected, with both boots for a proof.
#[test]
fn what_an_earlier_boot_left_is_collected_and_what_this_one_has_is_not() {
    let field = Field::new();
    field.pool("p1", "10.70.9.0/28", 28);
    let network = field.on("n1");
    if !in_boot(&field, 1, network.call("VERSION", "")).run().is_success() {
        return crate::support::cni::skip("no mount namespace can be made here");
    }
    let old = in_boot(&field, 1, network.call("ADD", "old")).run().address().to_string();
    let before = "00000000-0000-4000-8000-000000000001";
    let (new, _) = add_at(&field, &network, "new", true);
    let collected = exits(gc(&conf(&field, "n1"), &[]), 0);
    shows(&collected, &[&format!("Released {old}: its host has booted since"), before, "fieldnet.old"]);
    assert!(!collected.stdout.contains(&format!("{new}:")), "{}", collected.stdout);
    assert_eq!(field.view().of_container("new").len(), 1);
    // A clock that jumps is no boot.
    assert_eq!(field.count(), (1, 1));
}

#[test]
fn what_other_hosts_runtimes_and_people_have_is_never_collected() {
    let field = Field::new();
    field.pool("p1", "10.70.10.0/28", 28);
    // A second runtime of this host, whose namespaces lie elsewhere: they exist, or cannot be seen from here.
    add_at(&field, &field.on("n1").with_top("name", "podman"), "podman", true);
    for (id, netns) in [("by-pid", "/proc/4194304/ns/net"), ("unseen", "/run/nowhere-of-a-test/netns/unseen")]
    {
        field.on("n1").call("ADD", id).variable("CNI_NETNS", netns).run().succeeded();
    }
    exits(gc(&conf(&field, "n1"), &[]), 0);
    assert_eq!(field.count().0, 3, "doubt means keep");
}

#[test]
fn gc_of_a_renamed_host_frees_what_is_dead() {
    let field = Field::new();
    field.pool("p1", "10.70.12.0/28", 28);
    add_at(&field, &field.on("before"), "dead", false);
    add_at(&field, &field.on("before"), "alive", true);
    shows(&exits(gc(&conf(&field, "after"), &[]), 0), &["Released 1 address."]);
    assert_eq!(field.view().of_container("alive").len(), 1);
}

#[test]
fn a_virtual_machines_address_is_never_collected() {
    let field = Field::new();
    field.pool("p1", "10.70.11.0/28", 28);
    field.configure(&["--kubevirt-ip-persistence=Enabled"]);
    let machine =
        field.on("n1").with_top("args", json!({ "cni": { "vm": { "namespace": "prod", "name": "web" } } }));
    add_at(&field, &machine, "launcher", false);
    exits(gc(&conf(&field, "n1"), &[]), 0);
    assert_eq!(field.count().0, 1);
    machine.del("launcher").succeeded();
    exits(gc(&conf(&field, "n1"), &[]), 0);
    assert_eq!(field.count().0, 1, "between two pods it has none, and is the machine's");
}

/// What host-local gave ends with the boot as well, though host-local never said when that was.
#[test]
fn imported_leases_are_collected_after_a_boot() {
    let field = Field::new();
    let directory = field.lab.path().join("networks");
    fs::create_dir_all(directory.join("fieldnet")).expect("a directory");
    fs::write(directory.join("fieldnet/10.70.12.7"), "of-host-local\r\neth0").expect("a record");
    let network = Network::of(&json!({
        "cniVersion": "1.0.0", "name": "fieldnet", "type": "bridge",
        "ipam": { "type": "host-affine", "nodename": "n1", "subnet": "10.70.12.0/24", "dataDir": directory },
    }));
    let first = in_boot(&field, 1, network.call("ADD", "new")).run();
    if !first.is_success() && first.stdout.is_empty() {
        return crate::support::cni::skip("no mount namespace can be made here");
    }
    first.succeeded();
    let conf = field.file("n1.conf", &network.conf.to_string());
    let collected = exits(gc(&conf, &[]), 0);
    shows(&collected, &["Released 10.70.12.7: its host has booted since", "Released 2 addresses."]);
}
