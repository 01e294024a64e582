//! What is carved out of pools. The one place that decides whether a CIDR is free.
//!
//! Extents of a pool never overlap, whatever made them: a host's block, an `IPAllocation`, a claim, a child pool. Blocks
//! stand for themselves; for anything else there is a record under its range. Whoever carves reads the ledger, chooses,
//! and commits with a guard on what the ledger said, so that two choices of one range cannot both be made, though their
//! keys differ.

use super::Error;
use crate::datastore::{Answer, Carved, CarvedFor, Datastore, Guard, Key, Want};
use crate::net::{AddrSet, Cidr};

/// The extents that overlap a network.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    network: Option<Cidr>,
    /// Blocks first.
    seen: Vec<Cidr>,
    blocks: usize,
    /// The pool itself, where it is a child, and its parents that are.
    enclosing: Vec<Cidr>,
    taken: AddrSet,
}

impl Ledger {
    /// Reads what is carved out of a network of a pool. What the pool itself was carved out of its parents as is around
    /// it, and in nobody's way.
    pub(super) async fn of<D: Datastore>(store: &mut D, pool: Cidr, network: Cidr) -> Result<Self, Error> {
        let mut ledger = Self { network: Some(network), ..Self::default() };
        let wants = [Want::BlockCidrs(network), Want::CarvedCidrs(network)];
        let mut answers = store.read(&wants).await?.into_iter().map(Answer::cidrs);
        ledger.seen = answers.next().unwrap_or_default();
        ledger.blocks = ledger.seen.len();
        let carved = answers.next().unwrap_or_default();
        let is_whole = carved.contains(&pool) && !is_a_pool(store, pool).await?;
        let (enclosing, inside) =
            carved.into_iter().partition(|cidr| cidr.contains(pool) && !(is_whole && *cidr == pool));
        ledger.enclosing = enclosing;
        ledger.seen.extend::<Vec<Cidr>>(inside);
        for cidr in &ledger.seen {
            ledger.taken.insert_cidr(*cidr);
        }
        Ok(ledger)
    }

    /// Counts a network as taken that is not stored yet.
    pub(super) fn take(&mut self, cidr: Cidr) {
        self.taken.insert_cidr(cidr);
    }

    /// Whether nothing carved out overlaps a network, of whatever size.
    pub(super) fn is_free(&self, cidr: Cidr) -> bool {
        !self.taken.overlaps(cidr)
    }

    /// All that is taken.
    pub(super) const fn taken(&self) -> &AddrSet {
        &self.taken
    }

    /// The extents that were read.
    pub(super) fn extents(&self) -> &[Cidr] {
        &self.seen
    }

    /// What the pool and its parents were carved out as.
    pub(super) fn enclosing(&self) -> &[Cidr] {
        &self.enclosing
    }

    /// Those of them that are blocks.
    pub(super) fn blocks(&self) -> &[Cidr] {
        self.seen.get(..self.blocks).unwrap_or_default()
    }

    /// Those of them that are not blocks.
    pub(super) fn carved(&self) -> &[Cidr] {
        self.seen.get(self.blocks..).unwrap_or_default()
    }

    /// That nothing was carved out of the network since.
    pub(super) fn guard(&self) -> Option<Guard> {
        let seen = self.seen.iter().chain(&self.enclosing).copied().collect();
        self.network.map(|network| Guard::NothingNewIn(network, seen))
    }
}

/// Whether a network is carved out as a child pool. Otherwise it may be all of a pool that somebody has.
async fn is_a_pool<D: Datastore>(store: &mut D, network: Cidr) -> Result<bool, Error> {
    let read = store.read(&[Want::Object(Key::Carved(network))]).await?.pop();
    let owner = read.and_then(Answer::object).map(|entry| entry.into::<Carved>().owner);
    Ok(matches!(owner, Some(CarvedFor::ChildPool(_))))
}
