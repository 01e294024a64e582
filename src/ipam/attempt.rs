//! The one bounded compare-and-swap loop. Every write goes through it.

use super::draft::Draft;
use super::{Error, Ipam};
use crate::datastore::{BATCH_MAX, Commit, Datastore};
use crate::net::AddrSet;

/// Calico's `datastoreRetries`: a bound, so that a busy block ends.
pub const CAS_ATTEMPTS_MAX: u32 = 100;

/// Counts the attempts of one call.
#[derive(Debug, Default)]
pub(super) struct Attempts(u32);

/// What to do after a write was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It was applied.
    Done,
    /// Read again and draft anew: somebody was faster, or the answer was lost.
    StartOver,
}

impl<D: Datastore> Ipam<D> {
    /// Commits a draft, if it changes anything.
    ///
    /// # Errors
    /// [`Error::Contended`] when this was the last attempt; [`Error::Datastore`] when the store failed.
    pub(super) async fn write(
        &mut self,
        draft: Draft,
        reserved: &AddrSet,
        attempts: &mut Attempts,
    ) -> Result<Next, Error> {
        let batch = draft.into_batch(reserved);
        if batch.is_empty() {
            return Ok(Next::Done);
        }
        assert!(batch.ops.len() <= BATCH_MAX, "a draft of {} operations", batch.ops.len());
        attempts.0 += 1;
        match self.store.commit(batch).await? {
            Commit::Applied => Ok(Next::Done),
            Commit::Refused(_) | Commit::Unknown if attempts.0 < CAS_ATTEMPTS_MAX => Ok(Next::StartOver),
            Commit::Refused(_) | Commit::Unknown => Err(Error::Contended { attempts: attempts.0 }),
        }
    }
}
