//! Start, stop, restart, deletion.

use host_affine::datastore::{Key, run_in_place};
use host_affine::ipam::{MachineIdentity, machine_handle};
use std::time::Duration;

use super::super::build::{Ask, Bare as _, at};
use super::{Launcher, NONE, are, engine, machine, owners};

#[test]
fn a_machine_has_the_same_address_after_a_restart_on_whatever_host() {
    let mut ipam = engine();
    let first = Launcher::source("a", "p1");
    let address = first.start(&mut ipam);
    assert_eq!(owners(&mut ipam), are("p1", "-"));
    assert_eq!(first.stop(&mut ipam), NONE, "nothing goes");
    assert_eq!(owners(&mut ipam), are("-", "-"));
    let second = Launcher::source("b", "p2");
    assert_eq!(second.start(&mut ipam), address);
    assert_eq!(owners(&mut ipam), are("p2", "-"));
}

#[test]
fn a_pod_that_comes_before_the_old_one_goes_stays_the_owner() {
    let mut ipam = engine();
    let (old, new) = (Launcher::source("a", "p1"), Launcher::source("b", "p2"));
    let address = old.start(&mut ipam);
    assert_eq!(new.start(&mut ipam), address);
    assert_eq!(old.stop(&mut ipam), NONE);
    assert_eq!(owners(&mut ipam), are("p2", "-"));
    assert_eq!(machine(&mut ipam).expect("the machine").attachments.len(), 1);
}

#[test]
fn an_instance_that_is_made_anew_takes_over_from_a_pod_that_nobody_ended() {
    let mut ipam = engine();
    let mut orphan = Launcher::source("a", "p1");
    orphan.identity.vmi_uid = Some("old".into());
    let address = orphan.start(&mut ipam);
    let mut anew = Launcher::source("a", "p2");
    anew.identity.vmi_uid = Some("new".into());
    assert_eq!(anew.start(&mut ipam), address);
    let active = machine(&mut ipam).expect("the machine").active;
    assert_eq!(active.get("vmi-uid").map(String::as_str), Some("new"));
}

#[test]
fn the_same_pod_that_asks_again_changes_nothing() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "p1");
    pod.start(&mut ipam);
    let before = ipam.store_mut().entries();
    pod.clone().after(60).start(&mut ipam);
    assert_eq!(ipam.store_mut().entries(), before);
}

#[test]
fn a_deleted_machines_address_goes_with_its_last_pod() {
    let mut ipam = engine();
    let (source, target) = (Launcher::source("a", "s"), Launcher::target("b", "t"));
    let address = source.start(&mut ipam);
    target.start(&mut ipam);
    assert_eq!(source.stop_deleted(&mut ipam), NONE, "the target is still there");
    assert_eq!(owners(&mut ipam), are("t", "-"));
    assert_eq!(target.stop_deleted(&mut ipam), address);
    assert_eq!(machine(&mut ipam), None);
    let left = ipam
        .store_mut()
        .entries()
        .into_iter()
        .filter(|entry| matches!(entry.key, Key::Machine(_) | Key::MachinesOf(_) | Key::Handle(_)));
    assert_eq!(left.count(), 0);
}

#[test]
fn with_the_target_gone_first_the_source_is_the_last() {
    let mut ipam = engine();
    let (source, target) = (Launcher::source("a", "s"), Launcher::target("b", "t"));
    let address = source.start(&mut ipam);
    target.start(&mut ipam);
    assert_eq!(target.stop_deleted(&mut ipam), NONE);
    assert_eq!(owners(&mut ipam), are("s", "-"));
    assert_eq!(source.stop_deleted(&mut ipam), address);
}

#[test]
fn a_second_del_succeeds_before_and_after_the_release() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "p");
    let address = pod.start(&mut ipam);
    assert_eq!((pod.stop(&mut ipam), pod.stop(&mut ipam)), (vec![], vec![]));
    pod.start(&mut ipam);
    assert_eq!(pod.stop_deleted(&mut ipam), address);
    assert_eq!((pod.stop_deleted(&mut ipam), pod.stop(&mut ipam)), (vec![], vec![]));
}

#[test]
fn a_stopped_machine_is_released_by_name() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "p");
    let address = pod.start(&mut ipam);
    pod.stop(&mut ipam);
    let handle = machine_handle("net", "prod", "db").expect("a handle");
    let released = run_in_place(ipam.release_machine(&handle, &pod.host, at(9), |_| true));
    assert_eq!(released.expect("released").addresses, address);
    assert_eq!(machine(&mut ipam), None);
}

#[test]
fn a_machine_without_a_pod_is_kept_for_as_long_as_was_said() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "p");
    let address = pod.start(&mut ipam);
    pod.clone().after(100).stop(&mut ipam);
    assert_eq!(machine(&mut ipam).expect("the machine").ownerless_since, Some(at(100)));
    let mut after = |seconds| {
        let hour = Duration::from_secs(3600);
        run_in_place(ipam.release_ownerless("net", hour, &pod.host, at(seconds))).expect("looked").addresses
    };
    assert_eq!(after(3699), NONE);
    assert_eq!(after(3700), address);
}

#[test]
fn a_machine_that_has_a_pod_again_is_not_released_for_the_time_before() {
    let mut ipam = engine();
    let pod = Launcher::source("a", "p");
    pod.start(&mut ipam);
    pod.stop(&mut ipam);
    Launcher::source("b", "q").after(50).start(&mut ipam);
    let released = run_in_place(ipam.release_ownerless("net", Duration::from_secs(1), &pod.host, at(1000)));
    assert_eq!(released.expect("looked").addresses, NONE);
}

#[test]
fn a_reboot_takes_no_machines_address() {
    let mut ipam = engine();
    let mut pod = Launcher::source("a", "p1");
    let address = pod.start(&mut ipam);
    let mut filled = 0;
    for number in 0..200 {
        let mut ask = Ask::new("a", &format!("c{number}"));
        ask.host.boot = Some("boot-2".into());
        filled += usize::from(run_in_place(ask.of(&mut ipam)).is_ok());
    }
    assert_eq!(filled, 63, "all but the machine's");
    pod = Launcher::source("a", "p2");
    pod.host.boot = Some("boot-2".into());
    assert_eq!(pod.start(&mut ipam), address);
    assert_eq!(machine(&mut ipam).expect("the machine").attachments.len(), 1, "the dead pod's is forgotten");
}

#[test]
fn machines_whose_names_are_long_and_alike_have_addresses_of_their_own() {
    let mut ipam = engine();
    let with = |last: char| {
        let mut pod = Launcher::source("a", &format!("p{last}"));
        pod.identity = MachineIdentity { name: format!("{}{last}", "x".repeat(200)), ..pod.identity };
        pod
    };
    let (one, other) = (with('a'), with('b'));
    let (first, second) = (one.start(&mut ipam), other.start(&mut ipam));
    assert_ne!(first, second);
    one.stop(&mut ipam);
    assert_eq!(one.start(&mut ipam), first);
    assert_eq!(other.stop_deleted(&mut ipam), second);
}
