//! That nothing new overlaps a network, as conditions on keys.
//!
//! Blocks within the network stand in a few ranges of keys; blocks around it at a few keys; what is carved out, whose
//! records are few, anywhere among them. Nothing in the ranges may have been created since they were listed, and at the
//! keys around nothing may stand that was not seen.

use super::cover;
use super::fetch::Fetch;
use super::format::{blocks_of, carved_of, key_of};
use super::plan::Plan;
use super::view::{Listed, View};
use super::wire::{Compare, Number, Operation, Range};
use crate::datastore::{Conflict, Key};
use crate::net::Cidr;

/// The lists that a guard of a network goes by, unless they are there.
pub(super) fn needed(network: Cidr, view: &View) -> Vec<Fetch> {
    let lists = [Listed::Blocks, Listed::Carved].into_iter();
    lists
        .filter(|listed| view.listing(*listed, network).is_none())
        .map(|listed| Fetch::Names(listed, network))
        .collect()
}

/// How closely a guard looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// At the keys that matter.
    Fine,
    /// At all keys of a kind: where so many networks are guarded at once that a transaction could not name their keys.
    /// Whoever makes any block meanwhile makes it start over.
    Coarse,
}

/// Adds what must hold.
pub(super) fn hold(network: Cidr, seen: &[Cidr], grain: Grain, view: &View, plan: &mut Plan) {
    let mut blocks_at = 0;
    for listed in [Listed::Blocks, Listed::Carved] {
        let Some(listing) = view.listing(listed, network) else { continue };
        for cidr in listing.cidrs.iter().filter(|cidr| cidr.overlaps(network) && !seen.contains(cidr)) {
            let key = match listed {
                Listed::Blocks => Key::Block(*cidr),
                Listed::Carved => Key::Carved(*cidr),
            };
            let found = view.entry(&key).ok().flatten();
            plan.conflicts.push(Conflict { key, found });
        }
        let ranges = match (listed, grain) {
            (Listed::Blocks, Grain::Fine) => cover::inside(network),
            (Listed::Blocks, Grain::Coarse) => vec![Range::prefix(&blocks_of(network.family()))],
            (Listed::Carved, _) => vec![Range::prefix(&carved_of(network.family()))],
        };
        for range in ranges {
            plan.require(Compare::none_created_after(&range, listing.revision));
            let new = Range { keys_only: true, min_create_revision: Number(listing.revision + 1), ..range };
            plan.failure.push(Operation::Range(new));
        }
        if listed == Listed::Blocks {
            blocks_at = listing.revision;
        }
    }
    if grain == Grain::Coarse {
        return;
    }
    let seen: Vec<String> = seen.iter().map(|cidr| key_of(&Key::Block(*cidr))).collect();
    for key in cover::around(network).into_iter().filter(|key| !seen.contains(key)) {
        plan.require(Compare::none_created_after(&Range::point(&key), blocks_at));
    }
}
