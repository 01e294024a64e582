//! Whose an address under a virtual machine's handle is; roles that are not known; the setting switched over; retention.

use std::time::Duration;

use host_affine::datastore::{MachineRole, run_in_place};
use host_affine::ipam::{Deletion, Error, FileId, Host, Netns, machine_handle};

use super::super::build::{Ask, Bare as _, addresses, at, configure, name};
use super::{Launcher, NONE, are, enable, engine, machine, machine_on, owners};

fn of(network: &str, namespace: &str, vm: &str, pod: &str) -> Launcher {
    let mut launcher = Launcher::source("a", pod).on(network, "eth0");
    (launcher.identity.namespace, launcher.identity.name) = (namespace.into(), vm.into());
    launcher
}

#[test]
fn vm_and_container_of_its_handle_share_nothing() {
    for vm_first in [true, false] {
        let mut ipam = engine();
        let (vm, container) = (Launcher::source("a", "p"), Ask::new("a", "vmi.prod.db"));
        let mut given = [Vec::new(), Vec::new()];
        for is_vm in [vm_first, !vm_first] {
            given[usize::from(is_vm)] = if is_vm {
                vm.start(&mut ipam)
            } else {
                addresses(&run_in_place(container.of(&mut ipam)).expect("an address"))
            };
        }
        let [of_container, of_vm] = given;
        assert_ne!(of_container, of_vm, "VM first: {vm_first}");
        assert_eq!(machine(&mut ipam).expect("the VM").addresses, of_vm);
        let held = |ipam: &mut _, of: &_| run_in_place(host_affine::ipam::Ipam::held(ipam, of, &vm.host));
        assert_eq!(held(&mut ipam, &container.attachment).expect("looked").addresses, of_container);
        assert_eq!(held(&mut ipam, &vm.attachment).expect("looked").addresses, of_vm);
        assert_eq!(run_in_place(container.end(&mut ipam)).expect("a DEL").addresses, of_container);
        assert_eq!(owners(&mut ipam), are("p", "-"));
        assert_eq!(addresses(&run_in_place(container.of(&mut ipam)).expect("again")).len(), 1);
        assert_eq!(vm.stop_deleted(&mut ipam), of_vm, "the container keeps its own");
        assert_eq!(run_in_place(container.end(&mut ipam)).expect("a DEL").addresses.len(), 1);
        super::sound(&mut ipam);
    }
}

#[test]
fn vm_with_another_vms_handle_is_refused() {
    let mut ipam = engine();
    let first = of("net", "vmi", "p.q", "s");
    let address = first.start(&mut ipam);
    let other = of("net.vmi", "p", "q", "t");
    let refused = other.add(&mut ipam).expect_err("one handle");
    assert!(matches!(refused, Error::VmHandleTaken { .. }), "{refused}");
    for word in ["`p/q` on network `net.vmi`", "`vmi/p.q` on network `net`"] {
        assert!(refused.to_string().contains(word), "{refused}");
    }
    assert_eq!((other.stop(&mut ipam), first.start(&mut ipam)), (vec![], address.clone()));
    first.stop(&mut ipam);
    assert!(other.add(&mut ipam).is_err(), "the first keeps its address while it is stopped");
    first.start(&mut ipam);
    assert_eq!(first.stop_deleted(&mut ipam), address);
    other.start(&mut ipam);
}

#[test]
fn dotted_vm_namespace_is_refused() {
    let mut ipam = engine();
    of("net", "a", "b.c", "s").start(&mut ipam);
    let refused = of("net", "a.b", "c", "t").add(&mut ipam).expect_err("one handle");
    assert!(refused.to_string().contains("holds a dot"), "{refused}");
}

#[test]
fn del_of_one_host_leaves_another_hosts_pod() {
    for same_vm in [true, false] {
        let mut ipam = engine();
        let mut pods = [Launcher::source("a", "s1"), Launcher::source("b", "s1")];
        if same_vm {
            pods[1].identity.role = MachineRole::Target;
        } else {
            pods[1].identity.name = "other".into();
        }
        let [first, second] = pods;
        first.start(&mut ipam);
        let waits = second.add(&mut ipam).expect("an address").waits;
        assert_eq!(waits, same_vm, "a pod of another host is another pod");
        let mut third = second.clone();
        third.host.name = name("c");
        third.stop(&mut ipam);
        second.stop(&mut ipam);
        let report = machine(&mut ipam).expect("the VM");
        assert_eq!(report.active.get("node").map(String::as_str), Some("a"), "same VM: {same_vm}");
        assert_eq!((report.attachments.len(), report.ownerless_since), (1, None));
        first.stop(&mut ipam);
        assert_eq!(owners(&mut ipam), are("-", "-"));
    }
}

