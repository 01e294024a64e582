use host_affine::api::milo::{IpAllocationStatus, IpClaim, IpClaimStatus};
use host_affine::datastore::run_in_place;
use host_affine::ipam::{CarveError, IfExists, Ipam, Outcome, Trial};
use host_affine::net::Cidr;
use serde_json::json;

use super::super::build::{at, pool, put_pool};
use super::super::either::Either;
use super::{PROJECT, carved, check, claim, delete, engine, named, net};

fn asked(name: &str, length: u8, policy: &str) -> IpClaim {
    claim(json!({
        "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPClaim", "metadata": { "name": name },
        "spec": { "ipFamily": "IPv4", "prefixLength": length, "poolRef": { "name": "pods" }, "reclaimPolicy": policy },
    }))
}

fn put(ipam: &mut Ipam<Either>, claim: &IpClaim) -> Result<Outcome<IpClaim>, CarveError> {
    run_in_place(ipam.claim(PROJECT, claim, IfExists::Change, Trial::Write, at(0)))
}

fn cidr_of(claim: &IpClaim) -> Cidr {
    IpClaimStatus::of(claim).and_then(|status| status.allocated_cidr).expect("a CIDR")
}

fn end(ipam: &mut Ipam<Either>, name: &str) {
    run_in_place(ipam.release_claim(&named(name), at(1))).expect("deleted");
}

#[test]
fn a_claim_is_bound_to_an_allocation_that_goes_with_it() {
    let mut ipam = engine();
    let made = put(&mut ipam, &asked("web", 28, "Delete")).expect("bound").into_inner();
    let status = IpClaimStatus::of(&made).expect("a status");
    assert_eq!(status.allocated_cidr, Some(net("10.0.0.0/28")));
    let allocation = status.bound_allocation_ref.expect("an allocation").name;
    assert_eq!(allocation, "alloc-82b3ade9d00cd164", "it follows from the claim's name");
    let all = run_in_place(ipam.shown_allocations()).expect("a list");
    let record = all.iter().find(|(name, _)| name.as_ref() == Some(&named(&allocation))).expect("recorded");
    assert_eq!(IpAllocationStatus::of(&record.1).expect("a status").allocated_cidr, status.allocated_cidr);
    let held = delete(&mut ipam, &allocation).expect_err("bound");
    assert_eq!(held.to_string(), "IPClaim `web` holds it");
    assert!(matches!(put(&mut ipam, &asked("web", 28, "Delete")).expect("there"), Outcome::Unchanged(_)));
    check(&mut ipam);
    end(&mut ipam, "web");
    assert_eq!(carved(&mut ipam), []);
    check(&mut ipam);
}

#[test]
fn what_a_claim_retains_stays_taken_and_is_taken_up_by_the_next_of_its_name() {
    let mut ipam = engine();
    let first = cidr_of(&put(&mut ipam, &asked("web", 28, "Retain")).expect("bound").into_inner());
    end(&mut ipam, "web");
    assert_eq!(carved(&mut ipam), [first]);
    let other = cidr_of(&put(&mut ipam, &asked("other", 28, "Delete")).expect("bound").into_inner());
    assert_ne!(other, first);
    let wider = put(&mut ipam, &asked("web", 27, "Retain")).expect_err("another size");
    assert!(matches!(wider, CarveError::Immutable(_)), "{wider}");
    let again = cidr_of(&put(&mut ipam, &asked("web", 28, "Delete")).expect("bound").into_inner());
    assert_eq!(again, first);
    check(&mut ipam);
    end(&mut ipam, "web");
    assert_eq!(carved(&mut ipam), [other]);
}

#[test]
fn a_retained_allocation_can_be_deleted_by_itself() {
    let mut ipam = engine();
    put(&mut ipam, &asked("web", 28, "Retain")).expect("bound");
    end(&mut ipam, "web");
    delete(&mut ipam, "alloc-82b3ade9d00cd164").expect("nobody holds it");
    assert_eq!(carved(&mut ipam), []);
    check(&mut ipam);
}

#[test]
fn the_first_pool_whose_labels_match_serves_a_selector() {
    let mut ipam = engine();
    for (name, range) in [("b", "10.3.0.0/24"), ("a", "10.2.0.0/24")] {
        let mut labelled = pool(name, range, 26);
        labelled.metadata.labels.insert("tier".into(), "web".into());
        put_pool(ipam.store_mut(), labelled);
    }
    let select = |value: &str| {
        claim(json!({
            "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPClaim", "metadata": { "name": "s" },
            "spec": { "ipFamily": "IPv4", "prefixLength": 28, "poolSelector": { "matchLabels": { "tier": value } } },
        }))
    };
    assert!(matches!(put(&mut ipam, &select("db")), Err(CarveError::NoPoolSelected)));
    assert_eq!(cidr_of(&put(&mut ipam, &select("web")).expect("bound").into_inner()), net("10.2.0.0/28"));
}

#[test]
fn what_a_claim_asked_for_cannot_change_but_what_becomes_of_it_can() {
    let mut ipam = engine();
    put(&mut ipam, &asked("web", 28, "Delete")).expect("bound");
    assert!(matches!(put(&mut ipam, &asked("web", 27, "Delete")), Err(CarveError::Immutable(_))));
    assert!(matches!(put(&mut ipam, &asked("web", 28, "Retain")), Ok(Outcome::Configured(_))));
    end(&mut ipam, "web");
    assert_eq!(carved(&mut ipam), [net("10.0.0.0/28")], "retained now");
}
