//! How a network that was carved out of a pool for people is kept from Calico's allocator.
//!
//! Calico knows no carved networks, but leaves alone the blocks that an `IPReservation` covers as a whole. So beside each
//! record of an `IPAllocation`'s or `IPClaim`'s network stands a reservation of the blocks that it lies in, created and
//! deleted with it in the same batch. It keeps pods out of nothing that they could have had: the engine makes no block
//! there either. A child pool has none, since its addresses do go to pods.
//!
//! The engine does not see them as reservations: they are left out of the settings, or its counts would take a carved
//! network for carved and reserved. Calico ignores reservations when it is asked for a certain address, so an overlap
//! is possible, and `ipam check` names it.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::calico::{IpPool, IpReservation, IpReservationSpec};
use crate::datastore::{Carved, CarvedFor, Derived};
use crate::net::Cidr;

/// How the names of these reservations begin. The network's name follows.
pub const PREFIX: &str = "host-affine-carved-";
/// The label that says whose they are.
pub const LABEL: &str = "host-affine/carved";
/// The annotation that says to people what it is for.
pub const ANNOTATION: &str = "host-affine/reason";

/// The name of a carved network's reservation.
#[must_use]
pub fn name_of(carved: Cidr) -> String {
    format!("{PREFIX}{}", carved.object_name())
}

/// Whether a name is kept for these reservations.
#[must_use]
pub fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether a reservation is one of these. One of their names without their label is somebody else's.
#[must_use]
pub fn is_shield(reservation: &IpReservation) -> bool {
    is_name(reservation.name()) && reservation.metadata.labels.contains_key(LABEL)
}

/// Whether what is carved for someone is kept from Calico's allocator.
#[must_use]
pub fn is_needed(owner: &CarvedFor) -> bool {
    match owner {
        CarvedFor::Allocation(_) | CarvedFor::Claim(_) => true,
        CarvedFor::ChildPool(_) => false,
    }
}

/// The reservation of a carved network, in a pool of blocks of that prefix length; `None`: the pool is not there.
#[must_use]
pub fn reservation(cidr: Cidr, carved: &Carved, block_prefix: Option<u8>) -> IpReservation {
    let prefix = block_prefix.map_or(cidr.prefix(), |prefix| prefix.min(cidr.prefix()));
    let blocks = Cidr::containing(cidr.first(), prefix).unwrap_or(cidr);
    let spec = IpReservationSpec { reserved_cidrs: vec![blocks.to_string()], ..IpReservationSpec::default() };
    let mut reservation = IpReservation::new(name_of(cidr), spec);
    reservation.metadata.labels.insert(LABEL.to_owned(), "true".to_owned());
    let reason = format!(
        "{cidr} is carved out of pool `{}` for {}; this goes with it",
        carved.pool.escape_debug(),
        carved.owner
    );
    reservation.metadata.annotations.insert(ANNOTATION.to_owned(), reason);
    reservation
}

/// Where carved networks and these reservations do not agree: one that is missing, or reserves something else, and one
/// that is left over.
#[must_use]
pub fn amiss(
    carved: &BTreeMap<Cidr, Carved>,
    pools: &[IpPool],
    reservations: &BTreeMap<String, IpReservation>,
) -> Vec<Derived> {
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for (&cidr, carved) in carved.iter().filter(|(_, carved)| is_needed(&carved.owner)) {
        let pool = pools.iter().find(|pool| pool.name() == carved.pool);
        let wanted = reservation(cidr, carved, pool.map(|pool| pool.spec.block_prefix()));
        let stands = reservations.get(wanted.name()).filter(|stands| is_shield(stands));
        if stands.is_none_or(|stands| stands.spec.reserved_cidrs != wanted.spec.reserved_cidrs) {
            found.push(Derived::Unshielded { carved: cidr });
        }
        names.insert(name_of(cidr));
    }
    let left = reservations.values().filter(|stands| is_shield(stands) && !names.contains(stands.name()));
    found.extend(left.map(|stands| Derived::StrayShield { name: stands.name().to_owned() }));
    found
}
