//! Handles that count more addresses than their blocks have: after a crash, or because somebody is about to write.
//!
//! A handle grows before its block does, and shrinks after it, where a batch may stop half-way. So whoever finds that it
//! counts too many cannot tell a crash from another caller's work in progress. The block is written first, though nothing
//! in it changes: whoever was about to write it starts over. After a few attempts somebody is at work with this very
//! handle, each undoing the other's half, and the excess is left to that one.

use super::block::Block;
use super::draft::Draft;
use super::release::count;
use crate::api::HandleId;
use crate::datastore::{Entry, Object};
use crate::net::Cidr;

/// How many attempts correct it, where others may be at work.
pub(super) const CORRECTIONS_MAX: u32 = 2;

/// What a handle counts, and what is done about it.
pub(super) struct Counts {
    named: Vec<(Cidr, u32)>,
    alone: bool,
    corrects: bool,
}

impl Counts {
    /// Of a handle as it was read. `alone`: nobody else is at work.
    pub(super) fn new(stored: Option<&Entry>, alone: bool, attempts: u32) -> Self {
        let named = match stored.map(|entry| &entry.object) {
            Some(Object::Handle(handle)) => {
                handle.block.iter().map(|(cidr, count)| (*cidr, *count)).collect()
            }
            _ => Vec::new(),
        };
        Self { named, alone, corrects: alone || attempts < CORRECTIONS_MAX }
    }

    fn excess(&self, block: &Block, handle: &HandleId) -> u32 {
        let counted =
            self.named.iter().find(|(cidr, _)| *cidr == block.cidr()).map_or(0, |(_, count)| *count);
        counted.saturating_sub(count(block, handle))
    }

    /// Whether the excess is corrected, and not left to whoever is at work.
    pub(super) const fn corrects(&self) -> bool {
        self.corrects
    }

    /// Changes a block of the draft, and makes the handle count what is left in it.
    pub(super) fn change<T>(
        &self,
        draft: &mut Draft,
        handle: &HandleId,
        cidr: Cidr,
        change: impl FnOnce(&mut Block) -> T,
    ) -> Option<T> {
        let block = draft.block(cidr)?;
        let excess = self.excess(block, handle);
        if excess > 0 && self.corrects && !self.alone {
            block.rewrite();
        }
        let changed = change(block);
        let left = count(block, handle);
        draft.set_count(handle, cidr, if self.corrects { left } else { left.saturating_add(excess) });
        Some(changed)
    }

    /// Blocks that the handle names and that do not exist never had an address of it.
    pub(super) fn forget_missing(&self, draft: &mut Draft, handle: &HandleId) {
        for (cidr, _) in &self.named {
            if draft.block(*cidr).is_none() {
                draft.set_count(handle, *cidr, 0);
            }
        }
    }
}
