//! Where an address comes from: the search through blocks, in the promised order.

mod borrow;
mod claim;
mod dead;
mod exactly;
mod own;

use super::assign::{Assign, Wanted, checked};
use super::block::Ordinal;
use super::config::AffinityRule;
use super::draft::Draft;
use super::error::Limit;
use super::policy::Policy;
use super::pools::{Ineligible, Pool};
use super::{Block, Error, Judge, refusal};
use crate::api::Affinity;
use crate::datastore::{self, Datastore, Entry, Key, RoomOf, Want};
use crate::net::{AddrSet, Cidr, Family};

/// The search for one attempt.
pub(super) struct Search<'a, D> {
    pub(super) store: &'a mut D,
    pub(super) policy: &'a Policy,
    pub(super) draft: &'a mut Draft,
    pub(super) request: &'a Assign<'a>,
    pub(super) judge: Judge<'a>,
}

/// A pool that may serve, and what of it may not be handed out.
pub(super) struct Area {
    pub(super) pool: Pool,
    pub(super) unusable: AddrSet,
}

/// A block taken into the draft, and a free address of it.
type Found = (Cidr, Ordinal);

impl<D: Datastore> Search<'_, D> {
    /// Finds an address and takes its block into the draft; assigning it is the caller's.
    pub(super) async fn find(&mut self, wanted: &Wanted) -> Result<Found, Error> {
        let choice = self.policy.choose(wanted.family, &wanted.choice)?;
        if choice.allowed.is_empty() {
            return Err(refusal::no_usable_pool(self.policy, wanted, &choice.refused));
        }
        let area =
            |pool: Pool| Area { unusable: self.policy.unusable_in(&pool, wanted.usable.as_ref()), pool };
        let areas: Vec<Area> = choice.allowed.into_iter().map(area).collect();
        match wanted.address {
            Some(address) => self.exactly(&areas, wanted, address).await,
            None => self.any(&areas, wanted, &choice.refused).await,
        }
    }

    async fn any(
        &mut self,
        areas: &[Area],
        wanted: &Wanted,
        refused: &[(Pool, Ineligible)],
    ) -> Result<Found, Error> {
        let me = self.policy.affinity();
        let mut damaged = None;
        if let Some(found) = self.drafted(areas, |block| block.affinity() == Some(&me)) {
            return Ok(found);
        }
        if let Some(found) = self.own_with_room(areas, &me, &mut damaged).await? {
            return Ok(found);
        }
        let strict = self.policy.config.affinity_rule == AffinityRule::Strict;
        if !strict
            && self.is_at_the_limit(&me, wanted.family).await?
            && let Some(found) = self.nobodys(areas, &mut damaged).await?
        {
            return Ok(found);
        }
        let mut owned = self.affinities(&me, areas).await?;
        if let Some(found) = self.unfinished(areas, &mut owned, &me, &mut damaged).await? {
            return Ok(found);
        }
        self.leave_other_pools(&owned, &me).await?;
        let may_claim = self.policy.config.auto_allocate_blocks;
        let below_limit = owned.of_family < self.limit();
        if may_claim && below_limit {
            if let Some(found) = self.new_block(areas, Some(&me)).await? {
                return Ok(found);
            }
            if let Some(found) = self.abandoned(areas, &me, &mut damaged).await? {
                return Ok(found);
            }
        }
        // Nothing so far rests on more than hints: now the host's blocks themselves are looked at.
        for cidr in owned.in_areas.iter().map(|(cidr, ..)| *cidr) {
            if let Some(found) = self.own(cidr, &me, areas, &mut damaged).await? {
                return Ok(found);
            }
        }
        if !strict {
            // A block of nobody that is made by this very request is in no list yet.
            if let Some(found) = self.drafted(areas, Block::is_new) {
                return Ok(found);
            }
            if let Some(found) = self.borrowed(areas, &me, &mut damaged).await? {
                return Ok(found);
            }
            if may_claim && let Some(found) = self.new_block(areas, None).await? {
                return Ok(found);
            }
        }
        if let Some(found) = self.dead_taken_back(areas, &owned, strict, &mut damaged).await? {
            return Ok(found);
        }
        if let Some(damaged) = damaged {
            return Err(damaged);
        }
        let limit = match (may_claim, strict, below_limit) {
            (true, true, false) => {
                Some(Limit::MaxBlocks { has: owned.of_family, max: self.policy.config.max_blocks_per_host })
            }
            (false, ..) => Some(Limit::AutoAllocateOff),
            (true, true, true) => Some(Limit::Strict),
            (true, false, _) => None,
        };
        Err(refusal::exhausted(self, areas, wanted, limit, refused).await?)
    }

    /// Whether the host has as many blocks as it may. Looks at names only, which tell where no claim is ever half-way.
    async fn is_at_the_limit(&mut self, me: &Affinity, family: Family) -> Result<bool, Error> {
        if !self.store.is_atomic() {
            return Ok(false);
        }
        let cidrs =
            self.store.read(&[Want::AffinityCidrs(me.clone())]).await?.pop().map(datastore::Answer::cidrs);
        let of_family = cidrs.unwrap_or_default().iter().filter(|cidr| cidr.family() == family).count();
        Ok(of_family >= self.limit())
    }

    fn limit(&self) -> usize {
        usize::try_from(self.policy.config.max_blocks_per_host).unwrap_or(usize::MAX)
    }

    /// A block that an earlier wanted address of the same request took in.
    fn drafted(&self, areas: &[Area], meant: impl Fn(&Block) -> bool) -> Option<Found> {
        let mut blocks = self.draft.blocks().filter(|block| block.is_changed() && meant(block));
        blocks.find_map(|block| free_in(block, areas))
    }

    /// Tells the store of a block that it wrongly believed to have room.
    fn correct_room(&mut self, cidr: Cidr) {
        let Some(block) = self.draft.block(cidr) else {
            return;
        };
        if !block.may_have_room(&self.policy.reserved) && !block.is_changed() {
            let block = block.clone();
            self.draft.note_room(&block, false);
        }
    }

    async fn room(&mut self, of: RoomOf, areas: &[Area], enough: usize) -> Result<Vec<Cidr>, Error> {
        let within = areas.iter().map(|area| area.pool.cidr).collect();
        let answer = self.store.read(&[Want::Room { of, within, enough }]).await?.pop();
        Ok(answer.map(datastore::Answer::cidrs).unwrap_or_default())
    }

    /// Takes a block in and says which of its addresses is next, if one is. A damaged block is noted and passed over.
    async fn usable(
        &mut self,
        cidr: Cidr,
        areas: &[Area],
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        match self.load(cidr).await {
            Ok(block) => Ok(block.and_then(|block| free_in(block, areas))),
            Err(error) if is_damage(&error) => {
                damaged.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a block into the draft. `None`: it does not exist.
    pub(super) async fn load(&mut self, cidr: Cidr) -> Result<Option<&mut Block>, Error> {
        if self.draft.block(cidr).is_none() {
            let entry = self.object(Key::Block(cidr)).await?;
            self.take_in(cidr, entry)?;
        }
        Ok(self.draft.block(cidr))
    }

    /// Takes a block that was read into the draft, unless it is there already.
    fn take_in(&mut self, cidr: Cidr, entry: Option<Entry>) -> Result<(), Error> {
        if let Some(entry) = entry.filter(|_| self.draft.block(cidr).is_none()) {
            let (revision, block) = checked(entry, self.policy)?;
            self.draft.load_block(revision, block);
        }
        Ok(())
    }

    async fn object(&mut self, key: Key) -> Result<Option<Entry>, Error> {
        Ok(self.store.read(&[Want::Object(key)]).await?.pop().and_then(datastore::Answer::object))
    }
}
/// The next free address of a block in the pool that it lies in.
fn free_in(block: &Block, areas: &[Area]) -> Option<Found> {
    let area = areas.iter().find(|area| area.pool.cidr.contains(block.cidr()))?;
    block.next_free(&area.unusable).map(|ordinal| (block.cidr(), ordinal))
}

pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::DamagedBlock { .. } | Error::Datastore(datastore::Error::Damaged { .. }))
}
