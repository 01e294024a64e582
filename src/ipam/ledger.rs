//! What is carved out of pools. The one place that decides whether a CIDR is free.

use crate::net::{AddrSet, Cidr};

/// Networks that are taken: blocks, and whatever else is carved out of a pool. They never overlap.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) taken: AddrSet,
}

impl Ledger {
    pub(super) fn take(&mut self, cidr: Cidr) {
        self.taken.insert_cidr(cidr);
    }

    /// Whether nothing carved out overlaps it, of whatever size.
    pub(super) fn is_free(&self, cidr: Cidr) -> bool {
        !self.taken.overlaps(cidr)
    }
}
