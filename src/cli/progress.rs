//! A line that says how far long work is: on standard error, on a terminal, and only once it has taken a while.

use std::io::Write;
use std::time::Duration;

use crate::clock::{Clock, Timestamp};

/// Work that takes longer is told of.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the line is written anew.
const INTERVAL: Duration = Duration::from_millis(200);
/// How many steps pass between two looks at the clock.
const STEPS: usize = 32;
/// Back to the start of the line, and everything behind it gone.
const CLEAR: &str = "\r\x1b[K";

/// The line, which goes with the value.
pub(super) struct Progress<'a> {
    /// `None`: nobody is looking.
    to: Option<&'a mut dyn Write>,
    clock: &'a dyn Clock,
    what: &'static str,
    started: Timestamp,
    written: Option<Timestamp>,
    done: usize,
}

impl<'a> Progress<'a> {
    pub(super) fn new(to: Option<&'a mut dyn Write>, clock: &'a dyn Clock, what: &'static str) -> Self {
        Self { to, clock, what, started: clock.now(), written: None, done: 0 }
    }

    /// One more of so many is done.
    pub(super) fn step(&mut self, total: usize) {
        self.done += 1;
        let Some(to) = self.to.as_mut().filter(|_| self.done.is_multiple_of(STEPS)) else { return };
        let now = self.clock.now();
        let is_due = match self.written {
            None => now.since(self.started) >= PATIENCE,
            Some(last) => now.since(last) >= INTERVAL,
        };
        if is_due {
            let _ = write!(to, "{CLEAR}looked at {} of {total} {}", self.done, self.what);
            let _ = to.flush();
            self.written = Some(now);
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(to) = self.to.as_mut().filter(|_| self.written.is_some()) {
            let _ = to.write_all(CLEAR.as_bytes());
            let _ = to.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock that goes on by a quarter of a second whenever it is asked.
    struct Ticking(Cell<u64>);

    impl Clock for Ticking {
        fn now(&self) -> Timestamp {
            self.0.set(self.0.get() + 250_000_000);
            Timestamp::from_nanos(self.0.get())
        }
    }

    fn written(steps: usize) -> String {
        let clock = Ticking(Cell::new(0));
        let mut out = Vec::new();
        let mut progress = Progress::new(Some(&mut out), &clock, "blocks");
        (0..steps).for_each(|_| progress.step(400));
        drop(progress);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn short_work_says_nothing_and_long_work_leaves_nothing_behind() {
        assert_eq!(written(3 * STEPS), "");
        assert_eq!(
            written(5 * STEPS),
            format!("{CLEAR}looked at 128 of 400 blocks{CLEAR}looked at 160 of 400 blocks{CLEAR}")
        );
    }

    #[test]
    fn where_nobody_looks_nothing_is_written() {
        let clock = Ticking(Cell::new(0));
        let mut progress = Progress::new(None, &clock, "blocks");
        (0..1000).for_each(|_| progress.step(1000));
    }
}
