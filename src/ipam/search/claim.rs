//! New blocks for a host: those that do not exist yet, and those that others have left empty.

use std::time::Duration;

use super::{Area, Found, Search, free_in};
use crate::api::Affinity;
use crate::datastore::{Datastore, Key, RoomOf};
use crate::ipam::ledger::Ledger;
use crate::ipam::walk::Walk;
use crate::ipam::{Block, Error, owner};
use crate::net::Cidr;

/// How long a block is its host's before another host may take it over empty. Source: the reference engine.
const RECLAIM_AGE_MIN: Duration = Duration::from_secs(60);

impl<D: Datastore> Search<'_, D> {
    /// A block that does not exist yet, in the first pool that has space for one.
    pub(super) async fn new_block(
        &mut self,
        areas: &[Area],
        owner: Option<&Affinity>,
    ) -> Result<Option<Found>, Error> {
        for area in areas {
            let mut ledger = self.ledger(area.pool.cidr, area.pool.cidr).await?;
            loop {
                let mut passed = area.unusable.clone();
                passed.extend(ledger.taken());
                let host = self.policy.host.as_str();
                let mut walk = Walk::new(host, area.pool.cidr, area.pool.block_prefix, &passed);
                let Some(cidr) = walk.find(|cidr| ledger.is_free(*cidr)) else {
                    break;
                };
                let block = self.made(cidr, owner);
                let Some(found) = free_in(&block, std::slice::from_ref(area)) else {
                    // The host's own interfaces have all of it.
                    ledger.take(cidr);
                    continue;
                };
                if let Some(owner) = owner {
                    let stale = self.object(Key::Affinity(owner.clone(), cidr)).await?;
                    self.draft.confirm(owner, cidr, stale.map(|entry| (entry.revision, entry.into())));
                }
                self.create(block);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Drafts a new block, for as long as its pool stands as it was read: one that is deleted or switched off meanwhile
    /// gets none.
    pub(super) fn create(&mut self, block: Block) {
        if let Some(pool) = self.policy.pool_of(block.cidr()) {
            let (key, revision) = self.policy.stored_pool(pool);
            self.draft.rest_on(key, revision);
        }
        self.draft.create_block(block);
    }

    /// A new block, with the addresses of the host's own interfaces kept back.
    pub(super) fn made(&self, cidr: Cidr, owner: Option<&Affinity>) -> Block {
        let policy = self.policy;
        let mut block = Block::new(cidr, owner.cloned(), policy.now, policy.sequence_floor);
        self.keep_own_addresses(&mut block);
        block
    }

    pub(super) fn keep_own_addresses(&self, block: &mut Block) {
        let attribute = owner::host_address(&self.policy.host);
        for address in self.request.own_addresses.within(block.cidr()) {
            block.keep_back(address, &attribute);
        }
    }

    /// An empty block of another host that has had it for a while, or of nobody: it changes hands.
    pub(super) async fn abandoned(
        &mut self,
        areas: &[Area],
        me: &Affinity,
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        for cidr in self.room(RoomOf::AllBut(me.clone()), areas, usize::MAX).await? {
            if self.usable(cidr, areas, damaged).await?.is_none() {
                continue;
            }
            let now = self.policy.now;
            let Some(block) = self.draft.block(cidr) else {
                continue;
            };
            let old = block.affinity().cloned();
            let settled = block.claimed().is_none_or(|claimed| now.since(claimed) >= RECLAIM_AGE_MIN);
            if !block.is_empty() || old.as_ref() == Some(me) || (old.is_some() && !settled) {
                continue;
            }
            let mut taken = block.clone();
            taken.set_affinity(Some(me.clone()), now);
            self.keep_own_addresses(&mut taken);
            // The host's own interfaces may have all that is free in it.
            let Some(found) = free_in(&taken, areas) else {
                continue;
            };
            if let Some(block) = self.draft.block(cidr) {
                *block = taken;
            }
            if let Some(old) = old
                && let Some(entry) = self.object(Key::Affinity(old.clone(), cidr)).await?
            {
                self.draft.drop_affinity(&old, cidr, entry.revision);
            }
            let stale = self.object(Key::Affinity(me.clone(), cidr)).await?;
            self.draft.confirm(me, cidr, stale.map(|entry| (entry.revision, entry.into())));
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// What is carved out of a network: what the store has, and the blocks that are drafted.
    pub(super) async fn ledger(&mut self, pool: Cidr, network: Cidr) -> Result<Ledger, Error> {
        let mut ledger = Ledger::of(self.store, pool, network).await?;
        self.draft.lies_in(ledger.enclosing());
        for block in self.draft.blocks() {
            ledger.take(block.cidr());
        }
        Ok(ledger)
    }
}