#[test]
fn renamed_host_ends_its_vm_pod_by_netns() {
    let mut ipam = engine();
    let id = |inode| Some(FileId { device: 4, inode, born: None });
    let mut pod = Launcher::source("old", "p");
    pod.host.netns = id(1);
    pod.netns = Some(Netns { path: "/run/netns/p".into(), ..Netns::default() });
    pod.start(&mut ipam);
    let renamed = |netns| Host { name: name("new"), netns, ..pod.host.clone() };
    let del = |ipam: &mut _, host: &Host, path: &str| {
        let netns = Netns { path: path.into(), ..Netns::default() };
        let deletion = Deletion { netns: Some(&netns), ..Deletion::of(&pod.attachment) };
        run_in_place(host_affine::ipam::Ipam::delete(ipam, &deletion, host, at(1))).expect("a DEL");
    };
    del(&mut ipam, &renamed(id(2)), "/run/netns/p");
    assert_eq!(owners(&mut ipam), are("p", "-"), "another host's network namespace");
    del(&mut ipam, &renamed(id(1)), "/run/netns/q");
    assert_eq!(owners(&mut ipam), are("p", "-"), "another container's network namespace");
    del(&mut ipam, &renamed(id(1)), "/run/netns/p");
    assert_eq!(owners(&mut ipam), are("-", "-"));
}

fn named(host: &str, pod: &str) -> Launcher {
    let mut launcher = Launcher::source(host, pod);
    launcher.identity.role = MachineRole::Unknown;
    launcher
}

#[test]
fn cancelled_migration_of_unknown_role_keeps_owner() {
    let mut ipam = engine();
    let (s, t, u) = (named("a", "s").dual(), named("b", "t").dual(), named("c", "u").dual());
    let mut address = s.start(&mut ipam);
    address.sort_unstable();
    t.start(&mut ipam);
    u.start(&mut ipam);
    assert_eq!(owners(&mut ipam), are("u", "-"));
    u.clone().after(9).stop(&mut ipam);
    assert_eq!(owners(&mut ipam), are("t", "-"), "the latest that is left");
    t.stop(&mut ipam);
    assert_eq!(owners(&mut ipam), are("s", "-"));
    let report = machine(&mut ipam).expect("the VM");
    assert_eq!((report.ownerless_since, report.attachments[0].role), (None, MachineRole::Unknown));
    assert_eq!(report.active.get("node").map(String::as_str), Some("a"));
    assert_eq!(run_in_place(ipam.held(&s.attachment, &s.host)).expect("looked").addresses, address);
    let none = run_in_place(ipam.release_ownerless("net", Duration::ZERO, &s.host, at(99)));
    assert_eq!(none.expect("looked").addresses, NONE);
    assert_eq!(s.stop_deleted(&mut ipam).len(), 2);
}

#[test]
fn known_source_is_not_revived() {
    let mut ipam = engine();
    let (s, t) = (Launcher::source("a", "s"), Launcher::source("b", "t"));
    s.start(&mut ipam);
    t.start(&mut ipam);
    t.stop(&mut ipam);
    assert_eq!(owners(&mut ipam), are("-", "-"));
}

#[test]
fn repeated_add_answers_alike_after_a_switch() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "p");
    let target = Launcher::target("b", "t");
    let address = pod.start(&mut ipam);
    target.start(&mut ipam);
    configure(ipam.store_mut(), |_| ());
    assert_eq!((pod.start(&mut ipam), target.start(&mut ipam)), (address.clone(), address.clone()));
    assert!(Launcher::target("c", "u").add(&mut ipam).is_err(), "a new target is refused");
    assert_eq!((target.stop(&mut ipam), pod.stop(&mut ipam)), (vec![], vec![]));
    assert_eq!(owners(&mut ipam), are("-", "-"));
    // The other way round: a pod that has an address of its own keeps it.
    let own = pod.start(&mut ipam);
    assert_ne!(own, address);
    enable(ipam.store_mut());
    assert_eq!(pod.start(&mut ipam), own);
    assert_eq!(pod.stop(&mut ipam), own);
    assert_eq!(Launcher::source("b", "q").start(&mut ipam), address);
}

#[test]
fn vm_retention_survives_a_clock_set_forward() {
    let mut ipam = engine();
    let up = |boot: &str, seconds| Host {
        boot: Some(boot.into()),
        uptime: Some(Duration::from_secs(seconds)),
        ..Host::named(name("a"))
    };
    let mut pod = Launcher::source("a", "p").after(100);
    pod.host = up("one", 50);
    let address = pod.start(&mut ipam);
    pod.stop(&mut ipam);
    let mut look = |boot: &str, uptime, wall| {
        let hour = Duration::from_secs(3600);
        let released = run_in_place(ipam.release_ownerless("net", hour, &up(boot, uptime), at(wall)));
        released.expect("looked").addresses
    };
    assert_eq!(look("one", 3649, 1_000_000), NONE, "the clock was set forward");
    assert_eq!(look("one", 9_999, 3_699), NONE, "the clock was set back");
    assert_eq!(look("two", 5, 3_699), NONE, "another boot goes by the wall clock");
    assert_eq!(look("one", 3650, 1_000_000), address);
}

#[test]
fn repeated_add_keeps_the_noted_boot() {
    let mut ipam = engine();
    let mut pod = Launcher::source("a", "p");
    pod.host.booted = Some(at(0));
    pod.start(&mut ipam);
    let before = ipam.store_mut().entries();
    pod.host.booted = Some(at(1));
    pod.start(&mut ipam);
    assert_eq!(ipam.store_mut().entries(), before, "the beginning of one boot is noted once");
    let handle = machine_handle("net", "prod", "db").expect("a handle");
    assert!(machine_on(&mut ipam, "net").is_some_and(|vm| vm.active.contains_key("booted")), "{handle}");
}
