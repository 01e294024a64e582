//! From a network's configuration to what the engine is asked for, and from its answer to a result.

use std::net::IpAddr;

use super::config::{Addressing, Dialect, NetConf, PoolConf, RangeSet, Route, Slot};
use super::failure::Failure;
use super::result::{AddResult, Ip};
use crate::api::calico::{IpPool, IpPoolSpec};
use crate::ipam::{Assigned, AssignedAddress, Pool, PoolAsked, PoolChoice, Wanted, gateways_of};
use crate::net::{AddrSet, Cidr, Family};

/// What a network asks of the engine.
pub struct Plan<'a> {
    conf: &'a NetConf,
    slots: Vec<Slot<'a>>,
    /// One address each.
    pub wanted: Vec<Wanted>,
    /// The network's own pools.
    pub pools: Vec<PoolAsked>,
    /// The gateways that the network names; `None` in `routed` addressing.
    pub gateways: Option<Vec<IpAddr>>,
}

impl<'a> Plan<'a> {
    /// What a configuration means.
    ///
    /// # Errors
    /// When it asks for what it excludes itself, or describes a pool that cannot be.
    pub fn of(conf: &'a NetConf) -> Result<Self, Failure> {
        let slots = conf.ipam.slots(&conf.request)?;
        super::result::check_expressible(conf.cni_version, slots.iter().map(|slot| slot.family))?;
        let pools = pools(conf)?;
        let wanted = slots.iter().map(|slot| wanted(conf, slot)).collect();
        let named = conf.ipam.sets.iter().flat_map(|set| &set.ranges).filter_map(|range| range.gateway);
        let gateways = match conf.ipam.addressing {
            Addressing::Routed => None,
            Addressing::Subnet => Some(conf.ipam.gateways.iter().copied().chain(named).collect()),
        };
        Ok(Self { conf, slots, wanted, pools, gateways })
    }

    /// The result of ADD. `dns` is what the configuration and its `resolvConf` say.
    #[must_use]
    pub fn result(&self, assigned: &Assigned, dns: super::config::Dns) -> AddResult {
        let ips: Vec<Ip> = assigned
            .addresses
            .iter()
            .zip(&self.slots)
            .map(|(address, slot)| self.ip(address, slot))
            .collect();
        let own = |ip: &Ip| Route::to(Cidr::single(ip.address));
        let routes = match self.conf.ipam.addressing {
            // Calico's main plugin reads the absence of routes as: program none on the host. A virtual machine's address is
            // another pod's until it has migrated.
            Addressing::Routed if assigned.waits => Vec::new(),
            Addressing::Routed => ips.iter().map(own).chain(self.conf.ipam.routes.iter().cloned()).collect(),
            Addressing::Subnet => self.conf.ipam.routes.clone(),
        };
        AddResult { ips, routes, dns }
    }

    fn ip(&self, assigned: &AssignedAddress, slot: &Slot<'_>) -> Ip {
        let address = assigned.address;
        let bits = Family::of(address).bits();
        if self.conf.ipam.addressing == Addressing::Routed {
            return Ip { address, prefix: bits, gateway: None };
        }
        let in_range = |set: &RangeSet| {
            let inside = |range: &&super::config::Range| range.subnet.contains_address(address);
            set.range_of(address).or_else(|| set.ranges.iter().find(inside)).copied()
        };
        if let Some(range) = slot.set.and_then(in_range) {
            let gateway = range.gateway.or_else(|| crate::ipam::default_gateway(range.subnet));
            return Ip { address, prefix: range.subnet.prefix(), gateway };
        }
        let subnet = assigned.pool.as_ref().map(|pool: &Pool| pool.cidr);
        let gateway =
            subnet.and_then(|subnet| gateways_of(subnet, &self.conf.ipam.gateways).first().copied());
        Ip { address, prefix: subnet.map_or(bits, Cidr::prefix), gateway }
    }
}

fn wanted(conf: &NetConf, slot: &Slot<'_>) -> Wanted {
    let requested = match slot.family {
        Family::V4 => &conf.ipam.ipv4_pools,
        Family::V6 => &conf.ipam.ipv6_pools,
    };
    let (choice, usable) = match slot.set {
        Some(set) => {
            let mut usable = AddrSet::new();
            for range in &set.ranges {
                let (first, last) = range.bounds();
                usable.insert_range(first, last);
            }
            (PoolChoice::OfNetwork(set.ranges.iter().map(|range| range.subnet).collect()), Some(usable))
        }
        None if !requested.is_empty() => {
            (PoolChoice::Requested(requested.iter().map(ToString::to_string).collect()), None)
        }
        None if conf.ipam.dialect == Dialect::Pools => {
            (PoolChoice::OfNetwork(conf.ipam.pools.iter().map(|pool| pool.cidr).collect()), None)
        }
        None => (PoolChoice::Any, None),
    };
    Wanted { family: slot.family, choice, usable, address: slot.requested }
}

fn pools(conf: &NetConf) -> Result<Vec<PoolAsked>, Failure> {
    let mut pools: Vec<PoolAsked> = Vec::new();
    for pool in &conf.ipam.pools {
        pools.push(asked(pool)?);
    }
    for range in conf.ipam.sets.iter().flat_map(|set| &set.ranges) {
        let asked = asked(&PoolConf::new(range.subnet))?;
        if !pools.contains(&asked) {
            pools.push(asked);
        }
    }
    Ok(pools)
}

/// A pool as it is made: a block is never larger than its pool.
fn asked(conf: &PoolConf) -> Result<PoolAsked, Failure> {
    let mut spec: IpPoolSpec = serde_json::from_value(conf.spec().into())
        .map_err(|error| Failure::config(format!("pool `{}`: {error}", conf.cidr)))?;
    if conf.block_size.is_none() && spec.block_prefix() < spec.cidr.prefix() {
        spec.block_size = Some(spec.cidr.prefix());
    }
    Ok(PoolAsked {
        pool: IpPool::new(conf.resource_name(), spec),
        name_given: conf.name.is_some(),
        block_size_given: conf.block_size.is_some(),
    })
}
