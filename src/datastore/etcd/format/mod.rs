//! Objects as keys and values of etcd.
//!
//! What Calico has too stands where Calico looks for it and in its words: blocks, affinities, handles, pools,
//! reservations, nodes and the configuration, all under `/calico/`. What only we know stands under `/host-affine/`, since
//! Calico drops what it does not know whenever it writes.
//!
//! Most objects are one key ([`key_of`], [`decode`], [`encode`]). Two are not, and [`homes_of`], [`assemble`], [`needed_by`] and
//! [`writes_of`] take all objects alike:
//!
//! - the configuration has two homes: see [`configuration`];
//! - a network carved out of a pool keeps Calico's allocator away by an `IPReservation`: see [`shield`].

mod codec;
pub mod configuration;
mod homes;
mod json;
mod keys;
mod mend;
mod origins;
pub mod shield;

pub use codec::{decode, encode};
pub use homes::{Expect, Held, Write, assemble, homes_of, needed_by, revision_of, writes_of};
pub use keys::{
    AFFINITIES, ALLOCATIONS, BLOCKS, CARVED, CLAIMS, HANDLES, HINTS, IMPORTS, MACHINES, MACHINES_OF, NODES,
    OWN, POOL_EXTRAS, POOLS, RESERVATIONS, affinities_of, blocks_of, carved_of, collection, hint_key,
    is_of_nobody, key_of, parse_key,
};
pub use origins::origins;

#[cfg(test)]
mod tests;
