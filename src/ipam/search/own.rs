//! The host's own blocks: those with room, and claims that were begun and not finished.

use super::{Area, Found, Search, free_in, is_damage};
use crate::api::Affinity;
use crate::api::calico::{AffinityState, BlockAffinity};
use crate::datastore::{self, Datastore, Entry, Key, Revision, RoomOf, Want};
use crate::ipam::ledger::Ledger;
use crate::ipam::{Block, Error, pools};
use crate::net::Cidr;

/// How many blocks with room are asked for at first: nearly always the first has an address.
const ROOM_FIRST: usize = 16;
/// How many empty blocks of pools that no longer select the host one request gives up.
const LEFT_MAX: usize = 8;

/// The blocks of a host.
#[derive(Default)]
pub(super) struct Owned {
    /// How many it has of the family.
    pub(super) of_family: usize,
    /// Those in the pools that may serve, with their records.
    pub(super) in_areas: Vec<(Cidr, Revision, BlockAffinity)>,
    /// Others, of whatever family.
    elsewhere: Vec<(Cidr, Revision, AffinityState)>,
}

/// What stands where a block was claimed.
enum Space {
    /// Nothing: the block can be made.
    Free,
    /// The block, after all.
    Itself,
    /// Something else, or no pool: the claim is void.
    Taken,
}

