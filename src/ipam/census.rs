//! Counting a whole store block by block, in no more memory than the counts take. What is damaged is named, and the
//! rest counted all the same.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Block, BlockUsage, Error, Ipam, PoolUsage, Usage, reservation};
use crate::api::calico::Attribute;
use crate::datastore::{self, Answer, Inspect, Visit, Want};
use crate::net::{AddrSet, Cidr};

/// The counts of a store, as far as it can be read.
#[derive(Debug, Default)]
pub struct Census {
    /// The counts. Exact, but for what is damaged: that counts as if it were not there.
    pub usage: Usage,
    /// What could not be read.
    pub damaged: Vec<Damage>,
}

/// A block that could not be read.
#[derive(Debug)]
pub struct Damage {
    /// Its range.
    pub block: Cidr,
    /// Why not, with the file.
    pub reason: datastore::Error,
}

impl<D: Inspect> Ipam<D> {
    /// Counts the whole store. `watch` is told of each block, with how many there are.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub async fn census(&mut self, watch: &mut dyn FnMut(usize)) -> Result<Census, Error> {
        let settings =
            self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default();
        let reserved = reservation::reserved(settings.reservations.iter().map(|(_, stored)| stored));
        let mut census = Census::default();
        let mut blocks = Vec::new();
        let mut visit = |Visit { cidr, total, block }: Visit| {
            watch(total);
            match block.map(Block::from_wire) {
                Ok(Ok(block)) => blocks.push(count_block(&block, &reserved)),
                Ok(Err(problem)) => {
                    let reason = datastore::Error::Damaged { path: cidr.to_string().into(), problem };
                    census.damaged.push(Damage { block: cidr, reason });
                }
                Err(reason) => census.damaged.push(Damage { block: cidr, reason }),
            }
        };
        self.store.each_block(&mut visit).await?;
        for (_, stored) in &settings.pools {
            let cidr = stored.spec.cidr;
            let (inside, rest) = blocks.into_iter().partition(|block: &BlockUsage| cidr.contains(block.cidr));
            blocks = rest;
            let pool = count_pool(stored.name(), cidr, inside, &reserved);
            census.usage.pools.push(PoolUsage { disabled: stored.spec.disabled, ..pool });
        }
        census.usage.orphans = blocks;
        Ok(census)
    }
}

pub(super) fn count_block(block: &Block, reserved: &AddrSet) -> BlockUsage {
    let cidr = block.cidr();
    let as_count = |count: usize| u128::try_from(count).unwrap_or(u128::MAX);
    let (in_use, free) = (as_count(block.in_use()), as_count(block.count_free(reserved)));
    BlockUsage {
        cidr,
        affinity: block.affinity().cloned(),
        capacity: cidr.size(),
        in_use,
        reserved: cidr.size() - in_use - free,
        free,
        borrowed: borrowers(block),
    }
}

/// Hosts other than the owner of the affinity that use addresses of a block, and how many.
fn borrowers(block: &Block) -> Vec<(String, u128)> {
    let owner = block.affinity().map(|affinity| affinity.name().as_str());
    let own =
        owner.and_then(|owner| serde_json::to_string(owner).ok()).map(|text| format!("\"node\":{text}"));
    let wire = block.wire();
    let nodes: Vec<Option<Cow<'_, str>>> = wire
        .attributes
        .iter()
        .map(|attribute| {
            // Nearly all are the owner's, which is seen without reading them. Within a text the quotes are escaped.
            let is_own = own.as_ref().is_some_and(|own| {
                attribute.as_json().contains(own.as_str())
                    && !attribute.as_json().contains("alternateOwnerAttrs")
            });
            if is_own { None } else { node(attribute) }
        })
        .collect();
    let mut borrowed: Vec<(String, u128)> = Vec::new();
    for index in wire.allocations.iter().flatten() {
        let Some(node) = nodes.get(usize::from(*index)).and_then(Option::as_deref) else { continue };
        if Some(node) == owner {
            continue;
        }
        match borrowed.iter_mut().find(|(known, _)| known == node) {
            Some((_, count)) => *count += 1,
            None => borrowed.push((node.to_owned(), 1)),
        }
    }
    borrowed
}

/// The host that uses an address, without what else is noted.
fn node(attribute: &Attribute) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Noted<'a> {
        #[serde(borrow, default)]
        secondary: Option<Active<'a>>,
    }
    #[derive(Deserialize)]
    struct Active<'a> {
        #[serde(borrow, default)]
        node: Option<Cow<'a, str>>,
    }
    serde_json::from_str::<Noted<'_>>(attribute.as_json()).ok()?.secondary?.node
}

fn count_pool(name: &str, cidr: Cidr, blocks: Vec<BlockUsage>, reserved: &AddrSet) -> PoolUsage {
    let sum = |count: fn(&BlockUsage) -> u128| blocks.iter().map(count).fold(0u128, u128::saturating_add);
    let carved = sum(|block| block.capacity);
    let reserved_in_blocks: u128 =
        blocks.iter().map(|block| reserved.count_in(block.cidr)).fold(0, u128::saturating_add);
    let reserved_outside = reserved.count_in(cidr).saturating_sub(reserved_in_blocks);
    let free_outside = cidr.size().saturating_sub(carved).saturating_sub(reserved_outside);
    PoolUsage {
        name: name.to_owned(),
        cidr,
        disabled: false,
        capacity: cidr.size(),
        in_use: sum(|block| block.in_use),
        reserved: sum(|block| block.reserved).saturating_add(reserved_outside),
        free: sum(|block| block.free).saturating_add(free_outside),
        blocks,
    }
}
