use std::net::IpAddr;
use std::path::PathBuf;

use super::dns::Dns;
use super::host_local::{self, RangeSet};
use super::kubevirt::KubevirtConf;
use super::pools::{PoolConf, PoolRef};
use super::requests::Overrides;
use super::route::Route;
use super::section::{Section, Value};
use super::{Request, datastore};
use crate::cni::failure::{Code, Failure};
use crate::net::Family;

/// Where host-local keeps its files unless `dataDir` says otherwise.
const HOST_LOCAL_DATA_DIR: &str = "/var/lib/cni/networks";

/// How addresses are chosen, and what is told with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpamConf {
    /// What kind of section it is.
    pub dialect: Dialect,
    /// `pools`. Empty in the other dialects.
    pub pools: Vec<PoolConf>,
    /// The range sets: one address from each. Empty in the other dialects.
    pub sets: Vec<RangeSet>,
    /// The IPv4 pools that the network is restricted to. Empty: `pools` where there are any, else all enabled ones.
    pub ipv4_pools: Vec<PoolRef>,
    /// The same of IPv6.
    pub ipv6_pools: Vec<PoolRef>,
    /// Whether to assign an IPv4 address. `None`: see [`IpamConf::slots`].
    pub assign_ipv4: Option<bool>,
    /// Whether to assign an IPv6 address.
    pub assign_ipv6: Option<bool>,
    /// Prefix length and gateway of what is assigned.
    pub addressing: Addressing,
    /// `gateway`: each counts for the pool it lies in. Ranges have theirs in [`Range::gateway`](super::Range::gateway).
    pub gateways: Vec<IpAddr>,
    /// Routes of the container.
    pub routes: Vec<Route>,
    /// `dns`.
    pub dns: Dns,
    /// `resolvConf`: a file to take from what `dns` does not say.
    pub resolv_conf: Option<PathBuf>,
    /// `dataDir`: where host-local kept its files, a directory for each network. `None`: `/var/lib/cni/networks`.
    pub data_dir: Option<PathBuf>,
    /// `status.exhaustion`: whether STATUS fails when no address is left.
    pub status_exhaustion: bool,
    /// How virtual machines are recognised and kept.
    pub kubevirt: KubevirtConf,
}

/// What kind of section `ipam` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `pools` names the network's own pools.
    Pools,
    /// host-local's: `subnet`, `ranges`, or the runtime's `ipRanges`.
    HostLocal,
    /// Calico's, or nothing at all: the pools are those of the store.
    #[default]
    Stored,
}

/// Prefix length and gateway of what is assigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// The pool's prefix length and gateway, as bridge, ptp and macvlan need.
    #[default]
    Subnet,
    /// /32 or /128, no gateway and a route to itself, as Calico's main plugin needs.
    Routed,
}

/// One address that ADD has to assign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot<'a> {
    /// Its family.
    pub family: Family,
    /// The address itself. `None`: any.
    pub requested: Option<IpAddr>,
    /// The ranges it must be in. `None`: it comes from pools.
    pub set: Option<&'a RangeSet>,
}