impl<D: Datastore> Search<'_, D> {
    /// The host's blocks of which the store believes that they have room.
    pub(super) async fn own_with_room(
        &mut self,
        areas: &[Area],
        me: &Affinity,
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        let mut seen = Vec::new();
        for enough in [ROOM_FIRST, usize::MAX] {
            let candidates = self.room(RoomOf::Owner(me.clone()), areas, enough).await?;
            for cidr in &candidates {
                if seen.contains(cidr) {
                    continue;
                }
                seen.push(*cidr);
                if let Some(found) = self.own(*cidr, me, areas, damaged).await? {
                    return Ok(Some(found));
                }
                self.correct_room(*cidr);
            }
            if candidates.len() < enough {
                break;
            }
        }
        Ok(None)
    }

    /// As [`Search::usable`], for a block that may be the host's own: nothing is given from it behind a record that
    /// others take for no claim. Where a batch may stop half-way, or other writers share the store, such records occur.
    pub(super) async fn own(
        &mut self,
        cidr: Cidr,
        me: &Affinity,
        areas: &[Area],
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        if self.store.is_exclusive() {
            return self.usable(cidr, areas, damaged).await;
        }
        let wants = [Want::Object(Key::Block(cidr)), Want::Object(Key::Affinity(me.clone(), cidr))];
        let mut answers = self.store.read(&wants).await?.into_iter().map(datastore::Answer::object);
        let (block, record) = (answers.next().flatten(), answers.next().flatten());
        match self.take_in(cidr, block) {
            Ok(()) => {}
            Err(error) if is_damage(&error) => {
                damaged.get_or_insert(error);
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let Some(block) = self.draft.block(cidr) else {
            return Ok(None);
        };
        let is_mine = block.affinity() == Some(me);
        let found = free_in(block, areas);
        if found.is_some() && is_mine {
            self.confirm_if_needed(me, cidr, record);
        }
        Ok(found)
    }

    /// Confirms the record of a block of the host's own that is about to be used, where one may be left unconfirmed.
    pub(super) async fn confirm_own(&mut self, me: &Affinity, cidr: Cidr) -> Result<(), Error> {
        if !self.store.is_exclusive() {
            let record = self.object(Key::Affinity(me.clone(), cidr)).await?;
            self.confirm_if_needed(me, cidr, record);
        }
        Ok(())
    }

    pub(super) fn confirm_if_needed(&mut self, me: &Affinity, cidr: Cidr, record: Option<Entry>) {
        let record: Option<(Revision, BlockAffinity)> = record.map(|entry| (entry.revision, entry.into()));
        if record.as_ref().is_none_or(|(_, record)| record.state != AffinityState::Confirmed) {
            self.draft.confirm(me, cidr, record);
        }
    }

    pub(super) async fn affinities(&mut self, me: &Affinity, areas: &[Area]) -> Result<Owned, Error> {
        let entries = self.store.read(&[Want::Affinities(me.clone())]).await?.pop();
        let family = areas.first().map(|area| area.pool.cidr.family());
        let mut owned = Owned::default();
        let mut recorded = Vec::new();
        for entry in entries.map(datastore::Answer::objects).unwrap_or_default() {
            let Key::Affinity(_, cidr) = entry.key else {
                continue;
            };
            owned.of_family += usize::from(Some(cidr.family()) == family);
            recorded.push(cidr);
            if areas.iter().any(|area| area.pool.cidr.contains(cidr)) {
                owned.in_areas.push((cidr, entry.revision, entry.into()));
            } else {
                let revision = entry.revision;
                owned.elsewhere.push((cidr, revision, entry.into::<BlockAffinity>().state));
            }
        }
        // Those that an earlier wanted address of the same request claims.
        let claimed = self.draft.blocks().filter(|block| block.affinity() == Some(me)).map(Block::cidr);
        let claimed = claimed.filter(|cidr| Some(cidr.family()) == family && !recorded.contains(cidr));
        owned.of_family += claimed.count();
        Ok(owned)
    }

    /// Claims that a process of this host began and did not finish, or gave up half-way: finished now, or undone.
    /// Those that are undone no longer count towards the limit.
    pub(super) async fn unfinished(
        &mut self,
        areas: &[Area],
        owned: &mut Owned,
        me: &Affinity,
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        let may_create = self.policy.config.auto_allocate_blocks && owned.of_family <= self.limit();
        let unfinished =
            owned.in_areas.iter().filter(|(_, _, record)| record.state != AffinityState::Confirmed);
        for (cidr, revision, record) in unfinished {
            let keeper = match self.load(*cidr).await {
                Ok(block) => block.map(|block| block.affinity().cloned()),
                Err(error) if is_damage(&error) => {
                    damaged.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match keeper {
                Some(Some(keeper)) if keeper == *me => {
                    self.draft.confirm(me, *cidr, Some((*revision, record.clone())));
                    let found = self.draft.block(*cidr).and_then(|block| free_in(block, areas));
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                None => match self.room_for_claimed(areas, *cidr).await? {
                    Space::Free if may_create => {
                        let block = self.made(*cidr, Some(me));
                        let Some(found) = free_in(&block, areas) else {
                            continue;
                        };
                        self.create(block);
                        self.draft.confirm(me, *cidr, Some((*revision, record.clone())));
                        return Ok(Some(found));
                    }
                    // It may have come into being just now.
                    Space::Free | Space::Itself => {}
                    Space::Taken => {
                        self.draft.drop_affinity(me, *cidr, *revision);
                        owned.of_family -= 1;
                    }
                },
                Some(_) => {
                    self.draft.drop_affinity(me, *cidr, *revision);
                    owned.of_family -= 1;
                }
            }
        }
        Ok(None)
    }

    /// What stands where a block was claimed that was not found.
    async fn room_for_claimed(&mut self, areas: &[Area], cidr: Cidr) -> Result<Space, Error> {
        let fits = |area: &Area| area.pool.cidr.contains(cidr) && area.pool.block_prefix == cidr.prefix();
        let pool =
            areas.iter().find(|area| area.pool.cidr.contains(cidr)).map_or(cidr, |area| area.pool.cidr);
        let stored = Ledger::of(self.store, pool, cidr).await?;
        self.draft.lies_in(stored.enclosing());
        let drafted = self.draft.blocks().any(|block| block.cidr().overlaps(cidr));
        Ok(match stored.extents() {
            [] if !drafted && areas.iter().any(fits) => Space::Free,
            [one] if *one == cidr && stored.carved().is_empty() => Space::Itself,
            _ => Space::Taken,
        })
    }

    /// Gives up empty blocks of pools that no longer select the host; another host has use for them. A pool that this
    /// request merely leaves out keeps its blocks here. Claims of blocks in a pool that is gone are undone.
    pub(super) async fn leave_other_pools(&mut self, owned: &Owned, me: &Affinity) -> Result<(), Error> {
        let policy = self.policy;
        let is_left = |cidr: Cidr, state: AffinityState| match policy.pool_of(cidr) {
            Some(pool) => pools::is_enabled(pool) && !pools::selects_host(pool, &policy.labels),
            None => state != AffinityState::Confirmed,
        };
        let left: Vec<_> = owned.elsewhere.iter().filter(|(cidr, _, state)| is_left(*cidr, *state)).collect();
        for &&(cidr, revision, state) in left.iter().take(LEFT_MAX) {
            let block = match self.load(cidr).await {
                Ok(block) => block,
                Err(error) if is_damage(&error) => continue,
                Err(error) => return Err(error),
            };
            match block.filter(|block| block.affinity() == Some(me)).map(|block| block.is_empty()) {
                Some(true) => {
                    self.draft.delete_block(cidr);
                    self.draft.drop_affinity(me, cidr, revision);
                }
                None if state != AffinityState::Confirmed => self.draft.drop_affinity(me, cidr, revision),
                Some(false) | None => {}
            }
        }
        Ok(())
    }
}
