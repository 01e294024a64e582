//! Looking through all of a store, whatever is damaged in it.

use super::fetch::Fetch;
use super::format::{
    AFFINITIES, ALLOCATIONS, BLOCKS, CARVED, CLAIMS, HANDLES, IMPORTS, MACHINES, MACHINES_OF, NODES,
    POOL_EXTRAS, POOLS, RESERVATIONS, homes_of, key_of, origins,
};
use super::view::Listed;
use super::{EtcdStore, room, upkeep};
use crate::datastore::{Affinities, Derived, Error, Inspect, Key, OptionOrigin, Visit};
use crate::net::{Cidr, Family};

/// How many blocks are read at once.
const CHUNK: usize = 64;

impl Inspect for EtcdStore {
    async fn each_block(&mut self, visit: &mut dyn FnMut(Visit)) -> Result<(), Error> {
        self.forget();
        let everything = [Family::V4, Family::V6].map(|family| Cidr::containing(family.address(0), 0));
        let mut cidrs = Vec::new();
        for network in everything.into_iter().flatten() {
            self.fetch(&[Fetch::Names(Listed::Blocks, network)])?;
            let listing = self.view.listing(Listed::Blocks, network);
            cidrs.extend(listing.map(|listing| listing.cidrs.clone()).unwrap_or_default());
        }
        for chunk in cidrs.chunks(CHUNK) {
            self.forget();
            let keys = chunk.iter().map(|cidr| Fetch::Point(key_of(&Key::Block(*cidr))));
            self.fetch(&keys.collect::<Vec<_>>())?;
            for cidr in chunk {
                let block = match self.view.entry(&Key::Block(*cidr)) {
                    Ok(None) => continue,
                    Ok(Some(entry)) => Ok(entry.into()),
                    Err(error) => Err(error),
                };
                visit(Visit { cidr: *cidr, total: cidrs.len(), block });
            }
        }
        self.forget();
        Ok(())
    }

    async fn all_affinities(&mut self) -> Result<Affinities, Error> {
        self.forget();
        let mut all = Affinities::default();
        for prefix in AFFINITIES {
            self.fetch(&[Fetch::Prefix(prefix.to_owned())])?;
            for (key, entry) in self.view.under(prefix) {
                match (entry, room::block_of(&key)) {
                    (Ok(entry), _) => all.records.push(entry),
                    (Err(error), Some(cidr)) => all.damaged.push((cidr, error)),
                    (Err(_), None) => {}
                }
            }
        }
        all.records.sort_by(|one, other| one.key.cmp(&other.key));
        self.forget();
        Ok(all)
    }

    async fn unreadable(&mut self) -> Result<Vec<Error>, Error> {
        const LISTS: [&str; 11] = [
            POOLS,
            RESERVATIONS,
            NODES,
            HANDLES,
            IMPORTS,
            CARVED,
            POOL_EXTRAS,
            ALLOCATIONS,
            CLAIMS,
            MACHINES,
            MACHINES_OF,
        ];
        let mut errors = Vec::new();
        self.forget();
        self.fetch(&homes_of(&Key::Configuration).into_iter().map(Fetch::Point).collect::<Vec<_>>())?;
        errors.extend(self.view.entry(&Key::Configuration).err());
        for prefix in LISTS {
            self.forget();
            self.fetch(&[Fetch::Prefix(prefix.to_owned())])?;
            errors.extend(self.view.under(prefix).into_iter().filter_map(|(_, entry)| entry.err()));
            errors.extend(upkeep::strangers(&self.view, prefix));
        }
        for prefix in AFFINITIES.into_iter().chain([BLOCKS]) {
            self.forget();
            self.fetch(&[Fetch::Prefix(prefix.to_owned())])?;
            errors.extend(upkeep::strangers(&self.view, prefix));
        }
        self.forget();
        Ok(errors)
    }

    async fn derived(&mut self) -> Result<Vec<Derived>, Error> {
        self.shields_amiss()
    }

    async fn rebuild(&mut self) -> Result<Vec<String>, Error> {
        self.mend_shields().await
    }

    async fn option_origins(&mut self) -> Result<Vec<OptionOrigin>, Error> {
        self.forget();
        let homes = homes_of(&Key::Configuration);
        self.fetch(&homes.iter().cloned().map(Fetch::Point).collect::<Vec<_>>())?;
        let [allocator, edited] =
            [0, 1].map(|at| homes.get(at).and_then(|home| self.view.held(home)).map(|held| held.value));
        let origins = origins(allocator, edited);
        self.forget();
        origins
    }
}
