use std::fmt;

use super::{Extent, capacity};
use crate::net::{AddrSet, Cidr};

/// The most extents that are named as being in the way.
const NAMED_MAX: usize = 3;

/// That no network of some length is free in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The pool's range.
    pub pool: Cidr,
    /// The length that was asked for.
    pub prefix: u8,
    /// How many addresses are free.
    pub available: u128,
    /// The length of the largest network that is free. `None`: none is.
    pub largest_free_prefix: Option<u8>,
    /// What breaks the space up. `None`: whole networks of that length are taken, or the pool is smaller than one.
    pub in_the_way: Option<Box<InTheWay>>,
}

/// The network of the wanted length that lacks the fewest addresses, and who has those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTheWay {
    /// The network.
    pub network: Cidr,
    /// Some of those who have addresses of it, ascending.
    pub extents: Vec<Extent>,
    /// How many more there are.
    pub more: usize,
}

impl Exhausted {
    /// Says why there is none. `sorted` is ascending and disjoint, and `taken` its addresses.
    pub(super) fn explain(pool: Cidr, sorted: &[Extent], taken: &AddrSet, prefix: u8) -> Self {
        let left = capacity(pool, taken);
        Self {
            pool,
            prefix,
            available: left.available,
            largest_free_prefix: left.largest_free_prefix,
            in_the_way: in_the_way(pool, sorted, prefix).map(Box::new),
        }
    }
}

fn in_the_way(pool: Cidr, sorted: &[Extent], prefix: u8) -> Option<InTheWay> {
    let network_of = |extent: &Extent| Cidr::containing(extent.cidr.first(), prefix);
    let runs = sorted.chunk_by(|a, b| network_of(a) == network_of(b));
    let broken = runs.filter_map(|run| {
        let network = network_of(run.first()?).filter(|network| pool.contains(*network))?;
        let lost = run.iter().fold(0u128, |sum, extent| sum.saturating_add(extent.cidr.size()));
        (lost < network.size()).then_some((lost, network, run))
    });
    let (_, network, run) = broken.min_by_key(|&(lost, ..)| lost)?;
    let extents: Vec<_> = run.iter().take(NAMED_MAX).cloned().collect();
    Some(InTheWay { network, more: run.len() - extents.len(), extents })
}

impl std::error::Error for Exhausted {}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pool, prefix, available) = (self.pool, self.prefix, self.available);
        if prefix < pool.prefix() {
            return write!(f, "a /{prefix} is larger than the pool's range {pool}");
        }
        let addresses = if available == 1 { "address is" } else { "addresses are" };
        match self.largest_free_prefix {
            None => write!(f, "no /{prefix} is free in {pool}: all of it is taken"),
            Some(largest) => write!(
                f,
                "no /{prefix} is free in {pool}: {available} {addresses} free, the largest network of them a /{largest}"
            ),
        }
    }
}

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} would be free without ", self.network)?;
        for (place, extent) in self.extents.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{extent}")?;
        }
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}
