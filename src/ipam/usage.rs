//! How much of each pool and block is used: counted once, shown by whoever shows it.

use std::borrow::Cow;

use serde::Deserialize;

use super::carve::slots;
use super::{Block, Config, Error, Ipam, reservation};
use crate::api::Affinity;
use crate::api::calico::{Attribute, IpPool, IpamBlock};
use crate::api::milo::Slots;
use crate::clock::Timestamp;
use crate::datastore::{Answer, Carved, CarvedFor, Collection, Datastore, Entry, Key, Settings, Want};
use crate::net::{AddrSet, Cidr};

/// Counts of a store. Exact: `capacity = in_use + reserved + carved + free` holds for every pool and block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Every pool, by name.
    pub pools: Vec<PoolUsage>,
    /// Blocks that lie in no pool.
    pub orphans: Vec<BlockUsage>,
}

/// Counts of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolUsage {
    /// Its name.
    pub name: String,
    /// Its range.
    pub cidr: Cidr,
    /// Whether it is switched off.
    pub disabled: bool,
    /// The addresses of its whole range.
    pub capacity: u128,
    /// Addresses that are not free: assigned, cooling, or the host's own.
    pub in_use: u128,
    /// Of those, addresses that were released and cool down.
    pub cooling: u128,
    /// Reserved addresses that are not in use.
    pub reserved: u128,
    /// Addresses that were carved out for something other than blocks.
    pub carved: u128,
    /// Addresses that may be handed out automatically. Those in places where no whole block fits are among them.
    pub free: u128,
    /// What is left for blocks.
    pub slots: Slots,
    /// Its blocks, ascending.
    pub blocks: Vec<BlockUsage>,
}

/// Counts of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockUsage {
    /// Its range.
    pub cidr: Cidr,
    /// Whom it is kept for.
    pub affinity: Option<Affinity>,
    /// Its addresses.
    pub capacity: u128,
    /// Addresses that are not free.
    pub in_use: u128,
    /// Of those, addresses that were released and cool down.
    pub cooling: u128,
    /// Reserved addresses that are not in use.
    pub reserved: u128,
    /// Addresses that may be handed out automatically.
    pub free: u128,
    /// Addresses that hosts other than the owner of the affinity use, and which hosts those are.
    pub borrowed: Vec<(String, u128)>,
}

impl<D: Datastore> Ipam<D> {
    /// Counts the whole store. `now` judges which addresses have cooled down.
    ///
    /// # Errors
    /// When the store cannot be read, or a block is damaged.
    pub async fn usage(&mut self, now: Timestamp) -> Result<Usage, Error> {
        let wants = [Want::Settings, Want::All(Collection::Carved), Want::AllBlocks];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let carved = carved_networks(answers.next().map(Answer::objects).unwrap_or_default());
        let counter = Counter::new(&settings, now);
        let mut blocks = Vec::new();
        for entry in answers.next().map(Answer::objects).unwrap_or_default() {
            let wire: IpamBlock = entry.into();
            let block = wire.cidr;
            blocks.push(counter.count(wire).map_err(|problem| Error::DamagedBlock { block, problem })?);
        }
        Ok(counter.tally(&settings, blocks, &carved))
    }
}

/// The networks of records of what was carved, and what for.
pub(super) fn carved_networks(entries: Vec<Entry>) -> Vec<(Cidr, CarvedFor)> {
    let network = |entry: Entry| match entry.key {
        Key::Carved(cidr) => Some((cidr, entry.into::<Carved>().owner)),
        _ => None,
    };
    entries.into_iter().filter_map(network).collect()
}

/// Counts block by block, and then pool by pool.
pub(super) struct Counter {
    reserved: AddrSet,
    config: Config,
    now: Timestamp,
}

impl Counter {
    pub(super) fn new(settings: &Settings, now: Timestamp) -> Self {
        Self {
            reserved: reservation::reserved(settings.reservations.iter().map(|(_, stored)| stored)),
            config: Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored)),
            now,
        }
    }

    /// Counts a block as it is now. What is wrong with it, if it is damaged.
    pub(super) fn count(&self, wire: IpamBlock) -> Result<BlockUsage, String> {
        let mut block = Block::from_wire(wire)?;
        block.collect(self.config.cooldown, self.now);
        Ok(count_block(&block, &self.reserved))
    }

    /// Puts blocks and what else was carved into their pools: of a pool and its parent, into the pool.
    pub(super) fn tally(
        &self,
        settings: &Settings,
        blocks: Vec<BlockUsage>,
        carved: &[(Cidr, CarvedFor)],
    ) -> Usage {
        let mut usage = Usage::default();
        let pools: Vec<&IpPool> = settings.pools.iter().map(|(_, pool)| pool).collect();
        let mut inside: Vec<Vec<BlockUsage>> = pools.iter().map(|_| Vec::new()).collect();
        for block in blocks {
            let around = pools.iter().enumerate().filter(|(_, pool)| pool.spec.cidr.contains(block.cidr));
            match around.max_by_key(|(_, pool)| pool.spec.cidr.prefix()) {
                Some((place, _)) => inside[place].push(block),
                None => usage.orphans.push(block),
            }
        }
        for (pool, blocks) in pools.into_iter().zip(inside) {
            usage.pools.push(count_pool(pool, blocks, carved, &self.reserved));
        }
        usage
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
        cooling: cooling(block),
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

/// How many addresses of a block cool down.
fn cooling(block: &Block) -> u128 {
    let wire = block.wire();
    let is_cooling =
        |attribute: &Attribute| attribute.may_be_cooling() && attribute.fields().released_at.is_some();
    let cooling: Vec<bool> = wire.attributes.iter().map(is_cooling).collect();
    let indices = wire.allocations.iter().flatten();
    let count = indices.filter(|index| cooling.get(usize::from(**index)) == Some(&true)).count();
    u128::try_from(count).unwrap_or(u128::MAX)
}

fn count_pool(
    pool: &IpPool,
    blocks: Vec<BlockUsage>,
    carved: &[(Cidr, CarvedFor)],
    reserved: &AddrSet,
) -> PoolUsage {
    let cidr = pool.spec.cidr;
    // A child pool lies in this one; the record of it does not lie in the child.
    let is_own = |owner: &CarvedFor| matches!(owner, CarvedFor::ChildPool(name) if name == pool.name());
    let mut others = AddrSet::new();
    for (carved, _) in carved.iter().filter(|(carved, owner)| cidr.contains(*carved) && !is_own(owner)) {
        others.insert_cidr(*carved);
    }
    let mut taken = others.clone();
    for block in &blocks {
        taken.insert_cidr(block.cidr);
    }
    let sum = |count: fn(&BlockUsage) -> u128| blocks.iter().map(count).fold(0u128, u128::saturating_add);
    let outside = cidr.size() - taken.count_in(cidr);
    let mut taken_or_reserved = taken.clone();
    taken_or_reserved.extend(reserved);
    let reserved_outside = taken_or_reserved.count_in(cidr) - taken.count_in(cidr);
    PoolUsage {
        name: pool.name().to_owned(),
        cidr,
        disabled: pool.spec.disabled,
        capacity: cidr.size(),
        in_use: sum(|block| block.in_use),
        cooling: sum(|block| block.cooling),
        reserved: sum(|block| block.reserved).saturating_add(reserved_outside),
        carved: others.count_in(cidr),
        free: sum(|block| block.free).saturating_add(outside - reserved_outside),
        slots: slots(cidr, &taken, pool.spec.block_prefix()),
        blocks,
    }
}
