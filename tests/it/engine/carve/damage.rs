//! What does not agree is found, and mended where one side is right beyond doubt.

use host_affine::datastore::{Carved, CarvedFor, Key, run_in_place};
use host_affine::ipam::Finding;

use super::super::build::{Ask, Bare as _};
use super::{apply, carve, carved, engine, findings, manifest, named, net};

fn record(name: &str) -> Carved {
    Carved { pool: "pods".into(), owner: CarvedFor::Allocation(named(name)), since: None }
}

#[test]
fn a_network_without_an_owner_is_found_and_given_back() {
    let mut ipam = engine();
    ipam.store_mut().plant(Key::Carved(net("10.0.0.64/26")), record("gone"));
    let found = findings(&mut ipam);
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.64/26 is carved out for IPAllocation `gone`, which does not have it"]
    );
    assert!(run_in_place(ipam.repair(&found[0])).expect("mended"));
    assert_eq!((findings(&mut ipam), carved(&mut ipam)), (Vec::new(), Vec::new()));
}

#[test]
fn an_owner_whose_network_is_not_recorded_is_found_and_recorded_again() {
    let mut ipam = engine();
    let cidr = carve(&mut ipam, "web", "pods", "28").expect("carved");
    let entry = ipam
        .store_mut()
        .entries()
        .into_iter()
        .find(|entry| entry.key == Key::Carved(cidr))
        .expect("a record");
    let mut batch = host_affine::datastore::Batch::default();
    batch.delete(entry.key, entry.revision);
    ipam.store_mut().apply(batch);
    let found = findings(&mut ipam);
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["IPAllocation `web` has 10.0.0.0/28, which is not carved out for it in pool `pods`"]
    );
    assert!(run_in_place(ipam.repair(&found[0])).expect("mended"));
    assert_eq!((findings(&mut ipam), carved(&mut ipam)), (Vec::new(), vec![cidr]));
}

#[test]
fn what_overlaps_is_found_and_left_to_people() {
    let mut ipam = engine();
    run_in_place(Ask::new("n", "1").of(&mut ipam)).expect("a pod");
    let asked = manifest("web", "pods", &[("prefix-length", "32")]);
    apply(&mut ipam, &asked).expect("carved");
    let block = run_in_place(ipam.shown_pools()).expect("pools")[0]
        .extents
        .iter()
        .find(|extent| extent.cidr.prefix() == 26)
        .expect("a block")
        .cidr;
    let inside = block.nth_subnet(32, 3).expect("an address");
    ipam.store_mut().plant(Key::Carved(inside), record("web"));
    let found = findings(&mut ipam);
    let twice = found.iter().find(|finding| matches!(finding, Finding::CarvedTwice { .. })).expect("found");
    assert_eq!(
        twice.to_string(),
        format!("{block} and {inside} overlap, and were carved out of a pool both")
    );
    assert!(!run_in_place(ipam.repair(twice)).expect("nothing failed"));
}
