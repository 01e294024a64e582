//! The limits of the readers, kept by the writers: nothing is committed that could not be read again.

use super::FileStore;
use super::change::weight;
use super::codec::compact;
use super::open_file::FILE_BYTES_MAX;
use super::record::Body;
use crate::api::calico::IpamBlock;
use crate::datastore::{Error, Key};

/// An ADD leaves so many bytes of a block's file free: a release notes its time in the block, and must not be refused.
const KEPT_FOR_RELEASES: usize = 1 << 20;
/// The most bytes of an address in a block's file, besides its attribute.
const BYTES_PER_ADDRESS: usize = 64;

/// The limit as the type of lengths.
fn bytes_max() -> usize {
    usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX)
}

/// Refuses a record that would make a file too large to be read.
pub(super) fn check_files(body: &Body) -> Result<(), Error> {
    match body.largest_put() {
        Some((name, len)) if len > bytes_max() => Err(too_large(name, len)),
        _ => Ok(()),
    }
}

impl FileStore {
    /// Refuses a change that would make a block's file too large to be read, and what would leave no room for releases.
    pub(super) fn check_block(old: Option<&IpamBlock>, new: &IpamBlock) -> Result<(), Error> {
        let attributes: usize = new.attributes.iter().map(|attribute| attribute.as_json().len()).sum();
        let at_most = attributes + new.allocations.len() * BYTES_PER_ADDRESS;
        if at_most < bytes_max() / 2 {
            return Ok(());
        }
        let gains = old.is_none_or(|old| weight(new) >= weight(old));
        let limit = bytes_max() - if gains { KEPT_FOR_RELEASES } else { 0 };
        let len = compact(new).len();
        if len > limit { Err(too_large(&Key::Block(new.cidr).to_string(), len)) } else { Ok(()) }
    }
}

fn too_large(what: &str, len: usize) -> Error {
    Error::NotStorable {
        what: what.to_owned(),
        problem: format!("it would have {len} bytes, and no file of a store has more than {FILE_BYTES_MAX}"),
    }
}
