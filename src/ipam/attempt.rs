//! The bounded compare-and-swap loop that every write goes through.
//!
//! Only attempts without progress are bounded. A call may write any number of batches: each batch that is applied starts
//! the count again, and an error says how many batches were applied before.

use super::draft::Draft;
use super::{Error, Ipam};
use crate::datastore::{BATCH_MAX, Commit, Datastore};
use crate::net::AddrSet;

/// Calico's `datastoreRetries`: a bound, so that a busy block ends.
pub const CAS_ATTEMPTS_MAX: u32 = 100;

/// Counts the attempts of one call at its present batch.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    count: u32,
    applied: u32,
    lost_an_answer: bool,
}

impl Attempts {
    /// Counts one more.
    fn count(&mut self) -> Result<(), Error> {
        if self.count == CAS_ATTEMPTS_MAX {
            return Err(Error::Contended { attempts: self.count, applied: self.applied });
        }
        self.count += 1;
        Ok(())
    }

    /// Counts one more in which nothing was written, and lets somebody else go on.
    pub(super) async fn wait<D: Datastore>(&mut self, store: &mut D) -> Result<(), Error> {
        self.count()?;
        store.back_off(self.count).await;
        Ok(())
    }

    /// A batch was applied: the next one has all attempts.
    fn progressed(&mut self) {
        *self = Self { applied: self.applied.saturating_add(1), ..Self::default() };
    }

    /// Whether one of them may have been applied although it was tried again: what it was to do may be done.
    pub(super) fn may_have_succeeded(&self) -> bool {
        self.lost_an_answer
    }

    /// How many there were.
    pub(super) fn so_far(&self) -> u32 {
        self.count
    }
}

/// What to do after a write was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It was applied.
    Done,
    /// Read again and draft anew: somebody was faster, or the answer was lost.
    StartOver,
}

impl<D: Datastore> Ipam<D> {
    /// Commits a draft, if it changes anything. A draft that was applied starts the count of attempts again.
    ///
    /// # Errors
    /// [`Error::Contended`] after [`CAS_ATTEMPTS_MAX`] attempts without progress; [`Error::Datastore`] when the store failed.
    pub(super) async fn write(
        &mut self,
        draft: Draft,
        reserved: &AddrSet,
        attempts: &mut Attempts,
    ) -> Result<Next, Error> {
        let next = self.write_without_progress(draft, reserved, attempts).await?;
        if next == Next::Done {
            attempts.progressed();
        }
        Ok(next)
    }

    /// As [`Ipam::write`], for a change that only prepares another: it may have to be made again and again, so it counts
    /// as an attempt also when it is applied.
    pub(super) async fn write_without_progress(
        &mut self,
        draft: Draft,
        reserved: &AddrSet,
        attempts: &mut Attempts,
    ) -> Result<Next, Error> {
        if !self.store.is_atomic()
            && let Some(claims) = draft.claims()
        {
            attempts.count()?;
            self.store.commit(claims.into_batch(reserved)).await?;
            return Ok(Next::StartOver);
        }
        let batch = draft.into_batch(reserved);
        if batch.is_empty() {
            return Ok(Next::Done);
        }
        assert!(batch.ops.len() <= BATCH_MAX, "a draft of {} operations", batch.ops.len());
        attempts.count()?;
        match self.store.commit(batch).await? {
            Commit::Applied => Ok(Next::Done),
            Commit::Refused(_) => {
                self.store.back_off(attempts.so_far()).await;
                Ok(Next::StartOver)
            }
            Commit::Unknown => {
                attempts.lost_an_answer = true;
                self.store.back_off(attempts.so_far()).await;
                Ok(Next::StartOver)
            }
        }
    }
}
