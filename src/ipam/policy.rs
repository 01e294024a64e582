//! What one reading of the settings means: the rules and pools that an attempt goes by.

use std::collections::BTreeMap;

use super::config::Config;
use super::pools::{self, Choice, ChoiceError, Pool, PoolChoice};
use super::reservation;
use crate::api::calico::{IpPool, IpReservation, Node};
use crate::api::{Affinity, HostName};
use crate::clock::Timestamp;
use crate::datastore::{Entry, Import, Key, Revision, Settings};
use crate::net::{AddrSet, Cidr, Family};

/// Rules, pools and reservations of an attempt.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) host: HostName,
    pub(super) config: Config,
    pub(super) pools: Vec<IpPool>,
    /// As what the stored ones were read, by name.
    pool_revisions: BTreeMap<String, Revision>,
    pub(super) reservations: Vec<(Option<Revision>, IpReservation)>,
    pub(super) imports: Vec<(Revision, Import)>,
    /// Everything that is reserved.
    pub(super) reserved: AddrSet,
    /// Addresses that host-local has on record, as far as this call met them.
    pub(super) avoid: AddrSet,
    /// The labels of the host's node; none without one.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) sequence_floor: u64,
    pub(super) now: Timestamp,
}

impl Policy {
    pub(super) fn new(settings: Settings, node: Option<Entry>, host: &HostName, now: Timestamp) -> Self {
        let reservations: Vec<_> = settings.reservations.into_iter().map(|(at, r)| (Some(at), r)).collect();
        let named = |(at, pool): &(Revision, IpPool)| (pool.name().to_owned(), *at);
        Self {
            pool_revisions: settings.pools.iter().map(named).collect(),
            host: host.clone(),
            config: Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored)),
            pools: settings.pools.into_iter().map(|(_, pool)| pool).collect(),
            reserved: reservation::reserved(reservations.iter().map(|(_, r)| r)),
            reservations,
            avoid: AddrSet::default(),
            imports: settings.imports,
            labels: node.map(|entry| entry.into::<Node>().metadata.labels).unwrap_or_default(),
            sequence_floor: settings.sequence_floor,
            now,
        }
    }

    /// The owner of this host's blocks.
    pub(super) fn affinity(&self) -> Affinity {
        self.host.clone().into()
    }

    /// Which pools may serve.
    pub(super) fn choose(&self, family: Family, choice: &PoolChoice) -> Result<Choice, ChoiceError> {
        pools::choose(&self.pools, family, choice, &self.labels)
    }

    /// The pool that a block or address range lies in, whatever its state: of a pool and its parent, the pool.
    pub(super) fn pool_of(&self, cidr: Cidr) -> Option<&IpPool> {
        let around = self.pools.iter().filter(|pool| pool.spec.cidr.contains(cidr));
        around.max_by_key(|pool| pool.spec.cidr.prefix())
    }

    /// Where a pool stands, and as what it was read; `None`: it does not exist yet.
    pub(super) fn stored_pool(&self, pool: &IpPool) -> (Key, Option<Revision>) {
        (Key::Pool(pool.name().to_owned()), self.pool_revisions.get(pool.name()).copied())
    }

    /// Where the reservation of a pool's own addresses stands, and as what it was read; `None`: it does not exist.
    pub(super) fn subnet_reservation_of(&self, pool: &str) -> (Key, Option<Revision>) {
        let name = reservation::subnet_reservation_name(pool);
        let stored = self.reservations.iter().find(|(_, stored)| stored.name() == name);
        let revision = stored.and_then(|(revision, _)| *revision);
        (Key::Reservation(name), revision)
    }

    /// What cannot be handed out automatically in a pool: reservations, what host-local has on record, and all outside of the
    /// network's ranges.
    pub(super) fn unusable_in(&self, pool: &Pool, usable: Option<&AddrSet>) -> AddrSet {
        let mut unusable = self.reserved.clone();
        unusable.extend(&self.avoid);
        if let Some(usable) = usable {
            unusable.extend(&usable.complement_in(pool.cidr));
        }
        unusable
    }
}
