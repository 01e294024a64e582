//! What etcd compares and does for a batch.

use super::wire::{Compare, Operation};
use crate::datastore::Conflict;

/// A batch, turned into what etcd compares and does.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) compare: Vec<Compare>,
    pub(super) success: Vec<Operation>,
    /// What is looked at when it is refused.
    pub(super) failure: Vec<Operation>,
    /// What stands in the way already, by what is known.
    pub(super) conflicts: Vec<Conflict>,
}

impl Plan {
    /// Adds a condition, once.
    pub(super) fn require(&mut self, compare: Compare) {
        if !self.compare.contains(&compare) {
            self.compare.push(compare);
        }
    }
}
