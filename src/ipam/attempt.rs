//! The one bounded compare-and-swap loop. Every write goes through it.

use super::draft::Draft;
use super::{Error, Ipam};
use crate::datastore::{BATCH_MAX, Commit, Datastore};
use crate::net::AddrSet;

/// Calico's `datastoreRetries`: a bound, so that a busy block ends.
pub const CAS_ATTEMPTS_MAX: u32 = 100;

/// Counts the attempts of one call.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    count: u32,
    lost_an_answer: bool,
}

impl Attempts {
    /// Counts one more.
    fn count(&mut self) -> Result<(), Error> {
        if self.count == CAS_ATTEMPTS_MAX {
            return Err(Error::Contended { attempts: self.count });
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
    /// Commits a draft, if it changes anything.
    ///
    /// # Errors
    /// [`Error::Contended`] when there were [`CAS_ATTEMPTS_MAX`] attempts before; [`Error::Datastore`] when the store failed.
    pub(super) async fn write(
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
