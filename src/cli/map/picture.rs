//! What is to be drawn of a pool, whatever draws it: tiles with their places, whose they are and how full.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::render::{counted, percent, printable};
use super::layout::{Layout, Rect};
use crate::datastore::CarvedFor;
use crate::ipam::{Portrait, PortraitAddress, PortraitBlock};
use crate::net::{Cidr, Family};

/// How many users of a block are named.
const NAMED_MAX: usize = 6;

/// A pool, laid out.
pub(super) struct Picture<'a> {
    pub(super) pool: &'a Portrait,
    pub(super) layout: Layout,
    /// By name.
    pub(super) hosts: Vec<Host>,
    /// What lies below comes first.
    pub(super) tiles: Vec<Tile>,
    /// Addresses that are not free.
    pub(super) in_use: u128,
}

/// A host that has something of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    /// Blocks that are kept for it.
    pub(super) blocks: u128,
    /// Addresses that it uses, in whosever blocks.
    pub(super) addresses: u128,
}

/// A part of the map that is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) rect: Rect,
    pub(super) what: What,
    /// Which of the hosts; `None`: it is nobody's.
    pub(super) host: Option<usize>,
    /// How full it is, of a hundred.
    pub(super) percent: u128,
    /// What it is, a line each.
    pub(super) title: String,
}

/// What a tile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A network that people carved out, or several that share a cell.
    Carved,
    /// A block whose addresses are tiles of their own.
    Frame,
    /// A block, or several that share a cell.
    Blocks,
    /// An address that somebody has.
    Address,
    /// An address that is free and reserved.
    Reserved,
}

impl<'a> Picture<'a> {
    /// Lays a pool out on at most `2^bits_max` cells.
    pub(super) fn new(pool: &'a Portrait, bits_max: u32) -> Self {
        let layout = Layout::new(pool.cidr, pool.block_prefix, bits_max);
        let hosts = hosts(pool);
        let mut picture = Self { pool, layout, hosts, tiles: Vec::new(), in_use: 0 };
        picture.in_use = pool.blocks.iter().map(|block| block.usage.in_use).sum();
        picture.draw_carved();
        if layout.is_of_addresses() {
            picture.draw_addresses();
        } else {
            picture.draw_blocks();
        }
        picture
    }

    /// The counts, in a sentence.
    pub(super) fn summary(&self) -> String {
        let total = self.pool.cidr.size();
        let possible = self.pool.cidr.subnet_count(self.pool.block_prefix);
        let carved = match self.pool.carved.iter().map(|(cidr, _)| cidr.size()).sum() {
            0 => String::new(),
            carved => format!(", {} carved out", grouped(carved)),
        };
        format!(
            "{} of {} addresses in use ({}%){carved}, {} of {} blocks, {}{}",
            grouped(self.in_use),
            grouped(total),
            percent(self.in_use, total),
            grouped(u128::try_from(self.pool.blocks.len()).unwrap_or(u128::MAX)),
            grouped(possible),
            hosts_in_words(self.hosts.len()),
            if self.pool.disabled { "; disabled" } else { "" }
        )
    }

    fn host(&self, name: &str) -> Option<usize> {
        self.hosts.binary_search_by(|host| host.name.as_str().cmp(name)).ok()
    }

    fn owner(&self, block: &PortraitBlock) -> Option<usize> {
        self.host(block.usage.affinity.as_ref()?.name().as_str())
    }

    /// Each network that was carved out, or each cell that has some.
    fn draw_carved(&mut self) {
        let mut cells: BTreeMap<u32, Vec<&(Cidr, CarvedFor)>> = BTreeMap::new();
        for carved in &self.pool.carved {
            if let Some(place) = self.layout.place(carved.0) {
                cells.entry(place).or_default().push(carved);
            }
        }
        for carved in cells.into_values() {
            let Some(rect) = carved.first().and_then(|(cidr, _)| self.layout.rect(*cidr)) else { continue };
            let mut lines: Vec<_> = carved
                .iter()
                .take(NAMED_MAX)
                .map(|(cidr, owner)| format!("{cidr}\ncarved out for {}", printable(&owner.to_string())))
                .collect();
            if carved.len() > NAMED_MAX {
                lines.push(format!("and {} more networks", carved.len() - NAMED_MAX));
            }
            let title = lines.join("\n");
            self.tiles.push(Tile { rect, what: What::Carved, host: None, percent: 0, title });
        }
    }

