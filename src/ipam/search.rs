//! Where an address comes from: the search through blocks, in the promised order.

use std::net::IpAddr;
use std::time::Duration;

use super::assign::{Assign, Wanted, checked};
use super::block::Ordinal;
use super::config::AffinityRule;
use super::draft::Draft;
use super::error::Limit;
use super::policy::Policy;
use super::pools::Pool;
use super::walk::Walk;
use super::{Block, Error, owner, pools, refusal, walk};
use crate::api::calico::{AffinityState, BlockAffinity, IpamHandle};
use crate::api::{Affinity, HandleId};
use crate::datastore::{self, BATCH_MAX, Datastore, Entry, Key, Revision, RoomOf, Want};
use crate::net::{AddrSet, Cidr};

/// How long a block is its host's before another host may take it over empty. Source: the reference engine.
const RECLAIM_AGE_MIN: Duration = Duration::from_secs(60);
/// How many blocks with room are asked for at first: nearly always the first has an address.
const ROOM_FIRST: usize = 16;
/// Leases of an earlier boot that one commit takes back; a bound, since each may change a handle of its own.
const DEAD_MAX: usize = 64;
/// Operations of a batch that are left for what else one request may change.
const NOT_OF_THE_DEAD: usize = 24;

/// How many empty blocks of pools that no longer select the host one request gives up.
const LEFT_MAX: usize = 8;

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
        let strict = self.policy.config.affinity_rule == AffinityRule::Strict;
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
            } else {
                owned.elsewhere.push((cidr, entry.revision));
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

    /// Gives up empty blocks of pools that no longer select the host; another host has use for them. A pool that this
    /// request merely leaves out keeps its blocks here.
    async fn leave_other_pools(&mut self, owned: &Owned, me: &Affinity) -> Result<(), Error> {
        let policy = self.policy;
        let left = |cidr: Cidr| {
            policy.pool_of(cidr).is_some_and(|pool| {
                pools::is_enabled(pool) && !pools::selects_host(pool, &policy.labels)
            })
        };
        let of_left: Vec<_> = owned.elsewhere.iter().copied().filter(|(cidr, _)| left(*cidr)).collect();
        for (cidr, revision) in of_left.into_iter().take(LEFT_MAX) {
            let is_empty = match self.load(cidr).await {
                Ok(block) => block.is_some_and(|block| block.affinity() == Some(me) && block.is_empty()),
                Err(error) if is_damage(&error) => false,
                Err(error) => return Err(error),
            };
            if is_empty {
                self.draft.delete_block(cidr);
                self.draft.drop_affinity(me, cidr, revision);
            }
        }
        Ok(())
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

    /// Looks at every block itself, where all hosts of the store are this machine, and takes back what attachments of an
    /// earlier boot of this host still hold: nothing that they belonged to can be alive.
    async fn left_by_an_earlier_boot(
        &mut self,
        areas: &[Area],
        owned: &Owned,
        own_only: bool,
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        if !self.store.is_one_machine() {
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
            if self.request.host.boot.is_some()
                && self.release_dead(cidr).await?
                && let Some(found) = self.draft.block(cidr).and_then(|block| free_in(block, areas))
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn release_dead(&mut self, cidr: Cidr) -> Result<bool, Error> {
        let host = self.request.host;
        let most = DEAD_MAX.min(BATCH_MAX.saturating_sub(self.draft.len() + NOT_OF_THE_DEAD));
        let Some(block) = self.draft.block(cidr) else {
            return Ok(false);
        };
        let dead: Vec<(Ordinal, HandleId)> = block
            .allocations()
            .filter(|allocation| {
                owner::is_of_earlier_boot(&allocation.fields, &host.name, host.boot.as_deref())
            })
            .filter_map(|allocation| {
                let handle = HandleId::new(owner::sanitised(allocation.fields.handle_id.as_deref()?)).ok()?;
                Some((allocation.ordinal, handle))
            })
            .take(most)
            .collect();
        for (ordinal, _) in &dead {
            // Free at once: no packet of before the boot is under way.
            block.release(*ordinal, Duration::ZERO, self.policy.now);
        }
        for (_, handle) in &dead {
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

    /// One address that was asked for. Reservations do not bind it, save those of a subnet's own addresses.
    async fn exactly(&mut self, areas: &[Area], wanted: &Wanted, address: IpAddr) -> Result<Found, Error> {
        let inside = |area: &&Area| area.pool.cidr.contains_address(address);
        let in_ranges = wanted.usable.as_ref().is_none_or(|usable| usable.contains(address));
        let Some(area) = areas.iter().find(inside).filter(|_| in_ranges) else {
            let pools = areas.iter().map(|area| (area.pool.name.clone(), area.pool.cidr)).collect();
            return Err(Error::OutsidePools { address, pools });
        };
        if let Some(reservation) = refusal::subnet_reservation(self.policy, address) {
            return Err(Error::KeptBack { address, reservation });
        }
        let cidr =
            area.pool.block_of(address).ok_or_else(|| Error::OutsidePools { address, pools: Vec::new() })?;
        let strict = self.policy.config.affinity_rule == AffinityRule::Strict;
        let me = self.policy.affinity();
        if self.load(cidr).await?.is_none() {
            return self.exactly_in_a_new_block(areas, cidr, address, &me, strict).await;
        }
        self.displace_dead(cidr, address).await?;
        let cooldown = self.policy.config.cooldown;
        let Some(block) = self.draft.block(cidr) else { unreachable!("the block was just taken in") };
        if strict && block.affinity() != Some(&me) {
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
        let ledger = self.ledger(cidr).await?;
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
        self.draft.create_block(block);
        Ok((cidr, ordinal))
    }

    /// A holder that died with an earlier boot does not keep an address from whoever asks for it.
    async fn displace_dead(&mut self, cidr: Cidr, address: IpAddr) -> Result<(), Error> {
        let host = self.request.host;
        if !self.store.is_one_machine() {
            return Ok(());
        }
        let Some(block) = self.draft.block(cidr) else {
            return Ok(());
        };
        let Some(allocation) = block.holder(address) else {
            return Ok(());
        };
        if !owner::is_of_earlier_boot(&allocation.fields, &host.name, host.boot.as_deref()) {
            return Ok(());
        }
        let handle =
            allocation.fields.handle_id.as_deref().and_then(|id| HandleId::new(owner::sanitised(id)).ok());
        let ordinal = allocation.ordinal;
        block.release(ordinal, Duration::ZERO, self.policy.now);
        match handle {
            Some(handle) => self.recount(&handle, cidr).await,
            None => Ok(()),
        }
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
    /// Others, of whatever family.
    elsewhere: Vec<(Cidr, Revision)>,
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
