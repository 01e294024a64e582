//! Leases of host-local become allocations, batch by batch.

use std::collections::BTreeSet;

use super::{HostLocalLease, HostLocalRecords, ImportSource, Look, Scan, known, of_directory, trusts_marks};
use crate::api::HandleId;
use crate::api::calico::IpamHandle;
use crate::datastore::{Answer, BATCH_MAX, Datastore, Key, Want};
use crate::ipam::assign::{Assign, checked};
use crate::ipam::attempt::{Attempts, Next};
use crate::ipam::draft::Draft;
use crate::ipam::ledger::Ledger;
use crate::ipam::owner::{self, Attachment, Owner};
use crate::ipam::policy::Policy;
use crate::ipam::pools::Pool;
use crate::ipam::{Block, Error, Ipam};
use crate::net::Cidr;

/// Leases that are looked at for one batch.
const LEASES_PER_BATCH: usize = 90;
/// What one more lease adds to a batch at most: its handle, its block, and the block's affinity.
const OPS_PER_LEASE: usize = 3;
/// Operations of a batch that are left for the record of the import, and for the conditions of new blocks.
const OPS_TO_SPARE: usize = 12;
/// New blocks of one batch. Each brings conditions of its own, which stores bound.
const NEW_BLOCKS_PER_BATCH: usize = 8;

/// Leases that wait for their batch, and what else the scan found.
#[derive(Default)]
struct Work {
    records: HostLocalRecords,
    done: usize,
}

/// Outcome of drafting a batch.
#[derive(Default)]
struct Drafted {
    /// Leases that were looked at.
    count: usize,
    /// Those of them that the store has after the batch.
    stored: Vec<HostLocalLease>,
}

impl<D: Datastore> Ipam<D> {
    /// Imports the leases that the store does not know, in batches that are each complete in themselves.
    pub(in crate::ipam) async fn import(
        &mut self,
        request: &Assign<'_>,
        source: &dyn ImportSource,
    ) -> Result<(), Error> {
        let mut attempts = Attempts::default();
        let mut work: Option<Work> = None;
        let handle = request.owner.attachment.handle()?;
        let network = &request.owner.attachment.network;
        loop {
            let Some(look) = source.look()? else {
                return Ok(());
            };
            let (policy, mut draft, _) = self.begin(request, &handle).await?;
            if work.is_none() {
                let trusts = trusts_marks(&policy, network, source, look);
                let scan = if trusts { Scan::Unmarked } else { Scan::All };
                let of_a_pool = |address| policy.pool_of(Cidr::single(address)).is_some();
                work = Some(Work { records: source.scan(scan, &of_a_pool)?, done: 0 });
            }
            let work = work.get_or_insert_default();
            let waiting = work.records.leases.get(work.done..).unwrap_or_default();
            let drafted = self.draft_leases(&policy, &mut draft, request, waiting).await?;
            let is_last = drafted.count == waiting.len();
            if is_last {
                note_import(&policy, &mut draft, request, source, look);
            }
            if self.write(draft, &policy.reserved, &mut attempts).await? == Next::Done {
                source.mark(&drafted.stored)?;
                work.done += drafted.count;
                if is_last {
                    return Ok(source.finish(&work.records)?);
                }
            }
        }
    }

    /// Drafts as many of the leases as one batch holds.
    async fn draft_leases(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        request: &Assign<'_>,
        waiting: &[HostLocalLease],
    ) -> Result<Drafted, Error> {
        let waiting = waiting.get(..LEASES_PER_BATCH).unwrap_or(waiting);
        let places: Vec<_> = waiting.iter().map(|lease| Place::of(policy, request, lease)).collect();
        self.load_places(policy, draft, &places).await?;
        let mut drafted = Drafted::default();
        for (lease, place) in waiting.iter().zip(&places) {
            let new_blocks = draft.blocks().filter(|block| block.is_new()).count();
            let is_full = draft.len() + OPS_PER_LEASE + OPS_TO_SPARE > BATCH_MAX;
            if drafted.count > 0 && (is_full || new_blocks >= NEW_BLOCKS_PER_BATCH) {
                break;
            }
            drafted.count += 1;
            if let Some(place) = place
                && self.draft_lease(policy, draft, request, lease, place).await?
            {
                drafted.stored.push(lease.clone());
            }
        }
        Ok(drafted)
    }

