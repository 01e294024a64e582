//! What only we keep: networks carved out of pools with what they were carved for, and virtual machines.

use std::collections::BTreeSet;

use super::FileStore;
use super::codec::{damaged, decode_carved, decode_extras, decode_of_handle, decode_of_project};
use super::layout::{ALLOCATIONS, CARVED, CLAIMS, MACHINES, POOL_EXTRAS, cidr_of_file, path};
use crate::api::milo::{IpAllocationSpec, IpClaimSpec};
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
            Collection::PoolExtras => POOL_EXTRAS,
            Collection::Allocations => ALLOCATIONS,
            Collection::Claims => CLAIMS,
            Collection::Machines => MACHINES,
        };
        let list = |store: &mut Self| {
            let projects = match collection {
                Collection::Allocations | Collection::Claims => {
                    store.folders(folder)?.into_iter().map(|project| format!("{folder}/{project}")).collect()
                }
                _ => vec![folder.to_owned()],
            };
            let mut names = BTreeSet::new();
            for project in projects {
                names.extend(store.names(&project)?.into_iter().map(|name| format!("{project}/{name}")));
            }
            Ok(names)
        };
        let mut entries = self.walk(list, |store, name| store.own_file(name))?;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// What a file holds; what it is follows from where it stands.
    pub(super) fn own_file(&self, name: &str) -> Result<Option<Entry>, Error> {
        let Some(content) = self.content(name)? else {
            return Ok(None);
        };
        let at = self.dir.path_of(name);
        let stands_here = |key: &Key| path(key).as_deref() == Some(name);
        let (folder, file) = name.rsplit_once('/').unwrap_or_default();
        let is_in = |of: &str| folder.strip_prefix(of).is_some_and(|rest| rest.starts_with('/'));
        match folder {
            CARVED => match cidr_of_file(file) {
                Some(cidr) => decode_carved(&at, cidr, &content),
                None => Err(damaged(&at, "its name is no network".to_owned())),
            },
            POOL_EXTRAS => decode_extras(&at, &content, stands_here),
            MACHINES => decode_of_handle::<Machine>(&at, &content, Key::Machine, stands_here),
            _ if is_in(ALLOCATIONS) => {
                decode_of_project::<IpAllocationSpec>(&at, &content, Key::Allocation, stands_here)
            }
            _ if is_in(CLAIMS) => decode_of_project::<IpClaimSpec>(&at, &content, Key::Claim, stands_here),
            _ => decode_of_handle::<MachinesOf>(&at, &content, Key::MachinesOf, stands_here),
        }
        .map(Some)
    }
}
