//! The journal's operations, laid over the files.

use std::ops::Range;

use super::record::{Op, OpVerb, parse};
use crate::api::HandleId;
use crate::net::Cidr;

/// Room for the operations of a journal that is about to be cut: memory that is not used is not mapped.
const OPS_USUAL: usize = 256;

/// What the journal says, and of it, what concerns a given key.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// The journal from its first byte on.
    buffer: Vec<u8>,
    ops: Vec<Op>,
}

/// What the journal says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latest<'a> {
    /// Nothing: the file counts.
    File,
    /// Its content.
    Put(&'a [u8]),
    /// It is gone.
    Deleted,
}

impl Overlay {
    pub(super) fn new(buffer: Vec<u8>) -> Self {
        Self { buffer, ops: Vec::with_capacity(OPS_USUAL) }
    }

    /// Parses the body of one more record.
    ///
    /// # Errors
    /// The offset of what is no operation.
    pub(super) fn add(&mut self, body: Range<usize>) -> Result<(), usize> {
        parse(&self.buffer, body, &mut self.ops)
    }

    pub(super) const fn buffer(&self) -> &Vec<u8> {
        &self.buffer
    }

    pub(super) const fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Forgets the operations from a place in the list on.
    pub(super) fn truncate_ops(&mut self, len: usize) {
        self.ops.truncate(len);
    }

    pub(super) fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The bytes at a place; none where it does not exist.
    pub(super) fn bytes(&self, place: &Range<usize>) -> &[u8] {
        self.buffer.get(place.clone()).unwrap_or_default()
    }

    /// The text at a place. Ours is all UTF-8; what is not matches no name.
    pub(super) fn text(&self, place: &Range<usize>) -> &str {
        str::from_utf8(self.bytes(place)).unwrap_or_default()
    }

    /// The last word on a file.
    pub(super) fn latest(&self, key: &str) -> Latest<'_> {
        let last = self.ops.iter().rev().find(|op| self.is_of(op, key));
        last.map_or(Latest::File, |op| self.word_of(op))
    }

    /// The last word on a block's file, and the changes that stand behind it.
    pub(super) fn of_block(&self, path: &str, cidr: Cidr) -> (Latest<'_>, Vec<&Op>) {
        let text = cidr.to_string();
        let mut latest = Latest::File;
        let mut changes = Vec::new();
        for op in &self.ops {
            if matches!(op.verb, OpVerb::Set | OpVerb::Clear) {
                if self.bytes(&op.name) == text.as_bytes() {
                    changes.push(op);
                }
            } else if self.is_of(op, path) {
                latest = self.word_of(op);
                changes.clear();
            }
        }
        (latest, changes)
    }

    /// What was put (true) and deleted (false) directly in a directory, in order.
    pub(super) fn names_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, bool)> {
        self.ops.iter().filter_map(move |op| {
            let present = match op.verb {
                OpVerb::Put => true,
                OpVerb::Delete => false,
                _ => return None,
            };
            let name = self.text(&op.name).strip_prefix(folder)?.strip_prefix('/')?;
            (!name.contains('/')).then_some((name, present))
        })
    }

    /// The directories directly in a directory in which something was put.
    pub(super) fn folders_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.ops.iter().filter_map(move |op| {
            let beneath = self.text(&op.name).strip_prefix(folder)?.strip_prefix('/')?;
            let (name, _) = beneath.split_once('/')?;
            (op.verb == OpVerb::Put).then_some(name)
        })
    }

    /// The blocks that a handle gained (true) and lost (false), in order.
    pub(super) fn of_handle<'a>(&'a self, handle: &'a HandleId) -> impl Iterator<Item = (&'a str, bool)> {
        self.ops.iter().filter_map(move |op| {
            let gained = match op.verb {
                OpVerb::HandleAdd => true,
                OpVerb::HandleRemove => false,
                _ => return None,
            };
            (self.bytes(&op.name) == handle.as_str().as_bytes()).then(|| (self.text(&op.block), gained))
        })
    }

    /// One more than the highest sequence number of a block that was deleted; 0: none was.
    pub(super) fn floor(&self) -> u64 {
        let deleted = self.ops.iter().filter(|op| op.verb == OpVerb::Delete);
        deleted.map(|op| op.sequence).max().unwrap_or(0)
    }

    fn is_of(&self, op: &Op, key: &str) -> bool {
        matches!(op.verb, OpVerb::Put | OpVerb::Delete) && self.bytes(&op.name) == key.as_bytes()
    }

    fn word_of(&self, op: &Op) -> Latest<'_> {
        match op.verb {
            OpVerb::Put => Latest::Put(self.bytes(&op.payload)),
            _ => Latest::Deleted,
        }
    }
}
