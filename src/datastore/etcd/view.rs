//! What a call has read so far: keys, what stands at them, and which lists are known as a whole.
//!
//! It lives for one attempt. What it says may be out of date by a few requests, which every commit finds out: it compares
//! the revisions of all that it rests on.

use std::collections::BTreeMap;

use super::format::{Held, assemble, homes_of, parse_key};
use super::wire::KeyValue;
use crate::datastore::{Entry, Error, Key};
use crate::net::Cidr;

/// What is listed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// Blocks.
    Blocks,
    /// Networks carved out of pools.
    Carved,
}

/// The names within a network, as they were at a revision of the whole store.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) listed: Listed,
    pub(super) network: Cidr,
    pub(super) revision: u64,
    /// Those that overlap the network, ascending.
    pub(super) cidrs: Vec<Cidr>,
}

#[derive(Clone, Debug)]
struct Stands {
    value: Vec<u8>,
    mod_revision: u64,
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct View {
    /// `None`: nothing stands there.
    keys: BTreeMap<String, Option<Stands>>,
    /// Prefixes of which every key is known.
    whole: Vec<String>,
    /// Networks of which every block is known.
    networks: Vec<Cidr>,
    listings: Vec<Listing>,
}

impl View {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes in what stands at a key. Whoever read it later is right.
    pub(super) fn take(&mut self, found: KeyValue) {
        let Ok(key) = String::from_utf8(found.key.0) else { return };
        self.keys.insert(key, Some(Stands { value: found.value.0, mod_revision: found.mod_revision.0 }));
    }

    /// Nothing stands at a key.
    pub(super) fn absent(&mut self, key: &str) {
        self.keys.insert(key.to_owned(), None);
    }

    /// Every key with a prefix was taken in.
    pub(super) fn know_all(&mut self, prefix: &str) {
        self.whole.push(prefix.to_owned());
    }

    /// Every block of a network was taken in.
    pub(super) fn know_blocks(&mut self, network: Cidr) {
        self.networks.push(network);
    }

    /// Whether every block that overlaps a network is known.
    pub(super) fn knows_blocks(&self, network: Cidr) -> bool {
        self.networks.iter().any(|whole| whole.contains(network))
    }

    /// Takes in a list of names.
    pub(super) fn list(&mut self, listing: Listing) {
        self.listings.push(listing);
    }

    /// Whether it is known what stands at a key.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.keys.contains_key(key) || self.whole.iter().any(|prefix| key.starts_with(prefix.as_str()))
    }

    /// Whether every key with a prefix is known.
    pub(super) fn knows_all(&self, prefix: &str) -> bool {
        self.whole.iter().any(|whole| prefix.starts_with(whole.as_str()))
    }

    /// What stands at a key, as far as is known.
    pub(super) fn held(&self, key: &str) -> Option<Held<'_>> {
        let stands = self.keys.get(key)?.as_ref()?;
        Some(Held { value: &stands.value, mod_revision: stands.mod_revision })
    }

    /// The latest list of names that has all within a network.
    pub(super) fn listing(&self, listed: Listed, network: Cidr) -> Option<&Listing> {
        let has = |listing: &&Listing| listing.listed == listed && listing.network.contains(network);
        self.listings.iter().rev().find(has)
    }

    /// The object of a key, whose homes are known.
    pub(super) fn entry(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let homes: Vec<_> = homes_of(key).iter().map(|home| self.held(home)).collect();
        assemble(key, &homes)
    }

    /// The keys with a prefix at which something stands, as they are.
    pub(super) fn keys_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let there =
            self.keys.range(prefix.to_owned()..).take_while(move |(text, _)| text.starts_with(prefix));
        there.filter(|(_, stands)| stands.is_some()).map(|(text, _)| text.as_str())
    }

    /// The objects with a prefix, each as it can be read, in the order of their keys. Keys that are not ours are left out.
    pub(super) fn under<'a>(&'a self, prefix: &'a str) -> Vec<(Key, Result<Entry, Error>)> {
        let there = self.keys.range(prefix.to_owned()..).take_while(|(text, _)| text.starts_with(prefix));
        let found = there.filter(|(_, stands)| stands.is_some()).filter_map(|(text, _)| {
            let key = parse_key(text)?;
            let entry = self.entry(&key).transpose()?;
            Some((key, entry))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found
    }
}

/// The objects of a list that can be read; the others are noted in the log.
pub(super) fn readable(found: Vec<(Key, Result<Entry, Error>)>) -> Vec<Entry> {
    let keep = |(key, entry): (Key, Result<Entry, Error>)| match entry {
        Ok(entry) => Some(entry),
        Err(error) => {
            log::warn!("{key} is passed over: {error}");
            None
        }
    };
    found.into_iter().filter_map(keep).collect()
}