    /// Each block as a frame, and in it each address.
    fn draw_addresses(&mut self) {
        let mut tiles = Vec::new();
        for block in &self.pool.blocks {
            let Some(rect) = self.layout.rect(block.usage.cidr) else { continue };
            let host = self.owner(block);
            let title = block_title(block);
            tiles.push(Tile { rect, what: What::Frame, host, percent: 0, title });
            for address in &block.addresses {
                let Some(rect) = self.layout.rect(Cidr::single(address.address)) else { continue };
                let host = address.node.as_deref().and_then(|node| self.host(node));
                let percent = if address.is_cooling { 30 } else { 100 };
                let title = address_title(address, block);
                tiles.push(Tile { rect, what: What::Address, host, percent, title });
            }
        }
        let taken = |address| {
            self.pool.blocks.iter().any(|block| block.addresses.iter().any(|held| held.address == address))
                || self.pool.carved.iter().any(|(cidr, _)| cidr.contains_address(address))
        };
        for place in 0..self.pool.cidr.size() {
            let Some(address) = self.pool.cidr.nth(place).filter(|at| self.pool.reserved.contains(*at))
            else {
                continue;
            };
            if let Some(rect) = self.layout.rect(Cidr::single(address)).filter(|_| !taken(address)) {
                let title = format!("{address}\nreserved");
                tiles.push(Tile { rect, what: What::Reserved, host: None, percent: 0, title });
            }
        }
        self.tiles.extend(tiles);
    }

    /// Each block, or, where several share a cell, each cell that has one.
    fn draw_blocks(&mut self) {
        let mut cells: BTreeMap<u32, Vec<&PortraitBlock>> = BTreeMap::new();
        for block in &self.pool.blocks {
            if let Some(place) = self.layout.place(block.usage.cidr) {
                cells.entry(place).or_default().push(block);
            }
        }
        for blocks in cells.into_values() {
            let Some(rect) = blocks.first().and_then(|block| self.layout.rect(block.usage.cidr)) else {
                continue;
            };
            let in_use: u128 = blocks.iter().map(|block| block.usage.in_use).sum();
            let size = self.layout.cell_size().max(blocks.iter().map(|block| block.usage.capacity).sum());
            let (host, title) = match &*blocks {
                [block] if block.usage.capacity >= self.layout.cell_size() => {
                    (self.owner(block), block_title(block))
                }
                several => (self.most(several), self.cell_title(several, in_use)),
            };
            let percent = percent(in_use, size);
            self.tiles.push(Tile { rect, what: What::Blocks, host, percent, title });
        }
    }

    /// Whose most of some blocks are.
    fn most(&self, blocks: &[&PortraitBlock]) -> Option<usize> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for owner in blocks.iter().filter_map(|block| self.owner(block)) {
            *counts.entry(owner).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(host, count)| (*count, usize::MAX - host)).map(|(host, _)| host)
    }

    fn cell_title(&self, blocks: &[&PortraitBlock], in_use: u128) -> String {
        let first = blocks.first().map(|block| block.usage.cidr);
        let bits = self.pool.cidr.family().bits();
        let cell_bits = u8::try_from(self.layout.cell_size().trailing_zeros()).unwrap_or(bits);
        let range = first.and_then(|cidr| Cidr::containing(cidr.first(), bits.saturating_sub(cell_bits)));
        let mut title = range.map(|range| range.to_string()).unwrap_or_default();
        let _ = write!(title, "\n{}, {} in use", counted(blocks.len(), "block", "blocks"), grouped(in_use));
        let mut owners: Vec<_> = blocks.iter().filter_map(|block| self.owner(block)).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners.iter().take(NAMED_MAX) {
            let _ = write!(title, "\n{}", printable(&self.hosts[*owner].name));
        }
        if owners.len() > NAMED_MAX {
            let _ = write!(title, "\nand {} more hosts", owners.len() - NAMED_MAX);
        }
        title
    }
}

