//! Source and target, and who has the address when.

use host_affine::datastore::run_in_place;
use host_affine::ipam::{Error, Ipam, PromoteError, machine_handle};
use host_affine::net::Family;

use super::super::build::{Bare as _, any, at, exactly};
use super::super::either::Either;
use super::{Launcher, NONE, are, engine, machine, owners};

#[test]
fn a_target_is_given_the_address_and_waits() {
    let mut ipam = engine();
    let address = Launcher::source("a", "s").dual().start(&mut ipam);
    let assigned = Launcher::target("b", "t").dual().add(&mut ipam).expect("the address");
    assert!(assigned.waits);
    assert_eq!(assigned.addresses.iter().map(|a| a.address).collect::<Vec<_>>(), address);
    assert_eq!(owners(&mut ipam), are("s", "t"));
}

#[test]
fn the_sources_del_makes_the_target_the_owner_in_the_same_commit() {
    let mut ipam = engine();
    let (source, target) = (Launcher::source("a", "s").dual(), Launcher::target("b", "t").dual());
    let address = source.start(&mut ipam);
    target.start(&mut ipam);
    assert_eq!(source.stop(&mut ipam), NONE);
    assert_eq!(owners(&mut ipam), are("t", "-"));
    let report = machine(&mut ipam).expect("the machine");
    assert_eq!((report.addresses.len(), report.ownerless_since), (2, None));
    assert_eq!(target.stop(&mut ipam), NONE);
    assert_eq!(owners(&mut ipam), are("-", "-"));
    assert_eq!(Launcher::source("c", "u").dual().start(&mut ipam), address);
}

#[test]
fn a_migration_that_failed_leaves_the_source_as_it_was() {
    let mut ipam = engine();
    let (source, target) = (Launcher::source("a", "s"), Launcher::target("b", "t"));
    source.start(&mut ipam);
    target.start(&mut ipam);
    assert_eq!(target.stop(&mut ipam), NONE);
    assert_eq!(owners(&mut ipam), are("s", "-"));
}

#[test]
fn the_next_target_takes_the_place_of_one_whose_del_was_lost() {
    let mut ipam = engine();
    let source = Launcher::source("a", "s");
    let (lost, next) = (Launcher::target("b", "t1"), Launcher::target("c", "t2"));
    source.start(&mut ipam);
    lost.start(&mut ipam);
    next.start(&mut ipam);
    assert_eq!(owners(&mut ipam), are("s", "t2"));
    assert_eq!(lost.stop(&mut ipam), NONE, "its DEL comes late, and is nobody's");
    assert_eq!(owners(&mut ipam), are("s", "t2"));
}

#[test]
fn migrations_back_and_forth_keep_the_address() {
    let mut ipam = engine();
    let mut running = Launcher::source("a", "p0");
    let address = running.start(&mut ipam);
    for number in 1..6 {
        let next = Launcher::target(if number % 2 == 0 { "a" } else { "b" }, &format!("p{number}"));
        assert_eq!(next.start(&mut ipam), address);
        running.stop(&mut ipam);
        assert_eq!(owners(&mut ipam), are(&format!("p{number}"), "-"));
        running = next;
    }
}

#[test]
fn a_target_whose_sandbox_is_built_again_after_it_took_over_is_the_source() {
    let mut ipam = engine();
    let (source, target) = (Launcher::source("a", "s"), Launcher::target("b", "t"));
    source.start(&mut ipam);
    target.start(&mut ipam);
    source.stop(&mut ipam);
    // Its pod still says that it is a target; the sandbox is another.
    let mut again = target.clone();
    again.attachment.container_id = "t-again".into();
    let assigned = again.add(&mut ipam).expect("the address");
    assert!(!assigned.waits);
    assert_eq!(owners(&mut ipam), are("t", "-"));
    assert_eq!(target.stop(&mut ipam), NONE, "the old sandbox goes");
    assert_eq!(again.stop(&mut ipam), NONE);
}

#[test]
fn a_target_of_a_machine_without_an_address_is_refused() {
    let mut ipam = engine();
    let refused = Launcher::target("b", "t").add(&mut ipam).expect_err("nothing to take over");
    assert!(refused.to_string().starts_with("no IP allocated to VM handle `net.vmi.prod.db`"), "{refused}");
    assert_eq!(machine(&mut ipam), None);
}

#[test]
fn a_family_that_a_target_brings_belongs_to_the_source_until_it_takes_over() {
    let mut ipam = engine();
    let source = Launcher::source("a", "s");
    source.start(&mut ipam);
    assert!(Launcher::target("b", "t").dual().add(&mut ipam).expect("both").waits);
    assert_eq!(owners(&mut ipam), are("s", "t"));
    source.stop(&mut ipam);
    let report = machine(&mut ipam).expect("the machine");
    assert_eq!((report.addresses.len(), owners(&mut ipam)), (2, are("t", "-")));
}

#[test]
fn a_requested_address_is_the_machines_or_is_refused() {
    let mut ipam = engine();
    let asked = |address: &str| Launcher::source("a", "p").wanting([exactly(address)]);
    asked("10.0.0.9").start(&mut ipam);
    asked("10.0.0.9").start(&mut ipam);
    let other = asked("10.0.0.10").add(&mut ipam).expect_err("it has one");
    assert!(matches!(other, Error::HandleFull { .. }), "{other}");
    let both = Launcher::source("a", "p").wanting([exactly("10.0.0.9"), exactly("fd00::7")]).start(&mut ipam);
    assert_eq!(both, ["10.0.0.9".parse::<std::net::IpAddr>().expect("ip"), "fd00::7".parse().expect("ip")]);
    let one = Launcher::source("b", "q").wanting([any(Family::V6)]).start(&mut ipam);
    assert_eq!(one, [both[1]]);
}

fn promote(ipam: &mut Ipam<Either>, pod: &str) -> Result<(), PromoteError> {
    let handle = machine_handle("net", "prod", "db").expect("a handle");
    run_in_place(ipam.promote(&handle, "prod", pod, at(5)))
}

#[test]
fn whoever_watched_the_migration_can_say_that_it_is_over() {
    let mut ipam = engine();
    assert!(matches!(promote(&mut ipam, "t"), Err(PromoteError::NoAddress(_))));
    let source = Launcher::source("a", "s").dual();
    source.start(&mut ipam);
    assert!(matches!(promote(&mut ipam, "t"), Err(PromoteError::NobodyWaits(_))));
    Launcher::target("b", "x").dual().start(&mut ipam);
    assert!(matches!(promote(&mut ipam, "t"), Err(PromoteError::AnotherWaits { .. })));
    Launcher::target("b", "t").dual().start(&mut ipam);
    promote(&mut ipam, "t").expect("swapped");
    assert_eq!(owners(&mut ipam), are("t", "s"));
    let before = ipam.store_mut().entries();
    promote(&mut ipam, "t").expect("already");
    assert_eq!(ipam.store_mut().entries(), before, "nothing is written");
    source.stop(&mut ipam);
    assert_eq!(owners(&mut ipam), are("t", "-"));
}

#[test]
fn after_the_source_has_gone_there_is_nothing_left_to_say() {
    let mut ipam = engine();
    let source = Launcher::source("a", "s");
    source.start(&mut ipam);
    Launcher::target("b", "t").start(&mut ipam);
    source.stop(&mut ipam);
    promote(&mut ipam, "t").expect("it has it already");
    assert_eq!(owners(&mut ipam), are("t", "-"), "the source does not come back");
}