impl IpamConf {
    /// The addresses that ADD has to assign, in the order of the result.
    ///
    /// Ranges: one from each set. Otherwise one per family that is switched on. What is neither switched on nor off is on
    /// for the families of `pools`, without `pools` for IPv4, and for each family that an address of is asked for.
    ///
    /// # Errors
    /// Code 7: no family is switched on, or one that is switched off is asked for; 108: an address that no range set gives,
    /// or more addresses than are assigned.
    pub fn slots(&self, request: &Request) -> Result<Vec<Slot<'_>>, Failure> {
        let mut slots: Vec<Slot<'_>> = match self.dialect {
            Dialect::HostLocal => self
                .sets
                .iter()
                .map(|set| Slot { family: set.family(), requested: None, set: Some(set) })
                .collect(),
            Dialect::Pools | Dialect::Stored => Family::BOTH
                .into_iter()
                .filter(|&family| self.assigns(family, request))
                .map(|family| Slot { family, requested: None, set: None })
                .collect(),
        };
        for &address in &request.addresses {
            let family = Family::of(address);
            if self.switch(family) == Some(false) {
                return Err(Failure::config(format!(
                    "`{address}` is asked for, but no {family} address is to be assigned"
                )));
            }
            let fits = |slot: &Slot<'_>| {
                slot.family == family && slot.set.is_none_or(|set| set.range_of(address).is_some())
            };
            match slots.iter_mut().find(|slot| fits(slot) && slot.requested.is_none()) {
                Some(slot) => slot.requested = Some(address),
                None => return Err(self.no_room(address, slots.iter().find(|slot| fits(slot)))),
            }
        }
        for family in Family::BOTH {
            if self.switch(family) == Some(true) && !slots.iter().any(|slot| slot.family == family) {
                return Err(Failure::config(format!(
                    "an {family} address is to be assigned, but no range is {family}"
                )));
            }
        }
        if slots.is_empty() {
            return Err(Failure::config(
                "no address is to be assigned; `assign_ipv4` and `assign_ipv6` are false",
            ));
        }
        Ok(slots)
    }

    fn no_room(&self, address: IpAddr, taken: Option<&Slot<'_>>) -> Failure {
        if let Some(other) = taken.and_then(|slot| slot.requested) {
            return Failure::config(format!(
                "`{address}` and `{other}` are asked for, where one address is assigned"
            ));
        }
        let ranges = self.sets.iter().flat_map(|set| &set.ranges).map(|range| {
            let (first, last) = range.bounds();
            format!("{first} to {last}")
        });
        Failure::new(Code::AddressOutsidePools, format!("`{address}` is in none of the network's ranges"))
            .with_details(format!("the ranges are {}", ranges.collect::<Vec<_>>().join(", ")))
    }

    fn assigns(&self, family: Family, request: &Request) -> bool {
        self.switch(family).unwrap_or_else(|| {
            let by_default = match self.dialect {
                Dialect::Pools => self.pools.iter().any(|pool| pool.cidr.family() == family),
                Dialect::HostLocal | Dialect::Stored => family == Family::V4,
            };
            by_default || request.addresses.iter().any(|address| Family::of(*address) == family)
        })
    }

    fn switch(&self, family: Family) -> Option<bool> {
        match family {
            Family::V4 => self.assign_ipv4,
            Family::V6 => self.assign_ipv6,
        }
    }

    /// The directory in which host-local kept the addresses of a network.
    #[must_use]
    pub fn host_local_dir(&self, network: &str) -> PathBuf {
        let parent = self.data_dir.clone().unwrap_or_else(|| HOST_LOCAL_DATA_DIR.into());
        parent.join(network)
    }

    pub(super) fn read(
        ipam: &Section<'_, '_>,
        runtime: Option<&Section<'_, '_>>,
        overrides: Overrides,
        default_addressing: Addressing,
    ) -> Result<IpamConf, Failure> {
        let gateways = gateways(ipam)?;
        let mut sets = host_local::read(ipam, &gateways, runtime)?;
        let pools = PoolConf::read_all(ipam)?;
        let dialect = match (pools.is_empty(), sets.is_empty()) {
            (true, true) => Dialect::Stored,
            (true, false) => Dialect::HostLocal,
            (false, true) => Dialect::Pools,
            (false, false) => return Err(ipam.problem("has both `pools` and ranges; expected one of them")),
        };
        let (assign_ipv4, assign_ipv6) = match overrides.families {
            Some(families) => (Some(families.contains(&Family::V4)), Some(families.contains(&Family::V6))),
            None => (switch(ipam, "assign_ipv4")?, switch(ipam, "assign_ipv6")?),
        };
        sets.retain(|set| match set.family() {
            Family::V4 => assign_ipv4 != Some(false),
            Family::V6 => assign_ipv6 != Some(false),
        });
        // The lists are read also where annotations replace them: what is wrong in them stays wrong.
        let ipv4_pools = PoolRef::read_all(ipam, "ipv4_pools", Family::V4)?;
        let ipv6_pools = PoolRef::read_all(ipam, "ipv6_pools", Family::V6)?;
        for gateway in &gateways {
            let named = match Family::of(*gateway) {
                Family::V4 => &ipv4_pools,
                Family::V6 => &ipv6_pools,
            };
            // Of pools that are only named it is not known here where they lie.
            if dialect == Dialect::Pools && named.is_empty() {
                check_gateway(ipam, *gateway, &pools)?;
            }
        }
        let status = ipam.section("status")?;
        Ok(IpamConf {
            dialect,
            pools,
            sets,
            ipv4_pools: overrides.ipv4_pools.unwrap_or(ipv4_pools),
            ipv6_pools: overrides.ipv6_pools.unwrap_or(ipv6_pools),
            assign_ipv4,
            assign_ipv6,
            addressing: match ipam
                .given("addressing")
                .map(|value| value.word(&["subnet", "routed"]))
                .transpose()?
            {
                Some("routed") => Addressing::Routed,
                Some(_) => Addressing::Subnet,
                None => default_addressing,
            },
            gateways,
            routes: Route::read_all(ipam)?,
            dns: Dns::read(ipam)?,
            resolv_conf: ipam.text("resolvConf")?.map(PathBuf::from),
            data_dir: datastore::data_dir(ipam)?,
            status_exhaustion: status
                .map(|status| status.bool("exhaustion"))
                .transpose()?
                .flatten()
                .unwrap_or(false),
            kubevirt: KubevirtConf::read(ipam)?,
        })
    }

    /// What releasing an address can make use of.
    pub(super) fn for_release(ipam: &Section<'_, '_>) -> IpamConf {
        let ranges = ["subnet", "ranges", "dataDir"].iter().any(|key| ipam.get(key).is_some());
        IpamConf {
            dialect: if ranges { Dialect::HostLocal } else { Dialect::Stored },
            data_dir: datastore::data_dir(ipam).ok().flatten(),
            kubevirt: KubevirtConf::read(ipam).unwrap_or_default(),
            ..IpamConf::default()
        }
    }
}

/// One address or a list of them.
fn gateways(ipam: &Section<'_, '_>) -> Result<Vec<IpAddr>, Failure> {
    let Some(value) = ipam.get("gateway") else {
        return Ok(Vec::new());
    };
    match value.raw.array() {
        Some(_) => value.list()?.map(Value::address).collect(),
        None => Ok(ipam.address("gateway")?.into_iter().collect()),
    }
}

/// A gateway that no pool has would be that of no address, and nobody would be told.
fn check_gateway(ipam: &Section<'_, '_>, gateway: IpAddr, pools: &[PoolConf]) -> Result<(), Failure> {
    if pools.iter().any(|pool| pool.cidr.contains_address(gateway)) {
        return Ok(());
    }
    let cidrs: Vec<String> = pools.iter().map(|pool| pool.cidr.to_string()).collect();
    let problem =
        format!("has the gateway `{gateway}`, which lies in none of its pools: {}", cidrs.join(", "));
    Err(ipam.problem(problem))
}

/// A JSON boolean, or one of the strings that Calico has for it.
fn switch(ipam: &Section<'_, '_>, key: &str) -> Result<Option<bool>, Failure> {
    let Some(value) = ipam.get(key) else {
        return Ok(None);
    };
    let Some(text) = value.raw.string() else {
        return value.bool().map(Some);
    };
    match text.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        _ => Err(value.expected("true or false")),
    }
}