    /// Drafts one lease. True: the store has it after the batch.
    async fn draft_lease(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        request: &Assign<'_>,
        lease: &HostLocalLease,
        place: &Place,
    ) -> Result<bool, Error> {
        if draft.block(place.block).is_none() {
            self.claim_for_import(policy, draft, place.block).await?;
        }
        // It was started in this boot or an earlier one: the next boot is the end of it in either case.
        let attachment = place.attachment.clone();
        let owner = Owner { attachment, host: request.host.clone(), netns: None, pod: None };
        let attribute = owner.attribute(&place.handle, policy.now);
        let Some(block) = draft.block(place.block) else {
            return Ok(false);
        };
        if let Some(ordinal) = block.free_ordinal(lease.address) {
            block.assign(ordinal, &attribute);
            draft.count_at_least(&place.handle, place.block);
            return Ok(true);
        }
        // Imported before, or given since by another network that shares the pool: the holder keeps it.
        let holder = block.holder(lease.address).filter(|holder| holder.fields.released_at.is_none());
        let holder = holder.and_then(|holder| holder.fields.handle_id.as_deref().map(str::to_owned));
        Ok(holder.is_some_and(|holder| owner::sanitised(&holder) == place.handle.to_string()))
    }

    /// Reads handles and blocks of several leases in one step.
    async fn load_places(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        places: &[Option<Place>],
    ) -> Result<(), Error> {
        let places = || places.iter().flatten();
        let handles: BTreeSet<&HandleId> = places().map(|place| &place.handle).collect();
        let blocks: BTreeSet<Cidr> = places().map(|place| place.block).collect();
        let wants: Vec<_> = handles
            .iter()
            .map(|&handle| Want::Object(Key::Handle(handle.clone())))
            .chain(blocks.iter().map(|&block| Want::Object(Key::Block(block))))
            .collect();
        let mut answers = self.store.read(&wants).await?.into_iter().map(Answer::object);
        for handle in handles {
            let stored = answers.next().flatten();
            if !draft.knows_handle(handle) {
                draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
            }
        }
        for entry in answers.flatten() {
            let (revision, block) = checked(entry, policy)?;
            draft.load_block(revision, block);
        }
        Ok(())
    }

    async fn claim_for_import(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        cidr: Cidr,
    ) -> Result<(), Error> {
        // No block can be created in an allocated CIDR, so an address of host-local in it is given by neither.
        let pool = policy.pool_of(cidr).map_or(cidr, |pool| pool.spec.cidr);
        let ledger = Ledger::of(&mut self.store, pool, cidr).await?;
        if !ledger.is_free(cidr) {
            return Ok(());
        }
        draft.lies_in(ledger.enclosing());
        let me = policy.affinity();
        let wants = [Want::Affinities(me.clone()), Want::Object(Key::Affinity(me.clone(), cidr))];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let stored = answers.next().map(Answer::objects).unwrap_or_default();
        let mine = answers.next().and_then(Answer::object);
        let of_family = |key: &Key| matches!(key, Key::Affinity(_, block) if block.family() == cidr.family());
        let drafted = draft.blocks().filter(|block| block.is_new() && block.affinity() == Some(&me));
        let drafted = drafted.filter(|block| block.cidr().family() == cidr.family()).count();
        let owned = stored.iter().filter(|entry| of_family(&entry.key)).count() + drafted;
        let claims = u32::try_from(owned).is_ok_and(|owned| owned < policy.config.max_blocks_per_host);
        let kept_for = claims.then_some(&me);
        draft.create_block(Block::new(cidr, kept_for.cloned(), policy.now, policy.sequence_floor));
        if let Some(me) = kept_for {
            draft.confirm(me, cidr, mine.map(|entry| (entry.revision, entry.into())));
        }
        Ok(())
    }
}

/// Objects of the store that a lease belongs to.
struct Place {
    attachment: Attachment,
    handle: HandleId,
    block: Cidr,
}

impl Place {
    /// `None`: the address lies in no pool, or the container's name is none. Such a lease stays unmarked.
    fn of(policy: &Policy, request: &Assign<'_>, lease: &HostLocalLease) -> Option<Self> {
        let block = policy.pool_of(Cidr::single(lease.address)).map(Pool::of)?.block_of(lease.address)?;
        let attachment = lease.attachment(&request.owner.attachment.network);
        Some(Self { handle: attachment.handle().ok()?, attachment, block })
    }
}

/// Drafts the record of the import, if it says something new.
fn note_import(
    policy: &Policy,
    draft: &mut Draft,
    request: &Assign<'_>,
    source: &dyn ImportSource,
    look: Look,
) {
    let network = &request.owner.attachment.network;
    let stored = known(policy, network);
    let mut imported = of_directory(policy, network, source, look).cloned().unwrap_or_default();
    imported.directory = source.directory();
    imported.inode = look.inode;
    imported.ranges.extend(request.pools.iter().map(|asked| asked.pool.spec.cidr));
    let mut import = stored.map(|(_, import)| import.clone()).unwrap_or_default();
    import.network.clone_from(network);
    import.hosts.insert(policy.host.clone(), imported);
    if stored.is_none_or(|(_, stored)| *stored != import) {
        draft.put_import(stored.map(|(revision, _)| *revision), import);
    }
}
