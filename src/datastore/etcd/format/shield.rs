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

use crate::api::calico::{IpReservation, IpReservationSpec};
use crate::datastore::{Carved, CarvedFor};
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
