//! How much of each pool and block is used: counted once, shown by whoever shows it.

use super::reservation;
use super::{Block, Config, Error, Ipam};
use crate::api::Affinity;
use crate::api::calico::IpamBlock;
use crate::clock::Timestamp;
use crate::datastore::{Answer, Datastore, Want};
use crate::net::{AddrSet, Cidr};

/// Counts of a store. Exact: `capacity = in_use + reserved + free` holds for every pool and block.
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
    /// Addresses that may be handed out automatically.
    pub free: u128,
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
        let mut answers = self.store.read(&[Want::Settings, Want::AllBlocks]).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let reserved = reservation::reserved(settings.reservations.iter().map(|(_, stored)| stored));
        let config = Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored));
        let mut blocks = Vec::new();
        for entry in answers.next().map(Answer::objects).unwrap_or_default() {
            let wire: IpamBlock = entry.into();
            let cidr = wire.cidr;
            let mut block =
                Block::from_wire(wire).map_err(|problem| Error::DamagedBlock { block: cidr, problem })?;
            block.collect(config.cooldown, now);
            blocks.push(count_block(&block, &reserved));
        }
        let mut usage = Usage::default();
        for (_, stored) in &settings.pools {
            let cidr = stored.spec.cidr;
            let (inside, rest) = blocks.into_iter().partition(|block: &BlockUsage| cidr.contains(block.cidr));
            blocks = rest;
            let mut pool = count_pool(stored.name(), cidr, inside, &reserved);
            pool.disabled = stored.spec.disabled;
            usage.pools.push(pool);
        }
        usage.orphans = blocks;
        Ok(usage)
    }
}

fn count_block(block: &Block, reserved: &AddrSet) -> BlockUsage {
    let cidr = block.cidr();
    let as_count = |count: usize| u128::try_from(count).unwrap_or(u128::MAX);
    let (in_use, free) = (as_count(block.in_use()), as_count(block.count_free(reserved)));
    let owner = block.affinity().map(|affinity| affinity.name().as_str());
    let mut borrowed: Vec<(String, u128)> = Vec::new();
    let mut cooling = 0;
    for allocation in block.allocations() {
        cooling += u128::from(allocation.fields.released_at.is_some());
        let Some(node) = super::noted(&allocation.fields, super::owner_key::NODE) else {
            continue;
        };
        if Some(node) == owner {
            continue;
        }
        match borrowed.iter_mut().find(|(known, _)| known == node) {
            Some((_, count)) => *count += 1,
            None => borrowed.push((node.to_owned(), 1)),
        }
    }
    BlockUsage {
        cidr,
        affinity: block.affinity().cloned(),
        capacity: cidr.size(),
        in_use,
        cooling,
        reserved: cidr.size() - in_use - free,
        free,
        borrowed,
    }
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
        cooling: sum(|block| block.cooling),
        reserved: sum(|block| block.reserved).saturating_add(reserved_outside),
        free: sum(|block| block.free).saturating_add(free_outside),
        blocks,
    }
}
