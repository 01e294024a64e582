//! Addresses of attachments that are proved dead: taken back where nothing else is free.

use std::net::IpAddr;
use std::time::Duration;

use super::own::Owned;
use super::{Area, Found, Search, free_in};
use crate::api::HandleId;
use crate::api::calico::IpamHandle;
use crate::datastore::{self, BATCH_MAX, Datastore, Key, Want};
use crate::ipam::block::Ordinal;
use crate::ipam::liveness::Death;
use crate::ipam::policy::Policy;
use crate::ipam::{Error, owner};
use crate::net::Cidr;

/// Stale addresses that one commit takes back; a bound, since each may change a handle of its own.
const DEAD_MAX: usize = 64;
/// Operations of a batch that are left for what else one request may change.
const NOT_OF_THE_DEAD: usize = 24;

impl<D: Datastore> Search<'_, D> {
    /// Looks at every block itself, in a store of this kernel alone, and takes back the addresses of attachments that are
    /// proved dead. Where other machines share the store, `ipam check` lists them.
    pub(super) async fn dead_taken_back(
        &mut self,
        areas: &[Area],
        owned: &Owned,
        own_only: bool,
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        if !self.store.is_one_kernel() {
            return Ok(None);
        }
        let mut candidates: Vec<Cidr> = owned.in_areas.iter().map(|(cidr, ..)| *cidr).collect();
        if !own_only {
            for area in areas {
                let blocks = self.store.read(&[Want::BlockCidrs(area.pool.cidr)]).await?.pop();
                candidates.extend(blocks.map(datastore::Answer::cidrs).unwrap_or_default());
            }
        }
        for cidr in candidates {
            // Nothing of it was usable so far, as far as the store knew.
            if let Some(found) = self.usable(cidr, areas, damaged).await? {
                return Ok(Some(found));
            }
            if self.release_dead(cidr).await?
                && let Some(found) = self.draft.block(cidr).and_then(|block| free_in(block, areas))
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn release_dead(&mut self, cidr: Cidr) -> Result<bool, Error> {
        let judge = self.judge;
        let most = DEAD_MAX.min(BATCH_MAX.saturating_sub(self.draft.len() + NOT_OF_THE_DEAD));
        let Some(block) = self.draft.block(cidr) else {
            return Ok(false);
        };
        let dead: Vec<(Ordinal, HandleId, Death)> = block
            .allocations()
            .filter_map(|allocation| {
                let handle = HandleId::new(owner::sanitised(allocation.fields.handle_id.as_deref()?)).ok()?;
                Some((allocation.ordinal, handle, judge.death(&allocation.fields)?))
            })
            .take(most)
            .collect();
        let policy = self.policy;
        for (ordinal, _, death) in &dead {
            block.release(*ordinal, cooldown_after(policy, *death), policy.now);
        }
        for (_, handle, _) in &dead {
            self.recount(handle, cidr).await?;
        }
        Ok(!dead.is_empty())
    }

    async fn recount(&mut self, handle: &HandleId, cidr: Cidr) -> Result<(), Error> {
        if !self.draft.knows_handle(handle) {
            let stored = self.object(Key::Handle(handle.clone())).await?;
            self.draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
        }
        let count = self.draft.block(cidr).map_or(0, |block| block.held_by(handle).count());
        self.draft.set_count(handle, cidr, u32::try_from(count).unwrap_or(u32::MAX));
        Ok(())
    }

    /// A holder that is proved dead does not keep an address from whoever asks for it.
    pub(super) async fn displace_dead(&mut self, cidr: Cidr, address: IpAddr) -> Result<(), Error> {
        if !self.store.is_one_kernel() {
            return Ok(());
        }
        let judge = self.judge;
        let Some(block) = self.draft.block(cidr) else {
            return Ok(());
        };
        let Some(allocation) = block.holder(address) else {
            return Ok(());
        };
        let Some(death) = judge.death(&allocation.fields) else { return Ok(()) };
        let handle =
            allocation.fields.handle_id.as_deref().and_then(|id| HandleId::new(owner::sanitised(id)).ok());
        let ordinal = allocation.ordinal;
        block.release(ordinal, cooldown_after(self.policy, death), self.policy.now);
        match handle {
            Some(handle) => self.recount(&handle, cidr).await,
            None => Ok(()),
        }
    }
}

/// The time for which an address waits: none after a reboot, which no packet survives.
fn cooldown_after(policy: &Policy, death: Death) -> Duration {
    match death {
        Death::WithItsBoot => Duration::ZERO,
        Death::InThisBoot => policy.config.cooldown,
    }
}
