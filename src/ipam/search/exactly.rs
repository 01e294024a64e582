//! One address that was asked for.

use std::net::IpAddr;

use super::{Area, Found, Search};
use crate::api::Affinity;
use crate::datastore::{Carved, Datastore, Key};
use crate::ipam::assign::Wanted;
use crate::ipam::config::AffinityRule;
use crate::ipam::error::Limit;
use crate::ipam::{Error, ImportSource, refusal};
use crate::net::Cidr;

impl<D: Datastore> Search<'_, D> {
    /// One address that was asked for. Reservations do not bind it, save those of a subnet's own addresses.
    pub(super) async fn exactly(
        &mut self,
        areas: &[Area],
        wanted: &Wanted,
        address: IpAddr,
    ) -> Result<Found, Error> {
        let inside = |area: &&Area| area.pool.cidr.contains_address(address);
        let in_ranges = wanted.usable.as_ref().is_none_or(|usable| usable.contains(address));
        let Some(area) = areas.iter().find(inside).filter(|_| in_ranges) else {
            let pools = areas.iter().map(|area| (area.pool.name.clone(), area.pool.cidr)).collect();
            return Err(Error::OutsidePools { address, pools });
        };
        if let Some(reservation) = refusal::subnet_reservation(self.policy, address) {
            return Err(Error::KeptBack { address, reservation });
        }
        if self.policy.avoid.contains(address) {
            let directory = self.request.import.map(ImportSource::directory).unwrap_or_default();
            return Err(Error::OnRecord { address, directory });
        }
        let cidr =
            area.pool.block_of(address).ok_or_else(|| Error::OutsidePools { address, pools: Vec::new() })?;
        let strict = self.policy.config.affinity_rule == AffinityRule::Strict;
        let me = self.policy.affinity();
        if self.load(cidr).await?.is_none() {
            return self.exactly_in_a_new_block(areas, cidr, address, &me, strict).await;
        }
        self.displace_dead(cidr, address).await?;
        let is_mine = self.draft.block(cidr).is_some_and(|block| block.affinity() == Some(&me));
        if is_mine {
            self.confirm_own(&me, cidr).await?;
        }
        let cooldown = self.policy.config.cooldown;
        let Some(block) = self.draft.block(cidr) else { unreachable!("the block was just taken in") };
        if strict && !is_mine {
            return Err(Error::StrictAffinity { address, block: cidr, owner: block.affinity().cloned() });
        }
        match (block.free_ordinal(address), block.holder(address)) {
            (Some(ordinal), _) => Ok((cidr, ordinal)),
            (None, Some(holder)) if holder.fields.released_at.is_some() => {
                Err(Error::Cooling { address, seconds: cooldown.as_secs() })
            }
            (None, holder) => {
                let holder = holder.map(|allocation| refusal::holder(&allocation.fields)).unwrap_or_default();
                Err(Error::Taken { address, holder: Box::new(holder) })
            }
        }
    }

    async fn carved_out(&mut self, address: IpAddr, block: Cidr, carved: Cidr) -> Result<Error, Error> {
        let entry = self.object(Key::Carved(carved)).await?;
        Ok(match entry.map(|entry| entry.into::<Carved>().owner) {
            Some(owner) => Error::CarvedOut { address, block, carved, by: Box::new(owner) },
            // It was given back since.
            None => Error::Contended { attempts: 1, applied: 0 },
        })
    }

    async fn exactly_in_a_new_block(
        &mut self,
        areas: &[Area],
        cidr: Cidr,
        address: IpAddr,
        me: &Affinity,
        strict: bool,
    ) -> Result<Found, Error> {
        let no_block = |limit| Err(Error::NoNewBlock { address, block: cidr, limit });
        let config = &self.policy.config;
        if !config.auto_allocate_blocks {
            return no_block(Limit::AutoAllocateOff);
        }
        let pool =
            areas.iter().find(|area| area.pool.cidr.contains(cidr)).map_or(cidr, |area| area.pool.cidr);
        let ledger = self.ledger(pool, cidr).await?;
        if let Some(carved) = ledger.carved().iter().copied().find(|carved| carved.overlaps(cidr)) {
            return Err(self.carved_out(address, cidr, carved).await?);
        }
        if !ledger.is_free(cidr) {
            let pools = areas.iter().map(|area| (area.pool.name.clone(), area.pool.cidr)).collect();
            return Err(Error::OutsidePools { address, pools });
        }
        let owned = self.affinities(me, areas).await?;
        let claims = owned.of_family < self.limit();
        if !claims && strict {
            return no_block(Limit::MaxBlocks { has: owned.of_family, max: config.max_blocks_per_host });
        }
        let kept_for = claims.then_some(me);
        let block = self.made(cidr, kept_for);
        let Some(ordinal) = block.free_ordinal(address) else {
            let holder = block.holder(address).map(|a| refusal::holder(&a.fields)).unwrap_or_default();
            return Err(Error::Taken { address, holder: Box::new(holder) });
        };
        if let Some(me) = kept_for {
            let stale = self.object(Key::Affinity(me.clone(), cidr)).await?;
            self.draft.confirm(me, cidr, stale.map(|entry| (entry.revision, entry.into())));
        }
        self.create(block);
        Ok((cidr, ordinal))
    }
}
