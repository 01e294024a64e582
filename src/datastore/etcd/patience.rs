//! How long something may take. The only file here that waits, or knows how long that was.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use super::options::Patience;

/// When somebody stops waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    patience: Patience,
    until: Instant,
}

impl Deadline {
    /// From now on.
    pub(super) fn new(patience: Patience) -> Self {
        let (Patience::Call(time) | Patience::Request(time)) = patience;
        Self { patience, until: now() + time }
    }

    /// Another request begins.
    pub(super) fn next_request(&mut self) {
        if let Patience::Request(_) = self.patience {
            *self = Self::new(self.patience);
        }
    }

    /// What is left; zero when it is over.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(now())
    }

    /// How much there was.
    pub(super) const fn whole(&self) -> Duration {
        let (Patience::Call(time) | Patience::Request(time)) = self.patience;
        time
    }

    /// Waits for a random time of up to `most`, but not beyond the deadline.
    pub(super) fn pause(&self, most: Duration) {
        let part = u32::try_from(random() % 1000).unwrap_or(0);
        let time = most * (part + 1) / 1000;
        wait(time.min(self.left()));
    }
}

/// A number that nobody can foresee, and no two processes share.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[expect(clippy::disallowed_methods, reason = "a request that others answer needs a deadline")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "who lost, or found nobody, lets others go first")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}