fn hosts_in_words(number: usize) -> String {
    let word = if number == 1 { "host" } else { "hosts" };
    format!("{} {word}", grouped(u128::try_from(number).unwrap_or(u128::MAX)))
}

/// Every host that has something of a pool, by name.
fn hosts(pool: &Portrait) -> Vec<Host> {
    let mut hosts: BTreeMap<&str, (u128, u128)> = BTreeMap::new();
    for block in &pool.blocks {
        let usage = &block.usage;
        let borrowed: u128 = usage.borrowed.iter().map(|(_, count)| count).sum();
        if let Some(owner) = &usage.affinity {
            let counts = hosts.entry(owner.name().as_str()).or_default();
            counts.0 += 1;
            counts.1 += usage.in_use - borrowed.min(usage.in_use);
        }
        for (host, count) in &usage.borrowed {
            hosts.entry(host).or_default().1 += count;
        }
    }
    let host = |(name, (blocks, addresses)): (&str, _)| Host { name: name.to_owned(), blocks, addresses };
    hosts.into_iter().map(host).collect()
}

fn block_title(block: &PortraitBlock) -> String {
    let usage = &block.usage;
    let owner = usage
        .affinity
        .as_ref()
        .map_or_else(|| "kept for nobody".to_owned(), |owner| printable(owner.name().as_str()));
    let mut title = format!(
        "block {}\n{owner}\n{} of {} in use ({}%)",
        usage.cidr,
        usage.in_use,
        usage.capacity,
        percent(usage.in_use, usage.capacity)
    );
    if usage.reserved > 0 {
        let _ = write!(title, ", {} reserved", usage.reserved);
    }
    for (host, count) in &usage.borrowed {
        let _ = write!(title, "\n{count} borrowed by {}", printable(host));
    }
    title
}

fn address_title(address: &PortraitAddress, block: &PortraitBlock) -> String {
    let mut title = address.address.to_string();
    if let Some(name) = &address.name {
        let _ = write!(title, "\n{}", printable(name));
    }
    if address.is_cooling {
        title.push_str("\nreleased, cools down");
    }
    let owner = block.usage.affinity.as_ref().map(|owner| owner.name().as_str());
    match &address.node {
        Some(node) if Some(node.as_str()) == owner => drop(write!(title, "\n{}", printable(node))),
        Some(node) => {
            let lender = owner.map_or_else(|| "nobody".to_owned(), printable);
            let _ = write!(title, "\n{}, in a block of {lender}", printable(node));
        }
        None => {}
    }
    title
}

/// A number with its thousands set apart; one with too many digits to be read, as a power of two.
pub(super) fn grouped(number: u128) -> String {
    if number >= 1_000_000_000_000 {
        return format!("2^{}", number.ilog2());
    }
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What the cells of a map are, in words.
pub(super) fn cell_words(layout: &Layout, pool: &Portrait) -> String {
    if layout.is_of_addresses() {
        return "one address".to_owned();
    }
    let bits = pool.cidr.family().bits();
    let prefix = u32::from(bits).saturating_sub(layout.cell_size().trailing_zeros());
    let word = match pool.cidr.family() {
        Family::V4 | Family::V6 if prefix == u32::from(pool.block_prefix) => "one block",
        _ => "a range",
    };
    format!("{word} (/{prefix})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_can_be_read() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(65_536), "65,536");
        assert_eq!(grouped(1_048_576), "1,048,576");
        assert_eq!(grouped(1 << 64), "2^64");
    }
}
