//! How often something was killed or cut, by kind and moment, said on the real standard output, so that a whole run can
//! be added up.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

/// Counts by moment.
#[derive(Debug, Default)]
pub(crate) struct Tally(BTreeMap<String, usize>);

impl Tally {
    /// One more.
    pub(crate) fn count(&mut self, moment: impl Into<String>) {
        *self.0.entry(moment.into()).or_default() += 1;
    }

    /// How many at that moment.
    pub(crate) fn of(&self, moment: &str) -> usize {
        self.0.get(moment).copied().unwrap_or_default()
    }

    /// How many in all.
    pub(crate) fn sum(&self) -> usize {
        self.0.values().sum()
    }

    /// Says them, a line each.
    pub(crate) fn say(&self, kind: &str) {
        for (moment, count) in &self.0 {
            tell(&format!("COUNT {count} {kind}: {moment}"));
        }
    }
}

/// Says a line on the real standard output. Not `print!`, which is only shown for a test that fails.
pub(crate) fn tell(line: &str) {
    let _ = io::stdout().lock().write_all(format!("\n{line}\n").as_bytes());
}
