//! Affinity, pools, settings, other interfaces, and collections.

use std::collections::BTreeSet;

use host_affine::api::calico::{IpReservation, VmAddressPersistence};
use host_affine::datastore::{Key, run_in_place};
use host_affine::ipam::Error;

use super::super::build::{Ask, Bare as _, addresses, at, configure, host, name, pool, put_pool};
use super::{Launcher, NONE, are, enable, engine, machine, machine_on, owners};

#[test]
fn a_machine_keeps_its_address_whatever_the_rules_say_of_new_ones() {
    let mut ipam = engine();
    let first = Launcher::source("a", "p1");
    let address = first.start(&mut ipam);
    first.stop(&mut ipam);
    configure(ipam.store_mut(), |spec| {
        spec.kube_virt_vm_address_persistence = Some(VmAddressPersistence::Enabled);
        spec.strict_affinity = Some(true);
        spec.max_blocks_per_host = Some(1);
    });
    let mut closed = pool("four", "10.0.0.0/26", 28);
    closed.spec.disabled = true;
    closed.spec.node_selector = Some("zone == 'nowhere'".into());
    put_pool(ipam.store_mut(), closed);
    let kept = IpReservation::new(
        "kept",
        serde_json::from_str(r#"{"reservedCIDRs":["10.0.0.0/26"]}"#).expect("a reservation"),
    );
    ipam.store_mut().plant(Key::Reservation("kept".into()), kept);
    assert_eq!(Launcher::source("b", "p2").start(&mut ipam), address);
    let assigned = Launcher::target("c", "t").add(&mut ipam).expect("the address");
    assert_eq!(addresses(&assigned), address);
    let fresh = Ask::new("b", "c");
    assert!(run_in_place(fresh.of(&mut ipam)).is_err(), "new ones obey them");
}

#[test]
fn where_machines_keep_no_addresses_a_pod_of_one_is_a_pod() {
    let mut ipam = engine();
    configure(ipam.store_mut(), |_| ());
    let pod = Launcher::source("a", "p1");
    let address = pod.start(&mut ipam);
    assert_eq!(machine(&mut ipam), None);
    let refused = Launcher::target("b", "t").add(&mut ipam).expect_err("no migration");
    assert!(
        refused.to_string().contains("not allowed when KubeVirtVMAddressPersistence is disabled"),
        "{refused}"
    );
    assert_eq!(pod.stop(&mut ipam), address);
}

#[test]
fn a_pod_from_before_machines_kept_addresses_frees_its_own() {
    let mut ipam = engine();
    configure(ipam.store_mut(), |_| ());
    let pod = Launcher::source("a", "p1");
    let address = pod.start(&mut ipam);
    enable(ipam.store_mut());
    assert_eq!(pod.start(&mut ipam), address, "it holds one already");
    assert_eq!(pod.stop(&mut ipam), address);
    assert_eq!(machine(&mut ipam), None);
}

#[test]
fn a_pod_from_when_machines_kept_addresses_leaves_its_machine_the_address() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "p1");
    let address = pod.start(&mut ipam);
    configure(ipam.store_mut(), |_| ());
    assert_eq!(pod.stop(&mut ipam), NONE);
    assert_eq!(owners(&mut ipam), are("-", "-"));
    let ordinary = Launcher::source("a", "p2");
    assert_ne!(ordinary.start(&mut ipam), address);
    enable(ipam.store_mut());
    assert_eq!(Launcher::source("b", "p3").start(&mut ipam), address);
}

#[test]
fn two_interfaces_on_one_network_share_the_address_and_on_two_have_their_own() {
    let mut ipam = engine();
    let (first, second) = (Launcher::source("a", "p"), Launcher::source("a", "p").on("net", "net1"));
    let address = first.start(&mut ipam);
    assert_eq!(second.start(&mut ipam), address);
    assert_eq!(second.stop(&mut ipam), NONE);
    assert_eq!(owners(&mut ipam), are("p", "-"), "the pod has another interface there");
    let other = Launcher::source("a", "p").on("net2", "net2");
    assert_ne!(other.start(&mut ipam), address);
    assert_eq!(first.stop(&mut ipam), NONE);
    assert_eq!(owners(&mut ipam), are("-", "-"));
    assert!(machine_on(&mut ipam, "net2").expect("the other network").ownerless_since.is_none());
}

#[test]
fn a_collection_frees_pods_and_lets_machines_keep_their_addresses() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "gone");
    pod.start(&mut ipam);
    let ordinary = Ask::new("a", "c1");
    let freed = addresses(&run_in_place(ordinary.of(&mut ipam)).expect("an address"));
    let collected = run_in_place(ipam.collect("net", &BTreeSet::new(), &host("a"), at(1)));
    assert_eq!(collected.expect("collected").addresses, freed);
    assert_eq!(owners(&mut ipam), are("-", "-"), "its pod is known to be gone");
    let listed: BTreeSet<_> = [("alive".to_owned(), "eth0".to_owned())].into();
    Launcher::source("b", "alive").start(&mut ipam);
    run_in_place(ipam.collect("net", &listed, &host("b"), at(2))).expect("collected");
    assert_eq!(owners(&mut ipam), are("alive", "-"));
}

#[test]
fn a_host_that_is_given_up_leaves_the_machine_its_address() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "p");
    let address = pod.start(&mut ipam);
    run_in_place(ipam.give_up_blocks_of(&name("a"), at(1))).expect("given up");
    pod.stop(&mut ipam);
    assert_eq!(Launcher::source("b", "q").start(&mut ipam), address);
}

#[test]
fn what_a_machines_pod_holds_is_what_check_finds() {
    let mut ipam = engine();
    let (source, target) = (Launcher::source("a", "s").dual(), Launcher::target("b", "t").dual());
    let mut address = source.start(&mut ipam);
    target.start(&mut ipam);
    address.sort_unstable();
    for pod in [&source, &target] {
        let held = run_in_place(ipam.held(&pod.attachment, &pod.host)).expect("looked");
        assert_eq!(held.addresses, address);
    }
    let stranger = Launcher::source("a", "x");
    assert_eq!(
        run_in_place(ipam.held(&stranger.attachment, &stranger.host)).expect("looked").addresses,
        NONE
    );
}

#[test]
fn machines_take_addresses_until_there_are_none_and_are_refused_as_pods_are() {
    let mut ipam = engine();
    for number in 0..64 {
        let mut pod = Launcher::source("a", &format!("p{number}"));
        pod.identity.name = format!("vm{number}");
        pod.start(&mut ipam);
    }
    let mut more = Launcher::source("a", "more");
    more.identity.name = "more".into();
    let refused = more.add(&mut ipam).expect_err("full");
    assert!(matches!(refused, Error::Exhausted { .. }), "{refused}");
    let left = ipam
        .store_mut()
        .entries()
        .into_iter()
        .filter(|entry| matches!(&entry.key, Key::Machine(handle) if handle.as_str().ends_with("more")));
    assert_eq!(left.count(), 0, "nothing is left of who got nothing");
}
