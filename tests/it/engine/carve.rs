//! What people carve out of pools, beside the blocks of hosts: nothing ever overlaps.

mod allocations;
mod claims;
mod damage;
mod pools;

use host_affine::api::milo::{IpAllocation, IpAllocationSpec, IpAllocationStatus, IpClaim, IpPool};
use host_affine::datastore::{Key, ProjectName, run_in_place};
use host_affine::ipam::{CarveError, Finding, IfExists, Ipam, Outcome, Trial, audit};
use host_affine::net::{Cidr, Family};

use super::build::{Bare as _, at, cidr, pool, put_pool};
use super::either::{Either, again_on_etcd};

/// The project of whoever names none.
const PROJECT: &str = "default";

#[test]
fn networks_are_carved_on_etcd_too() {
    again_on_etcd(&["engine::carve::"], 25);
}

fn engine() -> Ipam<Either> {
    let mut store = Either::new();
    put_pool(&mut store, pool("pods", "10.0.0.0/24", 26));
    put_pool(&mut store, pool("six", "fd00::/48", 122));
    Ipam::new(store)
}

fn named(name: &str) -> ProjectName {
    ProjectName { project: PROJECT.into(), name: name.into() }
}

/// A manifest of an allocation, with annotations of this API's group.
fn manifest(name: &str, pool: &str, annotations: &[(&str, &str)]) -> IpAllocation {
    let family = if pool == "six" { Family::V6 } else { Family::V4 };
    let mut manifest = IpAllocation::new(name, IpAllocationSpec::new(family, pool));
    for (key, value) in annotations {
        manifest.metadata.annotations.insert(format!("ipam.miloapis.com/{key}"), (*value).to_owned());
    }
    manifest
}

fn apply(ipam: &mut Ipam<Either>, manifest: &IpAllocation) -> Result<Outcome<IpAllocation>, CarveError> {
    run_in_place(ipam.allocate(PROJECT, manifest, IfExists::Change, Trial::Write, at(0)))
}

/// Applies an allocation of a length, and says what it got.
fn carve(ipam: &mut Ipam<Either>, name: &str, pool: &str, length: &str) -> Result<Cidr, CarveError> {
    let made = apply(ipam, &manifest(name, pool, &[("prefix-length", length)]))?.into_inner();
    Ok(IpAllocationStatus::of(&made).and_then(|status| status.allocated_cidr).expect("a CIDR"))
}

fn delete(ipam: &mut Ipam<Either>, name: &str) -> Result<IpAllocation, CarveError> {
    run_in_place(ipam.release_allocation(&named(name)))
}

fn claim(json: serde_json::Value) -> IpClaim {
    serde_json::from_value(json).expect("a claim")
}

fn milo_pool(json: serde_json::Value) -> IpPool {
    serde_json::from_value(json).expect("a pool")
}

/// Networks that were carved out, without blocks.
fn carved(ipam: &mut Ipam<Either>) -> Vec<Cidr> {
    let of = |key| match key {
        Key::Carved(cidr) => Some(cidr),
        _ => None,
    };
    ipam.store_mut().entries().into_iter().filter_map(|entry| of(entry.key)).collect()
}

/// Blocks and carved networks are disjoint, and each carved one belongs to something that exists.
fn check(ipam: &mut Ipam<Either>) {
    let mut all: Vec<Cidr> = Vec::new();
    for entry in ipam.store_mut().entries() {
        if let Key::Carved(cidr) | Key::Block(cidr) = entry.key {
            assert!(all.iter().all(|other| !other.overlaps(cidr)), "{cidr} overlaps one of {all:?}");
            all.push(cidr);
        }
    }
    assert_eq!(findings(ipam), []);
    let allocated: Vec<Cidr> = run_in_place(ipam.shown_allocations())
        .expect("a list")
        .iter()
        .filter_map(|(_, allocation)| IpAllocationStatus::of(allocation)?.allocated_cidr)
        .collect();
    assert_eq!(allocated.len(), all.len(), "{allocated:?} against {all:?}");
    assert!(all.iter().all(|cidr| allocated.contains(cidr)));
}

fn findings(ipam: &mut Ipam<Either>) -> Vec<Finding> {
    audit(ipam.store_mut().entries().into_iter().map(|entry| (entry.key, entry.object)))
}

fn largest_free(ipam: &mut Ipam<Either>, pool: &str) -> Option<u8> {
    let pools = run_in_place(ipam.shown_pools()).expect("pools");
    let found = pools.iter().find(|shown| shown.record.calico.name() == pool).expect("the pool");
    found.extents.capacity().largest_free_prefix
}

fn net(text: &str) -> Cidr {
    cidr(text)
}
