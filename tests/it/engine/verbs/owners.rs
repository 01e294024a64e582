//! The two owners of an address: row 77 of the reference's tables, with a shared attribute split first.

use host_affine::datastore::run_in_place;
use host_affine::ipam::{Expected, Ipam, OwnerChange, OwnerNotes, OwnersError};
use host_affine::net::Family;

use super::super::build::{Ask, addresses, any, at, configure, ip, pool, put_pool};
use super::super::either::Either;
use super::{engine, handle, pod};
use host_affine::ipam::Standing;

fn become_(notes: OwnerNotes, expected: Expected) -> OwnerChange {
    OwnerChange::Become(notes, expected)
}

fn named(name: &str) -> Expected {
    Expected::Pod("prod".into(), name.into())
}

/// A store in which container `1` has two addresses of one block.
fn with_two() -> (Ipam<Either>, Vec<std::net::IpAddr>) {
    let mut ipam = engine(|store| put_pool(store, pool("four", "10.0.0.0/26", 28)));
    let ask = Ask::new("a", "1").wanting([any(Family::V4), any(Family::V4)]);
    let given = addresses(&run_in_place(ask.of(&mut ipam)).expect("two addresses"));
    (ipam, given)
}

fn owners(ipam: &mut Ipam<Either>, address: std::net::IpAddr) -> (OwnerNotes, OwnerNotes, u64) {
    let report = run_in_place(ipam.look_up(address, at(1))).expect("a lookup");
    match report.standing {
        Standing::Held { active, alternate, sequence, .. } => (active, alternate, sequence),
        other => panic!("{address} is {other:?}"),
    }
}

fn set(
    ipam: &mut Ipam<Either>,
    address: std::net::IpAddr,
    active: &OwnerChange,
    alternate: &OwnerChange,
) -> Result<(), OwnersError> {
    run_in_place(ipam.set_owners(address, &handle("net.1"), active, alternate, at(1)))
}

#[test]
fn both_owners_change_in_one_write_and_the_address_keeps_its_number() {
    let (mut ipam, given) = with_two();
    let (before, _, number) = owners(&mut ipam, given[0]);
    let to_s = become_(pod("s"), Expected::Anybody);
    let to_t = become_(pod("t"), Expected::Nobody);
    set(&mut ipam, given[0], &to_s, &to_t).expect("changed");
    assert_eq!(owners(&mut ipam, given[0]), (pod("s"), pod("t"), number));
    assert_eq!(owners(&mut ipam, given[1]).0, before, "it shared the attribute, and keeps it");
    // The swap at the end of a migration.
    set(&mut ipam, given[0], &become_(pod("t"), named("s")), &become_(pod("s"), named("t")))
        .expect("swapped");
    assert_eq!(owners(&mut ipam, given[0]), (pod("t"), pod("s"), number));
    set(&mut ipam, given[0], &OwnerChange::Leave, &become_(OwnerNotes::new(), named("s"))).expect("cleared");
    assert_eq!(owners(&mut ipam, given[0]), (pod("t"), OwnerNotes::new(), number));
}

#[test]
fn whoever_is_not_expected_stays_and_so_does_the_other_owner() {
    let (mut ipam, given) = with_two();
    set(&mut ipam, given[0], &become_(pod("s"), Expected::Anybody), &become_(pod("t"), Expected::Anybody))
        .expect("set");
    let before = owners(&mut ipam, given[0]);
    for (active, alternate) in [
        (become_(pod("x"), named("t")), become_(pod("y"), named("t"))),
        (become_(pod("x"), named("s")), become_(pod("y"), named("s"))),
        (become_(pod("x"), Expected::Nobody), OwnerChange::Leave),
        (OwnerChange::Leave, become_(pod("y"), Expected::Nobody)),
    ] {
        let refused = set(&mut ipam, given[0], &active, &alternate).expect_err("somebody else");
        assert!(matches!(refused, OwnersError::OtherOwner { .. }), "{refused}");
        assert_eq!(owners(&mut ipam, given[0]), before);
    }
    let refused =
        set(&mut ipam, given[0], &become_(pod("x"), named("t")), &OwnerChange::Leave).expect_err("wrong");
    assert_eq!(
        refused.to_string(),
        format!("the active owner of {} is pod prod/s, not pod prod/t", given[0])
    );
}

#[test]
fn a_side_that_stays_is_not_looked_at() {
    let (mut ipam, given) = with_two();
    set(&mut ipam, given[0], &become_(OwnerNotes::new(), Expected::Anybody), &OwnerChange::Leave)
        .expect("cleared");
    assert_eq!(owners(&mut ipam, given[0]).0, OwnerNotes::new());
    set(&mut ipam, given[0], &OwnerChange::Leave, &become_(pod("t"), Expected::Nobody)).expect("set");
    assert_eq!(owners(&mut ipam, given[0]).1, pod("t"));
}

#[test]
fn an_address_that_is_free_or_cools_or_belongs_to_others_has_no_owners_to_change() {
    let (mut ipam, given) = with_two();
    let change = become_(pod("s"), Expected::Anybody);
    let other =
        run_in_place(ipam.set_owners(given[0], &handle("net.2"), &change, &OwnerChange::Leave, at(1)));
    assert_eq!(
        other.expect_err("another's").to_string(),
        format!("{} is not assigned to handle `net.2`: it belongs to `net.1`", given[0])
    );
    for nobodys in ["10.0.0.40", "10.9.9.9"] {
        let refused = set(&mut ipam, ip(nobodys), &change, &OwnerChange::Leave).expect_err("nobody's");
        assert!(matches!(refused, OwnersError::Unassigned(_)), "{refused}");
    }
    configure(ipam.store_mut(), |spec| spec.ip_cooldown_seconds = Some(60));
    run_in_place(Ask::new("a", "1").end(&mut ipam)).expect("freed");
    let cooling = set(&mut ipam, given[0], &change, &OwnerChange::Leave).expect_err("cooling");
    assert!(matches!(cooling, OwnersError::Unassigned(_)), "{cooling}");
}

#[test]
fn a_disabled_pool_does_not_stand_in_the_way() {
    let (mut ipam, given) = with_two();
    let mut off = pool("four", "10.0.0.0/26", 28);
    off.spec.disabled = true;
    put_pool(ipam.store_mut(), off);
    set(&mut ipam, given[0], &become_(pod("s"), Expected::Anybody), &OwnerChange::Leave).expect("changed");
    assert_eq!(owners(&mut ipam, given[0]).0, pod("s"));
}
