//! Where an address comes from: the search through blocks, in the promised order.

mod dead;
mod exactly;

use std::time::Duration;

use super::assign::{Assign, Wanted, checked};
use super::block::Ordinal;
use super::config::AffinityRule;
use super::draft::Draft;
use super::error::Limit;
use super::policy::Policy;
use super::pools::Pool;
use super::walk::Walk;
use super::{Block, Error, owner, refusal, walk};
use crate::api::Affinity;
use crate::api::calico::{AffinityState, BlockAffinity};
use crate::datastore::{self, Datastore, Entry, Key, Revision, RoomOf, Want};
use crate::net::{AddrSet, Cidr, Family};

/// How long a block is its host's before another host may take it over empty. Source: the reference engine.
const RECLAIM_AGE_MIN: Duration = Duration::from_secs(60);
/// How many blocks with room are asked for at first: nearly always the first has an address.
const ROOM_FIRST: usize = 16;

/// The search for one attempt.
pub(super) struct Search<'a, D> {
    pub(super) store: &'a mut D,
    pub(super) policy: &'a Policy,
    pub(super) draft: &'a mut Draft,
    pub(super) request: &'a Assign<'a>,
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
            return Err(refusal::no_usable_pool(self.policy, wanted, choice.refused));
        }
        let area =
            |pool: Pool| Area { unusable: self.policy.unusable_in(&pool, wanted.usable.as_ref()), pool };
        let areas: Vec<Area> = choice.allowed.into_iter().map(area).collect();
        match wanted.address {
            Some(address) => self.exactly(&areas, wanted, address).await,
            None => self.any(&areas, wanted).await,
        }
    }

    async fn any(&mut self, areas: &[Area], wanted: &Wanted) -> Result<Found, Error> {
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
        if let Some(found) = self.left_by_an_earlier_boot(areas, &owned, strict, &mut damaged).await? {
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
        Err(refusal::exhausted(self, areas, wanted, limit).await?)
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

    /// A block of nobody's that has room. Such a block is a host's own in all but name: using it takes nothing from
    /// others, so it needs no second look at the host's blocks, and a host beyond its limit is served as fast as below.
    async fn nobodys(&mut self, areas: &[Area], damaged: &mut Option<Error>) -> Result<Option<Found>, Error> {
        for cidr in self.room(RoomOf::Nobody, areas, ROOM_FIRST).await? {
            if let Some(found) = self.usable(cidr, areas, damaged).await? {
                return Ok(Some(found));
            }
            self.correct_room(cidr);
        }
        Ok(None)
    }

    fn limit(&self) -> usize {
        usize::try_from(self.policy.config.max_blocks_per_host).unwrap_or(usize::MAX)
    }

    /// A block that an earlier wanted address of the same request took in.
    fn drafted(&self, areas: &[Area], meant: impl Fn(&Block) -> bool) -> Option<Found> {
        let mut blocks = self.draft.blocks().filter(|block| block.is_changed() && meant(block));
        blocks.find_map(|block| free_in(block, areas))
    }

    /// The host's blocks of which the store believes that they have room.
    async fn own_with_room(
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

    /// As [`Search::usable`], for a block that may be the host's own: nothing is given from it behind a record that
    /// others take for no claim. Where a batch may stop half-way, or other writers share the store, such records occur.
    async fn own(
        &mut self,
        cidr: Cidr,
        me: &Affinity,
        areas: &[Area],
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        if self.store.is_atomic() && self.store.is_one_machine() {
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

    fn confirm_if_needed(&mut self, me: &Affinity, cidr: Cidr, record: Option<Entry>) {
        let record: Option<(Revision, BlockAffinity)> = record.map(|entry| (entry.revision, entry.into()));
        if record.as_ref().is_none_or(|(_, record)| record.state != AffinityState::Confirmed) {
            self.draft.confirm(me, cidr, record);
        }
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

    async fn affinities(&mut self, me: &Affinity, areas: &[Area]) -> Result<Owned, Error> {
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
    async fn unfinished(
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
                        self.draft.create_block(block);
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
        let stored = self.store.read(&[Want::BlockCidrs(cidr)]).await?.pop();
        let stored = stored.map(datastore::Answer::cidrs).unwrap_or_default();
        let drafted = self.draft.blocks().any(|block| block.cidr().overlaps(cidr));
        Ok(match stored.as_slice() {
            [] if !drafted && areas.iter().any(fits) => Space::Free,
            [one] if *one == cidr => Space::Itself,
            _ => Space::Taken,
        })
    }

    /// A block that does not exist yet, in the first pool that has space for one.
    async fn new_block(&mut self, areas: &[Area], owner: Option<&Affinity>) -> Result<Option<Found>, Error> {
        for area in areas {
            let mut ledger = self.ledger(area.pool.cidr).await?;
            loop {
                let mut passed = area.unusable.clone();
                passed.extend(&ledger.taken);
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
                self.draft.create_block(block);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A new block, with the addresses of the host's own interfaces kept back.
    fn made(&self, cidr: Cidr, owner: Option<&Affinity>) -> Block {
        let policy = self.policy;
        let mut block = Block::new(cidr, owner.cloned(), policy.now, policy.sequence_floor);
        self.keep_own_addresses(&mut block);
        block
    }

    fn keep_own_addresses(&self, block: &mut Block) {
        let attribute = owner::host_address(&self.policy.host);
        for address in self.request.own_addresses.within(block.cidr()) {
            block.keep_back(address, &attribute);
        }
    }

    /// An empty block of another host that has had it for a while, or of nobody: it changes hands.
    async fn abandoned(
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

    /// A free address in a block of another host, or of nobody. Hosts begin at different blocks, as with new ones.
    async fn borrowed(
        &mut self,
        areas: &[Area],
        me: &Affinity,
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        let mut candidates = self.room(RoomOf::AllBut(me.clone()), areas, usize::MAX).await?;
        candidates.sort_by_key(|cidr| self.distance(areas, *cidr));
        for cidr in candidates {
            if let Some(found) = self.usable(cidr, areas, damaged).await? {
                return Ok(Some(found));
            }
            self.correct_room(cidr);
        }
        Ok(None)
    }

    /// How late a block comes in this host's walk: by pool, then by distance from the start.
    fn distance(&self, areas: &[Area], cidr: Cidr) -> (usize, u128) {
        let place = areas.iter().position(|area| area.pool.cidr.contains(cidr)).unwrap_or(usize::MAX);
        let steps = areas.get(place).map(|area| {
            let blocks = area.pool.cidr.subnet_count(area.pool.block_prefix);
            let start = walk::start(self.policy.host.as_str(), blocks);
            let position = area.pool.cidr.subnet_position(cidr).unwrap_or(0);
            if position >= start { position - start } else { blocks - start + position }
        });
        (place, steps.unwrap_or(0))
    }

    /// What is carved out of a network: the blocks of the store, and those drafted.
    async fn ledger(&mut self, network: Cidr) -> Result<Ledger, Error> {
        let stored = self.store.read(&[Want::BlockCidrs(network)]).await?.pop();
        let mut ledger = Ledger::default();
        for cidr in stored.map(datastore::Answer::cidrs).unwrap_or_default() {
            ledger.take(cidr);
        }
        for block in self.draft.blocks() {
            ledger.take(block.cidr());
        }
        Ok(ledger)
    }
}

/// The blocks of a host.
#[derive(Default)]
struct Owned {
    /// How many it has of the family.
    of_family: usize,
    /// Those in the pools that may serve, with their records.
    in_areas: Vec<(Cidr, Revision, BlockAffinity)>,
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

/// What is carved out of pools. The one place that decides whether a CIDR is free.
#[derive(Default)]
struct Ledger {
    taken: AddrSet,
}

impl Ledger {
    fn take(&mut self, cidr: Cidr) {
        self.taken.insert_cidr(cidr);
    }

    /// Whether nothing carved out overlaps it, of whatever size.
    fn is_free(&self, cidr: Cidr) -> bool {
        !self.taken.overlaps(cidr)
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
