//! What stood in the way of a batch, by what etcd found when it refused it.

use std::collections::BTreeMap;

use super::fetch::cidr_of;
use super::format::{Held, assemble, homes_of, key_of, revision_of};
use super::wire::{KeyValue, TxnResponse};
use crate::datastore::{Batch, Change, Conflict, Guard, Key, Revision};
use crate::net::Cidr;

/// Every operation and guard that does not hold by what was found. It may be none: what stood in the way may be nobody's,
/// and is gone when it is read again.
pub(super) fn found(batch: &Batch, answer: &TxnResponse) -> Vec<Conflict> {
    let ranges = answer.responses.iter().filter_map(|response| response.response_range.as_ref());
    let found: BTreeMap<&[u8], &KeyValue> =
        ranges.flat_map(|range| &range.kvs).map(|found| (found.key.0.as_slice(), found)).collect();
    let mut conflicts = Vec::new();
    for op in &batch.ops {
        let expected = match &op.change {
            Change::Create(_) => None,
            Change::Update(revision, _) | Change::Delete(revision) => Some(*revision),
        };
        conflicts.extend(unlike(&op.key, expected, &found));
    }
    for guard in &batch.guards {
        match guard {
            Guard::Unchanged(key, expected) => conflicts.extend(unlike(key, *expected, &found)),
            Guard::NothingNewIn(network, seen) => conflicts.extend(new_in(*network, seen, batch, &found)),
        }
    }
    conflicts
}

fn unlike(key: &Key, expected: Option<Revision>, found: &BTreeMap<&[u8], &KeyValue>) -> Option<Conflict> {
    let homes = homes_of(key);
    let held = |home: &String| {
        let stands = found.get(home.as_bytes())?;
        Some(Held { value: &stands.value.0, mod_revision: stands.mod_revision.0 })
    };
    let homes: Vec<_> = homes.iter().map(held).collect();
    (revision_of(&homes) != expected)
        .then(|| Conflict { key: key.clone(), found: assemble(key, &homes).ok().flatten() })
}

fn new_in(network: Cidr, seen: &[Cidr], batch: &Batch, found: &BTreeMap<&[u8], &KeyValue>) -> Vec<Conflict> {
    let there = found.values().filter_map(|found| Some((cidr_of(&found.key)?, *found)));
    let new = there.filter(|(cidr, _)| cidr.overlaps(network) && !seen.contains(cidr));
    let keys = new.map(|(cidr, found)| {
        let block = Key::Block(cidr);
        if key_of(&block).as_bytes() == found.key.0 { block } else { Key::Carved(cidr) }
    });
    // What the batch itself was to change is told by its operation.
    keys.filter(|key| !batch.ops.iter().any(|op| op.key == *key))
        .map(|key| Conflict { key, found: None })
        .collect()
}
