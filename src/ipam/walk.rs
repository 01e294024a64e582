//! The order in which a host tries the blocks of a pool.

mod go_rand;

use crate::net::{AddrSet, Cidr};

use go_rand::GoRand;

/// The position, counted from 0, at which `host` starts in a pool of `blocks` blocks. 0 when there are none.
///
/// Hosts start apart, so that they seldom meet at one block, and each always starts at the same place. Calico's
/// engine comes to the same number, save for blocks of a single address: there it takes the clock, here the name
/// counts as everywhere, so that no walk depends on time. A caller that holds many such blocks passes them as
/// unusable to [`Walk::new`], which steps over neighbours at once.
#[must_use]
pub fn start(host: &str, blocks: u128) -> u128 {
    GoRand::seeded(fnv1(host.as_bytes())).below(blocks)
}

/// The blocks of a pool in the order in which a host tries them: from its [`start`] upwards, then from the
/// pool's first block up to just before that start.
///
/// A step costs a search among the ranges of `unusable`, however large the pool or a range.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    pool: Cidr,
    block_prefix: u8,
    unusable: &'a AddrSet,
    /// Positions still to be tried in this round, both inclusive.
    round: Option<(u128, u128)>,
    /// The round after the wrap.
    second_round: Option<(u128, u128)>,
}

impl<'a> Walk<'a> {
    /// A walk over the blocks of `block_prefix` bits in `pool`, less those that lie wholly in `unusable`.
    ///
    /// Empty when a block would be larger than the pool or longer than an address.
    #[must_use]
    pub fn new(host: &str, pool: Cidr, block_prefix: u8, unusable: &'a AddrSet) -> Self {
        let blocks = pool.subnet_count(block_prefix);
        let start = start(host, blocks);
        Self {
            pool,
            block_prefix,
            unusable,
            round: blocks.checked_sub(1).map(|last| (start, last)),
            second_round: start.checked_sub(1).map(|last| (0, last)),
        }
    }

    /// The position of the first block that ends after `address`. `None` when the pool ends before.
    fn position_after(&self, address: u128) -> Option<u128> {
        let next = self.pool.family().address(address.checked_add(1)?);
        self.pool.subnet_position(Cidr::containing(next, self.block_prefix)?)
    }
}

impl Iterator for Walk<'_> {
    type Item = Cidr;

    fn next(&mut self) -> Option<Cidr> {
        loop {
            let (position, last) = self.round?;
            let block = self.pool.nth_subnet(self.block_prefix, position)?;
            let covered = self.unusable.end_of_cover(block);
            let next = match covered {
                None => position.checked_add(1),
                Some(end) if end >= self.pool.last_bits() => None,
                Some(end) => self.position_after(end),
            };
            self.round = match next.filter(|&next| next <= last) {
                Some(next) => Some((next, last)),
                None => self.second_round.take(),
            };
            if covered.is_none() {
                return Some(block);
            }
        }
    }
}

impl std::iter::FusedIterator for Walk<'_> {}

/// The 32-bit FNV-1 hash: it multiplies before it mixes, unlike FNV-1a.
fn fnv1(bytes: &[u8]) -> u32 {
    bytes.iter().fold(2_166_136_261, |hash: u32, &byte| hash.wrapping_mul(16_777_619) ^ u32::from(byte))
}

#[cfg(test)]
mod tests;
