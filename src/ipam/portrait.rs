//! One pool as it can be drawn: its blocks, whose they are, what people carved out of it, and in a small pool who has
//! which address.

use std::net::IpAddr;

use super::usage::{carved_networks, count_block};
use super::{Block, BlockUsage, Error, Ipam, noted, owner_key, reservation};
use crate::datastore::{Answer, CarvedFor, Collection, Inspect, Visit, Want};
use crate::net::{AddrSet, Cidr};

/// A pool, to be drawn.
#[derive(Debug)]
pub struct Portrait {
    /// Its name.
    pub name: String,
    /// Its range.
    pub cidr: Cidr,
    /// Whether it is switched off.
    pub disabled: bool,
    /// The prefix length of its blocks.
    pub block_prefix: u8,
    /// Its blocks, ascending. Those of a child pool are the child's.
    pub blocks: Vec<PortraitBlock>,
    /// What was carved out of it for something other than blocks, and what for, ascending.
    pub carved: Vec<(Cidr, CarvedFor)>,
    /// What is reserved, in every pool.
    pub reserved: AddrSet,
}

/// A block, to be drawn.
#[derive(Debug)]
pub struct PortraitBlock {
    /// Its counts.
    pub usage: BlockUsage,
    /// Who has its addresses, ascending; empty in a pool that is too large for it.
    pub addresses: Vec<PortraitAddress>,
}

/// An address that is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortraitAddress {
    /// The address.
    pub address: IpAddr,
    /// The host that uses it.
    pub node: Option<String>,
    /// Its pod or machine, else its handle.
    pub name: Option<String>,
    /// Whether it was released and cools down.
    pub is_cooling: bool,
}

impl<D: Inspect> Ipam<D> {
    /// Every pool, to be drawn, by name; with addresses where it has at most `addresses_max`. Beside it, what could not
    /// be read. `watch` is told of each block, with how many there are.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub async fn portraits(
        &mut self,
        addresses_max: u128,
        watch: &mut dyn FnMut(usize),
    ) -> Result<(Vec<Portrait>, Vec<String>), Error> {
        let wants = [Want::Settings, Want::All(Collection::Carved)];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let carved = carved_networks(answers.next().map(Answer::objects).unwrap_or_default());
        let reserved = reservation::reserved(settings.reservations.iter().map(|(_, stored)| stored));
        let portrait = |(_, pool): &(_, crate::api::calico::IpPool)| Portrait {
            name: pool.name().to_owned(),
            cidr: pool.spec.cidr,
            disabled: pool.spec.disabled,
            block_prefix: pool.spec.block_prefix(),
            blocks: Vec::new(),
            carved: Vec::new(),
            reserved: reserved.clone(),
        };
        let mut portraits: Vec<Portrait> = settings.pools.iter().map(portrait).collect();
        for (cidr, owner) in carved {
            // A child pool is drawn in its parent, not in itself.
            let is_other =
                |pool: &Portrait| !matches!(&owner, CarvedFor::ChildPool(name) if *name == pool.name);
            if let Some(pool) = innermost(&mut portraits, cidr, is_other) {
                pool.carved.push((cidr, owner));
            }
        }
        let mut damaged = Vec::new();
        let mut visit = |Visit { cidr, total, block }: Visit| {
            watch(total);
            let block = match block.map(Block::from_wire) {
                Ok(Ok(block)) => block,
                Ok(Err(problem)) => return damaged.push(format!("block {cidr} {problem}")),
                Err(reason) => return damaged.push(reason.to_string()),
            };
            if let Some(pool) = innermost(&mut portraits, cidr, |_| true) {
                let is_small = pool.cidr.size() <= addresses_max;
                let addresses = if is_small { addresses(&block) } else { Vec::new() };
                pool.blocks.push(PortraitBlock { usage: count_block(&block, &reserved), addresses });
            }
        };
        self.store.each_block(&mut visit).await?;
        for pool in &mut portraits {
            pool.blocks.sort_by_key(|block| block.usage.cidr);
            pool.carved.sort_by_key(|(cidr, _)| *cidr);
        }
        Ok((portraits, damaged))
    }
}

/// The smallest pool around a network, of those that may be.
fn innermost(
    portraits: &mut [Portrait],
    cidr: Cidr,
    may_be: impl Fn(&Portrait) -> bool,
) -> Option<&mut Portrait> {
    let around = portraits.iter_mut().filter(|pool| pool.cidr.contains(cidr) && may_be(pool));
    around.max_by_key(|pool| pool.cidr.prefix())
}

fn addresses(block: &Block) -> Vec<PortraitAddress> {
    let portrait = |allocation: super::Allocation<'_>| {
        let fields = &allocation.fields;
        let note = |key: &str| noted(fields, key).map(str::to_owned);
        let in_namespace = |name: String| match note(owner_key::NAMESPACE) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name,
        };
        let named = note(owner_key::VMI_NAME).or_else(|| note(owner_key::POD)).map(in_namespace);
        PortraitAddress {
            address: allocation.address,
            node: note(owner_key::NODE),
            name: named
                .or_else(|| fields.handle_id.as_deref().map(|id| super::owner::sanitised(id).to_owned())),
            is_cooling: fields.released_at.is_some(),
        }
    };
    block.allocations().map(portrait).collect()
}
