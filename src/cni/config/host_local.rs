//! host-local's dialect: ranges instead of pools.

use std::net::IpAddr;

use super::section::{Section, Value};
use crate::cni::failure::Failure;
use crate::net::{Cidr, Family};

/// Ranges of one family that one address is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet {
    /// At least one; disjoint.
    pub ranges: Vec<Range>,
}

impl RangeSet {
    /// The family of all its ranges.
    #[must_use]
    pub fn family(&self) -> Family {
        self.ranges.first().map_or(Family::V4, |range| range.subnet.family())
    }

    /// The range that an address is in. `None`: the set does not give it.
    #[must_use]
    pub fn range_of(&self, address: IpAddr) -> Option<&Range> {
        self.ranges.iter().find(|range| range.contains(address))
    }
}

/// A part of a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The network, whose prefix length the addresses get.
    pub subnet: Cidr,
    /// `rangeStart`. `None`: the subnet's beginning.
    pub first: Option<IpAddr>,
    /// `rangeEnd`. `None`: the subnet's end.
    pub last: Option<IpAddr>,
    /// `None`: the first usable address of the subnet. May lie outside the range.
    pub gateway: Option<IpAddr>,
}

impl Range {
    /// The first and the last address, network and broadcast addresses included where nothing else is set.
    #[must_use]
    pub fn bounds(&self) -> (IpAddr, IpAddr) {
        (self.first.unwrap_or_else(|| self.subnet.first()), self.last.unwrap_or_else(|| self.subnet.last()))
    }

    /// Whether an address lies within the bounds.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, last) = self.bounds();
        // Addresses of different families compare by family, which never lies between two of the other.
        (first..=last).contains(&address)
    }

    fn read(section: &Section<'_, '_>) -> Result<Range, Failure> {
        let subnet = section.get("subnet").ok_or_else(|| section.problem("has no `subnet`"))?;
        let cidr = subnet.cidr()?;
        let longest = cidr.family().bits() - 2;
        if cidr.prefix() > longest {
            return Err(
                subnet.problem(format!("`{cidr}` has no room for hosts; expected at most /{longest}"))
            );
        }
        let bound = |key| -> Result<Option<IpAddr>, Failure> {
            let Some(address) = section.address(key)? else {
                return Ok(None);
            };
            match (cidr.position(address), section.get(key)) {
                (None, Some(value)) => {
                    Err(value.problem(format!("`{address}` is not in the subnet `{cidr}`")))
                }
                _ => Ok(Some(address)),
            }
        };
        let range =
            Range { subnet: cidr, first: bound("rangeStart")?, last: bound("rangeEnd")?, gateway: None };
        let (first, last) = range.bounds();
        if first > last {
            return Err(section.problem(format!("starts at `{first}`, behind its end `{last}`")));
        }
        Ok(range)
    }

    /// With the `gateway` that is written beside it.
    fn read_with_gateway(section: &Section<'_, '_>) -> Result<Range, Failure> {
        let range = Self::read(section)?;
        let Some(gateway) = section.address("gateway")? else {
            return Ok(range);
        };
        if Family::of(gateway) != range.subnet.family() {
            return Err(section.problem(format!(
                "has the gateway `{gateway}`, which is not of the family of `{}`",
                range.subnet
            )));
        }
        Ok(Range { gateway: Some(gateway), ..range })
    }
}

/// Reads `ipam.subnet` and its companions, `ipam.ranges`, and `runtimeConfig.ipRanges` behind them.
pub(super) fn read(
    ipam: &Section<'_, '_>,
    gateways: &[IpAddr],
    runtime: Option<&Section<'_, '_>>,
) -> Result<Vec<RangeSet>, Failure> {
    let mut sets = Vec::new();
    if ipam.given("subnet").is_none() {
        if let Some(bound) = ["rangeStart", "rangeEnd"].into_iter().find(|key| ipam.given(key).is_some()) {
            return Err(ipam.problem(format!("has `{bound}`, but no `subnet`")));
        }
    } else {
        let mut range = Range::read(ipam)?;
        // A gateway alone is this range's, wherever it lies; of several each has its own.
        if let [gateway] = gateways {
            if Family::of(*gateway) != range.subnet.family() {
                return Err(ipam.problem(format!(
                    "has the gateway `{gateway}`, which is not of the family of `{}`",
                    range.subnet
                )));
            }
            range.gateway = Some(*gateway);
        }
        sets.push(RangeSet { ranges: vec![range] });
    }
    if let Some(ranges) = ipam.get("ranges") {
        read_sets(ranges, &mut sets)?;
    }
    if let Some(ranges) = runtime.and_then(|runtime| runtime.get("ipRanges")) {
        read_sets(ranges, &mut sets)?;
    }
    for range in sets.iter_mut().flat_map(|set| &mut set.ranges) {
        range.gateway = range
            .gateway
            .or_else(|| gateways.iter().copied().find(|gateway| range.subnet.position(*gateway).is_some()));
    }
    refuse_overlaps(&sets)?;
    Ok(sets)
}

fn read_sets(list: Value<'_, '_>, sets: &mut Vec<RangeSet>) -> Result<(), Failure> {
    for set in list.list()? {
        let mut ranges: Vec<Range> = Vec::new();
        for range in set.list()? {
            let read = Range::read_with_gateway(&range.section()?)?;
            if let Some(first) = ranges.first().filter(|first| first.subnet.family() != read.subnet.family())
            {
                let (a, b) = (first.subnet, read.subnet);
                return Err(
                    set.problem(format!("`{a}` and `{b}` are of two families; expected a set for each"))
                );
            }
            ranges.push(read);
        }
        if ranges.is_empty() {
            return Err(set.problem("has no range in it"));
        }
        sets.push(RangeSet { ranges });
    }
    Ok(())
}

fn refuse_overlaps(sets: &[RangeSet]) -> Result<(), Failure> {
    let mut ranges: Vec<&Range> = sets.iter().flat_map(|set| &set.ranges).collect();
    ranges.sort_by_key(|range| range.bounds());
    for (a, b) in ranges.iter().zip(ranges.iter().skip(1)) {
        let ((a_first, a_last), (b_first, b_last)) = (a.bounds(), b.bounds());
        if b_first <= a_last {
            return Err(Failure::config(format!(
                "the ranges {a_first} to {a_last} and {b_first} to {b_last} overlap"
            )));
        }
    }
    Ok(())
}
