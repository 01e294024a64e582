//! Taking over what host-local recorded, when a person asks for it: as the first ADD of a network does, but told
//! beforehand what will become of each record.

use std::net::IpAddr;

use super::assign::checked;
use super::policy::Policy;
use super::pools::Pool;
use super::{
    Assign, Attachment, Error, Host, HostLocalLease, Ipam, NoOwnAddresses, Owner, PoolAsked, PoolChoice,
    TakeoverRequest, Wanted, owner,
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
    /// It was taken over before, and given back since.
    GivenBack,
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
        source: &dyn TakeoverRequest,
    ) -> Result<Vec<(HostLocalLease, LeaseFate)>, Error> {
        if source.modified().is_none() {
            return Ok(Vec::new());
        }
        let settings =
            self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default();
        let policy = Policy::new(settings, None, &request.host.name, request.now);
        let mut judged = Vec::new();
        for lease in source.leases()? {
            let fate = self.judge_lease(&policy, request, &lease).await?;
            judged.push((lease, fate));
        }
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
        let own = attachment(request.network, lease).handle().ok().map(|handle| handle.to_string());
        Ok(match holder {
            Some(handle) if handle.is_some() && handle == own => LeaseFate::Held,
            Some(handle) => LeaseFate::Taken { handle },
            None => {
                let known = policy.takeovers.iter().find(|(_, known)| known.network == request.network);
                match known {
                    Some((_, known)) if lease.modified <= known.modified => LeaseFate::GivenBack,
                    _ => LeaseFate::Free { pool: pool.name },
                }
            }
        })
    }

    /// Takes over every record whose address is free, and makes the network's pools where they do not exist.
    ///
    /// # Errors
    /// When the records cannot be read, a pool cannot be made, or the store failed. What was written stays.
    pub async fn migrate(
        &mut self,
        request: &Migrate<'_>,
        source: &dyn TakeoverRequest,
    ) -> Result<(), Error> {
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
        let nobody = HostLocalLease {
            address: IpAddr::from([0, 0, 0, 0]),
            container_id: "-".to_owned(),
            ifname: "-".to_owned(),
            modified: 0,
        };
        let owner = Owner {
            attachment: attachment(request.network, &nobody),
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
            takeover: None,
            own_addresses: &NoOwnAddresses,
            now: request.now,
        };
        self.take_over(&assign, source).await
    }
}

fn attachment(network: &str, lease: &HostLocalLease) -> Attachment {
    Attachment {
        network: network.to_owned(),
        container_id: lease.container_id.clone(),
        ifname: lease.ifname.clone(),
    }
}
