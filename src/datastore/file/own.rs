//! Records of our own: networks carved out of pools, and virtual machines.

use std::collections::BTreeSet;

use super::FileStore;
use super::codec::{damaged, decode_carved, decode_of_handle};
use super::layout::{CARVED, MACHINES, cidr_of_file, path};
use crate::datastore::{Collection, Entry, Error, Key, Machine, MachinesOf};
use crate::net::Cidr;

impl FileStore {
    /// One record.
    pub(super) fn own_record(&self, key: &Key) -> Result<Option<Entry>, Error> {
        self.own_file(&path(key).unwrap_or_default())
    }

    /// Which networks are carved out of pools.
    pub(super) fn carved_cidrs(&self) -> Result<BTreeSet<Cidr>, Error> {
        Ok(self.names(CARVED)?.iter().filter_map(|name| cidr_of_file(name)).collect())
    }

    /// All records of a collection, in the order of their keys.
    pub(super) fn collection(&mut self, collection: Collection) -> Result<Vec<Entry>, Error> {
        let folder = match collection {
            Collection::Carved => CARVED,
            Collection::Machines => MACHINES,
        };
        let mut entries = self
            .walk(|store| store.names(folder), |store, name| store.own_file(&format!("{folder}/{name}")))?;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// What a file holds; what it is follows from where it stands.
    fn own_file(&self, name: &str) -> Result<Option<Entry>, Error> {
        let Some(content) = self.content(name)? else {
            return Ok(None);
        };
        let at = self.dir.path_of(name);
        let stands_here = |key: &Key| path(key).as_deref() == Some(name);
        let (folder, file) = name.rsplit_once('/').unwrap_or_default();
        match folder {
            CARVED => match cidr_of_file(file) {
                Some(cidr) => decode_carved(&at, cidr, &content),
                None => Err(damaged(&at, "its name is no network".to_owned())),
            },
            MACHINES => decode_of_handle::<Machine>(&at, &content, Key::Machine, stands_here),
            _ => decode_of_handle::<MachinesOf>(&at, &content, Key::MachinesOf, stands_here),
        }
        .map(Some)
    }
}
