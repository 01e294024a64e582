//! One pool as it can be drawn: its blocks, whose they are, and in a small pool who has which address.

use std::net::IpAddr;

use super::usage::count_block;
use super::{Block, BlockUsage, Error, Ipam, noted, owner_key, reservation};
use crate::datastore::{Answer, Inspect, Visit, Want};
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
    /// Its blocks, ascending.
    pub blocks: Vec<PortraitBlock>,
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
        let settings =
            self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default();
        let reserved = reservation::reserved(settings.reservations.iter().map(|(_, stored)| stored));
        let portrait = |(_, pool): &(_, crate::api::calico::IpPool)| Portrait {
            name: pool.name().to_owned(),
            cidr: pool.spec.cidr,
            disabled: pool.spec.disabled,
            block_prefix: pool.spec.block_prefix(),
            blocks: Vec::new(),
            reserved: reserved.clone(),
        };
        let mut portraits: Vec<Portrait> = settings.pools.iter().map(portrait).collect();
        let mut damaged = Vec::new();
        let mut visit = |Visit { cidr, total, block }: Visit| {
            watch(total);
            let block = match block.map(Block::from_wire) {
                Ok(Ok(block)) => block,
                Ok(Err(problem)) => return damaged.push(format!("block {cidr} {problem}")),
                Err(reason) => return damaged.push(reason.to_string()),
            };
            if let Some(pool) = portraits.iter_mut().find(|pool| pool.cidr.contains(cidr)) {
                let is_small = pool.cidr.size() <= addresses_max;
                let addresses = if is_small { addresses(&block) } else { Vec::new() };
                pool.blocks.push(PortraitBlock { usage: count_block(&block, &reserved), addresses });
            }
        };
        self.store.each_block(&mut visit).await?;
        for pool in &mut portraits {
            pool.blocks.sort_by_key(|block| block.usage.cidr);
        }
        Ok((portraits, damaged))
    }
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
