//! Taking over what host-local recorded for a network, so that no address which it gave out is given again.

use std::net::IpAddr;

use super::assign::Assign;
use super::attempt::{Attempts, Next};
use super::draft::Draft;
use super::ledger::Ledger;
use super::owner::{Attachment, Owner};
use super::policy::Policy;
use super::pools::Pool;
use super::{Block, Error, Ipam};
use crate::api::HandleId;
use crate::api::calico::IpamHandle;
use crate::datastore::{Datastore, Key, Takeover, Want};
use crate::net::Cidr;

/// Addresses that one batch takes over. Each brings a handle and perhaps a block and its affinity.
const LEASES_PER_BATCH: usize = 30;

/// An address that host-local recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLocalLease {
    /// The address.
    pub address: IpAddr,
    /// The container.
    pub container_id: String,
    /// Its interface; `eth0` where an old version recorded none.
    pub ifname: String,
    /// When the record was written, in nanoseconds since 1970.
    pub modified: u64,
}

/// Where host-local's records of a network can be found.
pub trait TakeoverRequest {
    /// The directory.
    fn directory(&self) -> String;
    /// Its time of modification, in nanoseconds since 1970; `None`: there is no such directory.
    fn modified(&self) -> Option<u64>;
    /// The records in it.
    ///
    /// # Errors
    /// When the directory cannot be read: then nothing may be assigned, since anything may be taken.
    fn leases(&self) -> Result<Vec<HostLocalLease>, crate::datastore::Error>;
}

impl<D: Datastore> Ipam<D> {
    /// Takes over what host-local recorded since the last time, in batches that are each complete in themselves.
    pub(super) async fn take_over(
        &mut self,
        request: &Assign<'_>,
        source: &dyn TakeoverRequest,
    ) -> Result<(), Error> {
        let Some(modified) = source.modified() else {
            return Ok(());
        };
        let mut attempts = Attempts::default();
        let mut leases = None;
        loop {
            let handle = request.owner.attachment.handle()?;
            let (policy, mut draft, _) = self.begin(request, &handle).await?;
            let network = &request.owner.attachment.network;
            let known = policy.takeovers.iter().find(|(_, known)| known.network == *network).cloned();
            if known.as_ref().is_some_and(|(_, known)| known.modified == modified) {
                return Ok(());
            }
            let since = known.as_ref().map_or(0, |(_, known)| known.modified);
            let waiting: &mut Vec<HostLocalLease> = match &mut leases {
                Some(waiting) => waiting,
                None => leases
                    .insert(source.leases()?.into_iter().filter(|lease| lease.modified > since).collect()),
            };
            let now: Vec<HostLocalLease> = waiting.iter().take(LEASES_PER_BATCH).cloned().collect();
            for lease in &now {
                self.take_over_lease(&policy, &mut draft, request, lease).await?;
            }
            let last = now.len() == waiting.len();
            if last {
                let done = Takeover { network: network.clone(), directory: source.directory(), modified };
                draft.put_takeover(known.map(|(revision, _)| revision), done);
            }
            if self.write(draft, &policy.reserved, &mut attempts).await? == Next::Done {
                if last {
                    return Ok(());
                }
                waiting.drain(..now.len());
            }
        }
    }

    async fn take_over_lease(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        request: &Assign<'_>,
        lease: &HostLocalLease,
    ) -> Result<(), Error> {
        // An address of no pool is given out by nobody.
        let Some(pool) = policy.pool_of(Cidr::single(lease.address)).map(Pool::of) else {
            return Ok(());
        };
        let Some(cidr) = pool.block_of(lease.address) else {
            return Ok(());
        };
        let attachment = Attachment {
            network: request.owner.attachment.network.clone(),
            container_id: lease.container_id.clone(),
            ifname: lease.ifname.clone(),
        };
        let Ok(handle) = attachment.handle() else {
            return Ok(());
        };
        self.load_for_takeover(policy, draft, &handle, cidr).await?;
        if draft.block(cidr).is_none() {
            self.claim_for_takeover(policy, draft, cidr).await?;
        }
        // It was started in this boot or an earlier one: the next boot is the end of it in either case.
        let owner = Owner { attachment, host: request.host.clone(), netns: None, pod: None };
        let attribute = owner.attribute(&handle, policy.now);
        // Not free: taken over before, or given out since by whoever shares the pool. The first owner keeps it.
        if let Some(block) = draft.block(cidr)
            && let Some(ordinal) = block.free_ordinal(lease.address)
        {
            block.assign(ordinal, &attribute);
            draft.count_at_least(&handle, cidr);
        }
        Ok(())
    }

    async fn load_for_takeover(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        handle: &HandleId,
        cidr: Cidr,
    ) -> Result<(), Error> {
        let wants = [Want::Object(Key::Handle(handle.clone())), Want::Object(Key::Block(cidr))];
        let mut answers = self.store.read(&wants).await?.into_iter().map(crate::datastore::Answer::object);
        let (stored, block) = (answers.next().flatten(), answers.next().flatten());
        if !draft.knows_handle(handle) {
            draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
        }
        if let Some(entry) = block {
            let (revision, block) = super::assign::checked(entry, policy)?;
            draft.load_block(revision, block);
        }
        Ok(())
    }

    async fn claim_for_takeover(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        cidr: Cidr,
    ) -> Result<(), Error> {
        // What is carved out for others is nobody's block; host-local's address in it is given out by neither.
        let pool = policy.pool_of(cidr).map_or(cidr, |pool| pool.spec.cidr);
        let ledger = Ledger::of(&mut self.store, pool, cidr).await?;
        if !ledger.is_free(cidr) {
            return Ok(());
        }
        draft.lies_in(ledger.enclosing());
        let me = policy.affinity();
        let wants = [Want::Affinities(me.clone()), Want::Object(Key::Affinity(me.clone(), cidr))];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let stored = answers.next().map(crate::datastore::Answer::objects).unwrap_or_default();
        let mine = answers.next().and_then(crate::datastore::Answer::object);
        let of_family = |key: &Key| matches!(key, Key::Affinity(_, block) if block.family() == cidr.family());
        let drafted = draft.blocks().filter(|block| block.is_new() && block.affinity() == Some(&me)).count();
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
