//! The lowest sequence number that a new block may start with: above all that deleted blocks had.
//!
//! It is kept in a few keys, by the block's range, so that those who delete blocks at the same time seldom meet.

use super::view::View;
use crate::net::Cidr;

/// Where the floors stand.
pub(super) const PREFIX: &str = "/host-affine/floor/";
/// How many there are.
const SHARDS: u32 = 16;

/// The key of the floor that a block is under.
pub(super) fn key_of(block: Cidr) -> String {
    let hash = block
        .to_string()
        .bytes()
        .fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    format!("{PREFIX}{:x}", (hash >> 16) % SHARDS)
}

/// A floor as it stands, 0 where there is none, or none that can be read: new blocks start with the time, which is above
/// it unless a clock was set back.
pub(super) fn at(key: &str, view: &View) -> u64 {
    let text = view.held(key).and_then(|held| std::str::from_utf8(held.value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The highest of them.
pub(super) fn highest(view: &View) -> u64 {
    (0..SHARDS).map(|shard| at(&format!("{PREFIX}{shard:x}"), view)).max().unwrap_or(0)
}
