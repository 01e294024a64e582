//! Import of host-local's leases on request: as the first ADD of a network does it, with a report on each record.

use std::net::IpAddr;

use super::assign::checked;
use super::import::trusts_marks;
use super::policy::Policy;
use super::pools::Pool;
use super::{
    Assign, Error, Host, HostLocalLease, ImportSource, Ipam, NoOwnAddresses, Owner, PoolAsked, PoolChoice,
    Scan, Wanted, owner,
};
use crate::clock::Timestamp;
use crate::datastore::{Answer, Datastore, Want};
use crate::net::{Cidr, Family};

/// A network that host-local served until now.
#[derive(Debug)]
pub struct Migrate<'a> {
    /// The host whose containers these are.
    pub host: &'a Host,
    /// The network's name.
    pub network: &'a str,
    /// Pools that the network's configuration names; made where they do not exist.
    pub pools: &'a [PoolAsked],
    /// The gateways that the configuration names; `None`: its pools are no subnets.
    pub gateways: Option<&'a [IpAddr]>,
    /// The present time.
    pub now: Timestamp,
}

/// What becomes of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseFate {
    /// Its address is free, and will be its container's.
    Free {
        /// The pool.
        pool: String,
    },
    /// Its container has it already.
    Held,
    /// Somebody else has it, and keeps it.
    Taken {
        /// The other's handle; `None`: it has none.
        handle: Option<String>,
    },
    /// It was imported before, and released since.
    Released,
    /// It is from before this boot, and no network namespace of this host has its address.
    Dead,
    /// The record has no text: the address is somebody's, until the record is gone or filled in.
    Nameless,
    /// It lies in no pool: nobody would be kept from it, and nobody could give it.
    NoPool,
}

impl<D: Datastore> Ipam<D> {
    /// What would become of each record, in the order of the addresses. Changes nothing.
    ///
    /// # Errors
    /// When the records or the store cannot be read.
    pub async fn judge_leases(
        &mut self,
        request: &Migrate<'_>,
        source: &dyn ImportSource,
    ) -> Result<Vec<(HostLocalLease, LeaseFate)>, Error> {
        let Some(look) = source.look()? else {
            return Ok(Vec::new());
        };
        let settings =
            self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default();
        let policy = Policy::new(settings, None, &request.host.name, request.now);
        let trusts = trusts_marks(&policy, request.network, source, look);
        let records = source.scan(Scan::Show, &|_| true)?;
        let mut judged = Vec::new();
        for mut lease in records.leases {
            lease.is_marked &= trusts;
            let fate = self.judge_lease(&policy, request, &lease).await?;
            judged.push((lease, fate));
        }
        judged.extend(records.dead.into_iter().map(|lease| (lease, LeaseFate::Dead)));
        judged.extend(records.nameless.into_iter().map(|address| (nobody(address), LeaseFate::Nameless)));
        judged.sort_by_key(|(lease, _)| lease.address);
        Ok(judged)
    }

    async fn judge_lease(
        &mut self,
        policy: &Policy,
        request: &Migrate<'_>,
        lease: &HostLocalLease,
    ) -> Result<LeaseFate, Error> {
        let single = Cidr::single(lease.address);
        let asked =
            || request.pools.iter().map(|asked| &asked.pool).find(|pool| pool.spec.cidr.contains(single));
        let Some(pool) = policy.pool_of(single).or_else(asked).map(Pool::of) else {
            return Ok(LeaseFate::NoPool);
        };
        let read = self.store.read(&[Want::Blocks(single)]).await?.pop();
        let entry = read.map(Answer::objects).unwrap_or_default().into_iter().next();
        let holder = match entry.map(|entry| checked(entry, policy)).transpose()? {
            Some((_, block)) => block
                .holder(lease.address)
                .map(|held| held.fields.handle_id.as_deref().map(|id| owner::sanitised(id).to_owned())),
            None => None,
        };
        let own = lease.attachment(request.network).handle().ok().map(|handle| handle.to_string());
        Ok(match holder {
            Some(handle) if handle.is_some() && handle == own => LeaseFate::Held,
            Some(handle) => LeaseFate::Taken { handle },
            None if lease.is_marked => LeaseFate::Released,
            None => LeaseFate::Free { pool: pool.name },
        })
    }

    /// Imports every lease whose address is free, and makes the network's pools where they do not exist.
    ///
    /// # Errors
    /// When the records cannot be read, a pool cannot be made, or the store failed. What was written stays.
    pub async fn migrate(&mut self, request: &Migrate<'_>, source: &dyn ImportSource) -> Result<(), Error> {
        let of_family = |family| {
            let cidrs = request.pools.iter().map(|asked| asked.pool.spec.cidr);
            cidrs.filter(|cidr| cidr.family() == family).collect::<Vec<_>>()
        };
        let wanted: Vec<_> = Family::BOTH
            .into_iter()
            .map(|family| (family, of_family(family)))
            .filter(|(_, cidrs)| !cidrs.is_empty())
            .map(|(family, cidrs)| Wanted {
                family,
                choice: PoolChoice::OfNetwork(cidrs),
                usable: None,
                address: None,
            })
            .collect();
        let owner = Owner {
            attachment: nobody(IpAddr::from([0, 0, 0, 0])).attachment(request.network),
            host: request.host.clone(),
            netns: None,
            pod: None,
        };
        let assign = Assign {
            host: request.host,
            owner: &owner,
            sharing: super::Sharing::Attachment,
            wanted: &wanted,
            pools: request.pools,
            gateways: request.gateways,
            import: None,
            own_addresses: &NoOwnAddresses,
            now: request.now,
        };
        self.import(&assign, source).await
    }
}

fn nobody(address: IpAddr) -> HostLocalLease {
    HostLocalLease { address, container_id: "-".to_owned(), ifname: "-".to_owned(), is_marked: false }
}
