//! Blocks that have a free address.

use super::fetch::{Fetch, cidr_of};
use super::format::{affinities_of, decode, key_of};
use super::gateway::{Delivery, Gateway};
use super::view::View;
use super::wire::{KeyValue, Number, Operation, Range, TxnRequest};
use super::{cover, format};
use crate::api::Affinity;
use crate::api::calico::{Attribute, IpamBlock};
use crate::datastore::{Error, Key, Object, Revision, RoomOf, is_of, lies_in};
use crate::net::Cidr;

/// How many blocks are looked through at a time.
const PAGE: u64 = 200;

/// The block that an affinity is about.
pub(super) fn block_of(key: &Key) -> Option<Cidr> {
    match key {
        Key::Affinity(_, cidr) => Some(*cidr),
        _ => None,
    }
}

/// What must be read to find an owner's blocks with room: its affinities; then, unless one of them is known to have some,
/// all of its blocks.
pub(super) fn own(owner: &Affinity, within: &[Cidr], view: &View) -> Vec<Fetch> {
    let prefix = affinities_of(owner);
    if !view.knows_all(&prefix) {
        return vec![Fetch::Prefix(prefix)];
    }
    let blocks = recorded(owner, within, view);
    if blocks.iter().any(|cidr| has_room(owner, *cidr, view) == Some(true)) {
        return Vec::new();
    }
    blocks.into_iter().map(|cidr| Fetch::Point(key_of(&Key::Block(cidr)))).collect()
}

/// Those known to have room, then those that nobody has looked at yet.
pub(super) fn of_owner(owner: &Affinity, within: &[Cidr], enough: usize, view: &View) -> Vec<Cidr> {
    let blocks = recorded(owner, within, view);
    let of = |known: Option<bool>| {
        blocks.iter().copied().filter(move |cidr| has_room(owner, *cidr, view) == known)
    };
    of(Some(true)).chain(of(None)).take(enough).collect()
}

fn recorded(owner: &Affinity, within: &[Cidr], view: &View) -> Vec<Cidr> {
    let found = view.under(&affinities_of(owner)).into_iter();
    found.filter_map(|(key, _)| block_of(&key)).filter(|cidr| lies_in(within, *cidr)).collect()
}

/// `None`: nobody has looked. A block that cannot be read may have some, as far as is known.
fn has_room(owner: &Affinity, cidr: Cidr, view: &View) -> Option<bool> {
    let key = Key::Block(cidr);
    if !view.knows(&key_of(&key)) {
        return None;
    }
    let entry = view.entry(&key).ok()?;
    Some(entry.is_some_and(|entry| match entry.object {
        Object::Block(block) => block.affinity.as_ref() == Some(owner) && may_have_room(&block),
        _ => false,
    }))
}

fn may_have_room(block: &IpamBlock) -> bool {
    !block.unallocated.is_empty() || block.attributes.iter().any(Attribute::may_be_cooling)
}

/// Looks through all blocks within some networks for those with room that are meant, until there are enough. What is
/// found is kept in the view.
pub(super) fn of_others(
    gateway: &mut Gateway,
    view: &mut View,
    of: &RoomOf,
    within: &[Cidr],
    enough: usize,
) -> Result<Vec<Cidr>, Error> {
    let mut found = Vec::new();
    for range in within.iter().flat_map(|network| cover::inside(*network)) {
        let mut range = Range { limit: Number(PAGE), ..range };
        while found.len() < enough {
            let request =
                TxnRequest { success: vec![Operation::Range(range.clone())], ..TxnRequest::default() };
            let mut answer = gateway.txn(&request, Delivery::Repeatable)?.unwrap_or_default();
            let page =
                answer.responses.pop().and_then(|response| response.response_range).unwrap_or_default();
            let Some(last) = page.kvs.last().map(|last| last.key.clone()) else { break };
            for stands in page.kvs {
                if let Some(cidr) = meant(&stands, of, within)
                    && !found.contains(&cidr)
                {
                    found.push(cidr);
                    view.take(stands);
                }
            }
            if !page.more {
                break;
            }
            range.key = last;
            range.key.0.push(0);
        }
    }
    found.sort();
    found.truncate(enough);
    Ok(found)
}

fn meant(stands: &KeyValue, of: &RoomOf, within: &[Cidr]) -> Option<Cidr> {
    let cidr = cidr_of(&stands.key).filter(|cidr| lies_in(within, *cidr))?;
    let revision = Revision(stands.mod_revision.0);
    match decode(&Key::Block(cidr), &stands.value.0, revision) {
        Ok(Object::Block(block)) => {
            (is_of(of, block.affinity.as_ref()) && may_have_room(&block)).then_some(cidr)
        }
        Ok(_) => None,
        Err(error) => {
            log::warn!("{}: {error}", format::key_of(&Key::Block(cidr)));
            None
        }
    }
}
