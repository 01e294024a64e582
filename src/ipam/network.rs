//! What a network needs in the store before it gets an address: its pools, and the addresses that its subnets keep.

use std::net::IpAddr;

use super::assign::{Assign, checked};
use super::draft::Draft;
use super::owner;
use super::policy::Policy;
use super::pools::Pool;
use super::refusal::holder;
use super::reservation::{self, default_gateway, subnet_addresses, subnet_reservation_name};
use super::{Error, Ipam};
use crate::api::HandleId;
use crate::api::calico::{IpPool, IpReservation, IpReservationSpec};
use crate::datastore::{Datastore, Key, Want};
use crate::net::{AddrSet, Cidr};

/// A pool of a network's configuration. Its CIDR identifies it.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolAsked {
    /// The pool as it is made where none of its CIDR exists.
    pub pool: IpPool,
    /// Whether the configuration names it; a name that was derived from the CIDR may differ from the stored one.
    pub name_given: bool,
    /// Whether the configuration says its block size; one that was made to fit may differ from the stored one.
    pub block_size_given: bool,
}

/// Takes the stored pool of each CIDR, and drafts those that do not exist.
///
/// # Errors
/// When a pool overlaps a stored one of another CIDR, or the configuration contradicts the stored one.
pub(super) fn ensure_pools(policy: &mut Policy, draft: &mut Draft, asked: &[PoolAsked]) -> Result<(), Error> {
    for wanted in asked {
        let pool = &wanted.pool;
        let cidr = pool.spec.cidr;
        if let Some(stored) = policy.pools.iter().find(|stored| stored.spec.cidr == cidr) {
            agree(stored, wanted)?;
            continue;
        }
        if let Some(other) = policy.pools.iter().find(|stored| stored.spec.cidr.overlaps(cidr)) {
            return Err(Error::PoolsOverlap {
                asked: cidr,
                name: other.name().to_owned(),
                cidr: other.spec.cidr,
            });
        }
        if let Some(other) = policy.pools.iter().find(|stored| stored.name() == pool.name()) {
            return Err(Error::PoolDiffers {
                cidr: other.spec.cidr,
                property: "name",
                stored: other.name().to_owned(),
                asked: format!("{} for {cidr}", pool.name()),
            });
        }
        draft.create_pool(pool);
        let place = policy.pools.partition_point(|stored| stored.name() < pool.name());
        policy.pools.insert(place, pool.clone());
    }
    Ok(())
}

fn agree(stored: &IpPool, wanted: &PoolAsked) -> Result<(), Error> {
    let asked = &wanted.pool;
    let differs = |property, stored_value: String, asked_value: String| {
        Err(Error::PoolDiffers { cidr: stored.spec.cidr, property, stored: stored_value, asked: asked_value })
    };
    if wanted.name_given && stored.name() != asked.name() {
        return differs("name", stored.name().to_owned(), asked.name().to_owned());
    }
    match asked.spec.block_size {
        Some(size) if wanted.block_size_given && size != 0 && size != stored.spec.block_prefix() => {
            differs("blockSize", stored.spec.block_prefix().to_string(), size.to_string())
        }
        _ => Ok(()),
    }
}

/// The pools that a request draws from, as far as the request itself says.
fn pools_in_use(policy: &Policy, request: &Assign<'_>) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for wanted in request.wanted {
        // What cannot be chosen is said when the address is looked for.
        let allowed =
            policy.choose(wanted.family, &wanted.choice).map(|choice| choice.allowed).unwrap_or_default();
        for pool in allowed {
            if !pools.contains(&pool) {
                pools.push(pool);
            }
        }
    }
    pools
}

impl<D: Datastore> Ipam<D> {
    /// Keeps the addresses that each subnet needs for itself out of containers' hands. What is kept only grows.
    ///
    /// # Errors
    /// [`Error::GatewayTaken`] when a container holds such an address.
    pub(super) async fn ensure_subnets(
        &mut self,
        policy: &mut Policy,
        draft: &mut Draft,
        request: &Assign<'_>,
        handle: &HandleId,
        gateways: &[IpAddr],
    ) -> Result<(), Error> {
        for pool in pools_in_use(policy, request) {
            let own = gateways_of(pool.cidr, gateways);
            let needed: Vec<Cidr> = subnet_addresses(pool.cidr)
                .into_iter()
                .chain(own.iter().copied().map(Cidr::single))
                .collect();
            let name = subnet_reservation_name(&pool.name);
            let place = policy.reservations.iter().position(|(_, stored)| stored.name() == name);
            let (revision, mut reservation) = match place {
                Some(place) => policy.reservations[place].clone(),
                None => (None, IpReservation::new(name, IpReservationSpec::default())),
            };
            let kept = reservation::addresses(&reservation.spec);
            let missing: Vec<Cidr> = needed.into_iter().filter(|cidr| !kept.covers(*cidr)).collect();
            if missing.is_empty() {
                continue;
            }
            for gateway in own.iter().filter(|&&gateway| missing.contains(&Cidr::single(gateway))) {
                self.refuse_if_taken(policy, draft, &pool, handle, *gateway).await?;
            }
            let mut added = AddrSet::new();
            for cidr in &missing {
                reservation.spec.reserved_cidrs.push(cidr.to_string());
                added.insert_cidr(*cidr);
            }
            policy.reserved.extend(&added);
            match place {
                Some(place) => policy.reservations[place].1 = reservation.clone(),
                None => policy.reservations.push((None, reservation.clone())),
            }
            draft.put_reservation(revision, reservation);
        }
        Ok(())
    }

    async fn refuse_if_taken(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        pool: &Pool,
        handle: &HandleId,
        gateway: IpAddr,
    ) -> Result<(), Error> {
        let Some(cidr) = pool.block_of(gateway) else {
            return Ok(());
        };
        let read = self.store.read(&[Want::Object(Key::Block(cidr))]).await?.pop();
        let entry = read.and_then(crate::datastore::Answer::object);
        // Nobody may take it between this look and the reservation.
        draft.rest_on(Key::Block(cidr), entry.as_ref().map(|entry| entry.revision));
        let Some(entry) = entry else {
            return Ok(());
        };
        let (_, block) = checked(entry, policy)?;
        debug_assert!(draft.knows_handle(handle), "the attachment's handle is read first");
        match block.holder(gateway) {
            // The host's own interface is the gateway, most often: that is what it was kept back for.
            Some(allocation) if !owner::is_host_reserved(&allocation.fields) => {
                Err(Error::GatewayTaken { gateway, holder: Box::new(holder(&allocation.fields)) })
            }
            _ => Ok(()),
        }
    }
}

/// The gateways that count for a pool: those named that lie in it, else its default.
#[must_use]
pub fn gateways_of(pool: Cidr, named: &[IpAddr]) -> Vec<IpAddr> {
    let inside: Vec<IpAddr> =
        named.iter().copied().filter(|gateway| pool.contains_address(*gateway)).collect();
    if inside.is_empty() { default_gateway(pool).into_iter().collect() } else { inside }
}
