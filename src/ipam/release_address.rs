//! Ending one assignment by its address: what people do when no DEL will come.

use std::net::IpAddr;

use super::assign::checked;
use super::attempt::{Attempts, Next};
use super::draft::Draft;
use super::policy::Policy;
use super::release::count;
use super::survey::AddressFact;
use super::{Error, Ipam};
use crate::api::calico::IpamHandle;
use crate::api::{HandleId, HostName};
use crate::clock::Timestamp;
use crate::datastore::{Answer, Datastore, Key, Want};
use crate::net::Cidr;

/// The assignment that is meant: one that was read before, or whatever stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The address.
    pub address: IpAddr,
    /// The block's number when it was assigned. `None`: whatever it is.
    pub sequence: Option<u64>,
    /// Its handle; looked at only where a number is given.
    pub handle: Option<String>,
}

/// Why an address was not released. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError<E> {
    /// Nobody has it.
    #[error("{address} is not assigned{}", if *.in_pool { "" } else { ": it lies in no pool" })]
    Unassigned {
        /// The address.
        address: IpAddr,
        /// Whether a pool has it.
        in_pool: bool,
    },
    /// It was released already, and cools down.
    #[error("{0} is not assigned: it was released already, and is in cooldown")]
    Cooling(IpAddr),
    /// It changed hands after it was read.
    #[error("{address} not released: assigned again since it was read (sequence {read}, now {now})")]
    Reassigned {
        /// The address.
        address: IpAddr,
        /// The number that was read.
        read: u64,
        /// The number now.
        now: u64,
        /// The present handle.
        handle: Option<String>,
    },
    /// Whoever asked for it does not want it, now that it is known who has it.
    #[error("{0}")]
    Declined(E),
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl<E> ReleaseError<E> {
    /// Whether it says how the address stands, and not that nobody could look.
    fn is_about_the_address(&self) -> bool {
        match self {
            ReleaseError::Unassigned { .. }
            | ReleaseError::Cooling(_)
            | ReleaseError::Reassigned { .. }
            | ReleaseError::Declined(_) => true,
            ReleaseError::Engine(_) => false,
        }
    }
}

impl<D: Datastore> Ipam<D> {
    /// Releases one address, whoever has it, also one of a disabled pool or of none. `judge` is told who has it, and may
    /// decline. The answer: who had it.
    ///
    /// # Errors
    /// When nobody has it, it changed hands since it was read, `judge` declines, or the store failed.
    pub async fn release_address<E>(
        &mut self,
        meant: &Assignment,
        now: Timestamp,
        judge: impl Fn(&AddressFact) -> Result<(), E>,
    ) -> Result<AddressFact, ReleaseError<E>> {
        let mut attempts = Attempts::default();
        let mut tried: Option<AddressFact> = None;
        loop {
            let planned = self.plan_release(meant, now, &judge).await;
            let (draft, policy, fact) = match (planned, tried) {
                // A commit whose answer was lost has done it. Whoever has the address by now is not meant.
                (Ok((.., now)), Some(before)) if attempts.may_have_succeeded() && !now.is_same(&before) => {
                    return Ok(before);
                }
                (Err(error), Some(before))
                    if attempts.may_have_succeeded() && error.is_about_the_address() =>
                {
                    return Ok(before);
                }
                (planned, _) => planned?,
            };
            if self.write(draft, &policy.reserved, &mut attempts).await? == Next::Done {
                return Ok(fact);
            }
            tried = Some(fact);
        }
    }

    async fn plan_release<E>(
        &mut self,
        meant: &Assignment,
        now: Timestamp,
        judge: &impl Fn(&AddressFact) -> Result<(), E>,
    ) -> Result<(Draft, Policy, AddressFact), ReleaseError<E>> {
        let address = meant.address;
        let wants = [Want::Settings, Want::Blocks(Cidr::single(address))];
        let mut answers = self.store.read(&wants).await.map_err(Error::from)?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let entry = answers.next().map(Answer::objects).unwrap_or_default().into_iter().next();
        // The labels of a block's owner are looked up where they are needed.
        let nobody = HostName::new("-").map_err(Error::from)?;
        let policy = Policy::new(settings, None, &nobody, now);
        let in_pool = policy.pool_of(Cidr::single(address)).is_some();
        let entry = entry.ok_or(ReleaseError::Unassigned { address, in_pool })?;
        let (revision, block) = checked(entry, &policy)?;
        let cidr = block.cidr();
        let mut draft = Draft::default();
        let block = draft.load_block(revision, block);
        let Some(allocation) = block.holder(address) else {
            return Err(ReleaseError::Unassigned { address, in_pool });
        };
        let fact = AddressFact::of(block, &allocation);
        let ordinal = allocation.ordinal;
        if fact.is_cooling {
            return Err(ReleaseError::Cooling(address));
        }
        if let Some(read) = meant.sequence
            && (read, &meant.handle) != (fact.sequence, &fact.handle)
        {
            let (now, handle) = (fact.sequence, fact.handle);
            return Err(ReleaseError::Reassigned { address, read, now, handle });
        }
        judge(&fact).map_err(ReleaseError::Declined)?;
        block.release(ordinal, policy.config.cooldown, now);
        let is_empty = block.is_empty();
        let handle = fact.handle.as_deref().and_then(|handle| HandleId::new(handle).ok());
        let left = handle.as_ref().map(|handle| count(block, handle));
        if let (Some(handle), Some(left)) = (&handle, left) {
            let read = self.store.read(&[Want::Object(Key::Handle(handle.clone()))]).await;
            let stored = read.map_err(Error::from)?.pop().and_then(Answer::object);
            draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
            draft.set_count(handle, cidr, left);
        }
        if is_empty {
            self.give_back(&policy, &mut draft, cidr).await?;
        }
        Ok((draft, policy, fact))
    }

    /// Deletes a handle that names nothing, if it is still the one that was read. The answer: whether it was.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn remove_handle(
        &mut self,
        handle: &HandleId,
        read: crate::datastore::Revision,
    ) -> Result<bool, Error> {
        let mut batch = crate::datastore::Batch::default();
        batch.delete(Key::Handle(handle.clone()), read);
        Ok(self.store.commit(batch).await? == crate::datastore::Commit::Applied)
    }
}
