//! Looking through the whole store: its blocks, and whether what is derived agrees with them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use nix::fcntl::OFlag;

use super::codec::{decode_affinity, decode_import, decode_resource};
use super::index::{self, Lookup};
use super::layout::{
    AFFINITIES, ALLOCATIONS, CARVED, CLAIMS, CONFIGURATIONS, IMPORTS, INDEX, MACHINES, MACHINES_OF, NODES,
    POOL_EXTRAS, POOLS, RESERVATIONS, STATE, cidr_of_file, escape, fnv1a, path,
};
use super::record::OpVerb;
use super::slots::{PAGE_BYTES, SLOT_BYTES, parse_slot};
use super::{Access, FileStore};
use crate::api::calico::{IpPoolSpec, IpReservationSpec, IpamBlock, IpamConfigurationSpec};
use crate::datastore::{Affinities, Derived, Entry, Error, Inspect, Visit};
use crate::net::Cidr;

/// A handle's hash, and a block to which it leads. A list of them takes half of what a map does.
type Way = (u64, Cidr);

impl Inspect for FileStore {
    /// A session that only reads holds no lock meanwhile. Files are replaced whole, and what the journal said when it
    /// was read stays true until they are. What is missing or looks wrong is looked at again under the lock.
    async fn each_block(&mut self, visit: &mut dyn FnMut(Visit)) -> Result<(), Error> {
        self.lock_again()?;
        if self.access == Access::Read {
            self.unlock();
        }
        let cidrs = self.block_cidrs()?;
        let total = cidrs.len();
        let mut again = Vec::new();
        for cidr in cidrs {
            match self.block_uncached(cidr) {
                Ok(Some(block)) => visit(Visit { cidr, total, block: Ok(block) }),
                Ok(None) | Err(_) => again.push(cidr),
            }
        }
        if again.is_empty() {
            return Ok(());
        }
        self.lock_again()?;
        for cidr in again {
            if let Some(block) = self.block_uncached(cidr).transpose() {
                visit(Visit { cidr, total, block });
            }
        }
        Ok(())
    }

    /// As with blocks.
    async fn all_affinities(&mut self) -> Result<Affinities, Error> {
        self.lock_again()?;
        if self.access == Access::Read {
            self.unlock();
        }
        let mut records = Vec::new();
        let mut again = Vec::new();
        for owner in self.folders(AFFINITIES)? {
            let folder = format!("{AFFINITIES}/{owner}");
            for (name, content) in self.objects_in(&folder)? {
                let Some(cidr) = cidr_of_file(&name) else { continue };
                let file = format!("{folder}/{name}");
                match self.affinity_in(&file, &content) {
                    Ok(entry) => records.push(entry),
                    Err(_) => again.push((cidr, file)),
                }
            }
        }
        let mut damaged = Vec::new();
        if !again.is_empty() {
            self.lock_again()?;
        }
        for (cidr, file) in again {
            let Some(content) = self.content(&file)? else { continue };
            match self.affinity_in(&file, &content) {
                Ok(entry) => records.push(entry),
                Err(error) => damaged.push((cidr, error)),
            }
        }
        records.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Affinities { records, damaged })
    }

    fn pass_over_damage(&mut self) {
        self.passed_over.get_or_insert_default();
    }

    fn passed_over(&mut self) -> Vec<Error> {
        self.passed_over.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// As with blocks.
    async fn unreadable(&mut self) -> Result<Vec<Error>, Error> {
        self.lock_again()?;
        if self.access == Access::Read {
            self.unlock();
        }
        let mut again = Vec::new();
        for name in self.object_files()? {
            if self.check_object(&name).is_err() {
                again.push(name);
            }
        }
        if again.is_empty() {
            return Ok(Vec::new());
        }
        self.lock_again()?;
        Ok(again.iter().filter_map(|name| self.check_object(name).err()).collect())
    }

    fn counts_handles(&self) -> bool {
        true
    }

    /// As with blocks, whoever only reads holds no lock meanwhile, and looks again at what looked wrong.
    async fn derived(&mut self) -> Result<Vec<Derived>, Error> {
        self.lock_again()?;
        let unusable = |file: &str| Derived::Unusable { file: file.to_owned() };
        self.settings()?;
        let state_is_stale = self.state_is_stale;
        if self.access == Access::Read {
            self.unlock();
        }
        let mut found = match self.ways()? {
            None => vec![unusable(INDEX)],
            Some(ways) => self.compare(&ways)?,
        };
        if !found.is_empty() {
            self.lock_again()?;
            let looked_at = std::mem::take(&mut found);
            for one in looked_at {
                if self.is_so(&one)? {
                    found.push(one);
                }
            }
        }
        if state_is_stale {
            found.push(unusable(STATE));
        }
        Ok(found)
    }

    async fn rebuild(&mut self) -> Result<Vec<String>, Error> {
        let found = self.derived().await?;
        self.rebuild_derived(&found)
    }
}

/// Every way from handles to blocks.
pub(super) struct Ways {
    /// Ascending.
    listed: Vec<Way>,
    /// Hashes of handles in too many blocks to list.
    many: BTreeSet<u64>,
}

impl Ways {
    /// Those that lead to some block.
    pub(super) fn to(&self, block: Cidr) -> impl Iterator<Item = u64> {
        self.listed.iter().filter(move |(_, cidr)| *cidr == block).map(|(hash, _)| *hash)
    }
}

impl FileStore {
    fn affinity_in(&self, file: &str, content: &[u8]) -> Result<Entry, Error> {
        decode_affinity(&self.dir.path_of(file), content, |key| path(key).as_deref() == Some(file))
    }

    /// The files of all objects but blocks and affinities.
    fn object_files(&self) -> Result<Vec<String>, Error> {
        let flat =
            [CONFIGURATIONS, POOLS, RESERVATIONS, IMPORTS, NODES, CARVED, POOL_EXTRAS, MACHINES, MACHINES_OF];
        let mut folders: Vec<String> = flat.map(str::to_owned).into();
        for folder in [ALLOCATIONS, CLAIMS] {
            folders.extend(self.folders(folder)?.into_iter().map(|project| format!("{folder}/{project}")));
        }
        let mut files = Vec::new();
        for folder in folders {
            files.extend(self.names(&folder)?.into_iter().map(|name| format!("{folder}/{name}")));
        }
        Ok(files)
    }

    /// Whether an object can be read. One that is gone need not be.
    fn check_object(&self, name: &str) -> Result<(), Error> {
        let (folder, file) = name.rsplit_once('/').unwrap_or_default();
        let Some(content) = self.content(name)? else { return Ok(()) };
        let path = self.dir.path_of(name);
        let is_it = |found: &str| file.strip_suffix(".json") == Some(&escape(found));
        match folder {
            CONFIGURATIONS => decode_resource::<IpamConfigurationSpec>(&path, &content, is_it).map(drop),
            POOLS => decode_resource::<IpPoolSpec>(&path, &content, is_it).map(drop),
            RESERVATIONS => decode_resource::<IpReservationSpec>(&path, &content, is_it).map(drop),
            IMPORTS => decode_import(&path, &content, is_it).map(drop),
            NODES => self.node_in(name, is_it).map(drop),
            _ => self.own_file(name).map(drop),
        }
    }

    /// What the index and the journal say; `None`: the index is not to be believed.
    pub(super) fn ways(&self) -> Result<Option<Ways>, Error> {
        let mut listed = BTreeSet::new();
        let mut many = BTreeSet::new();
        if self.journal.header.index != 0 {
            if index::lookup(&self.dir, &self.journal, 0)? == Lookup::Unusable {
                return Ok(None);
            }
            let Some(file) = self.dir.open_file(INDEX, OFlag::O_RDONLY)? else { return Ok(None) };
            let page_bytes = u64::try_from(PAGE_BYTES).unwrap_or(u64::MAX);
            for page in 1..file.size / page_bytes {
                for line in file.read_at(page * page_bytes, PAGE_BYTES)?.chunks(SLOT_BYTES) {
                    match parse_slot(line) {
                        Ok(Some((hash, Some(cidr)))) => drop(listed.insert((hash, cidr))),
                        Ok(Some((hash, None))) => drop(many.insert(hash)),
                        Ok(None) => {}
                        Err(_) => return Ok(None),
                    }
                }
            }
        }
        let overlay = &self.journal.overlay;
        for op in overlay.ops() {
            let is_gained = match op.verb {
                OpVerb::HandleAdd => true,
                OpVerb::HandleRemove => false,
                _ => continue,
            };
            let Ok(cidr) = overlay.text(&op.block).parse() else { continue };
            let way = (fnv1a(overlay.bytes(&op.name)), cidr);
            if is_gained {
                listed.insert(way);
            } else if !self.is_shared(overlay.text(&op.name), cidr) {
                listed.remove(&way);
            }
        }
        Ok(Some(Ways { listed: listed.into_iter().collect(), many }))
    }

    /// Whether another handle with the hash of this one has an address in a block, so that their slot stays.
    fn is_shared(&self, name: &str, cidr: Cidr) -> bool {
        let hash = fnv1a(name.as_bytes());
        let block = self.block_uncached(cidr).ok().flatten();
        block.iter().flat_map(owner_names).any(|other| other != name && fnv1a(other.as_bytes()) == hash)
    }

    /// What the ways and the blocks say of each other. A block that cannot be read says nothing.
    fn compare(&mut self, ways: &Ways) -> Result<Vec<Derived>, Error> {
        let mut found = Vec::new();
        let mut walked = vec![false; ways.listed.len()];
        let mut silent = BTreeSet::new();
        for cidr in self.block_cidrs()? {
            let Ok(block) = self.block_uncached(cidr) else {
                silent.insert(cidr);
                continue;
            };
            for handle in block.iter().flat_map(owner_names) {
                let hash = fnv1a(handle.as_bytes());
                match ways.listed.binary_search(&(hash, cidr)) {
                    Ok(place) => walked[place] = true,
                    Err(_) if ways.many.contains(&hash) => {}
                    Err(_) => found.push(Derived::LostHandle { handle: handle.into_owned(), block: cidr }),
                }
            }
        }
        for (&(hash, block), _) in ways.listed.iter().zip(walked).filter(|(_, walked)| !walked) {
            if !silent.contains(&block) {
                found.push(Derived::StrayHandle { hash: format!("{hash:016x}"), block });
            }
        }
        Ok(found)
    }
}

impl FileStore {
    /// Whether something does not agree now, under the lock.
    fn is_so(&self, derived: &Derived) -> Result<bool, Error> {
        match derived {
            Derived::Unusable { .. } => {
                let is_written = self.journal.header.index != 0;
                Ok(is_written && index::lookup(&self.dir, &self.journal, 0)? == Lookup::Unusable)
            }
            Derived::LostHandle { handle, block } => {
                let holds = self
                    .block_uncached(*block)?
                    .is_some_and(|block| owner_names(&block).contains(handle.as_str()));
                Ok(holds && !self.leads(fnv1a(handle.as_bytes()), *block)?)
            }
            Derived::StrayHandle { hash, block } => {
                let Ok(hash) = u64::from_str_radix(hash, 16) else { return Ok(false) };
                let is_owner =
                    |block: &IpamBlock| owner_names(block).iter().any(|name| fnv1a(name.as_bytes()) == hash);
                let holds = self.block_uncached(*block)?.is_some_and(|block| is_owner(&block));
                Ok(!holds && self.leads(hash, *block)?)
            }
            // Nobody else takes addresses here.
            Derived::Unshielded { .. } | Derived::StrayShield { .. } => Ok(false),
        }
    }

    /// Whether there is a way from a handle to a block.
    fn leads(&self, hash: u64, block: Cidr) -> Result<bool, Error> {
        let mut leads = match index::lookup(&self.dir, &self.journal, hash)? {
            Lookup::Blocks(blocks) => blocks.contains(&block),
            // All blocks are looked at then.
            Lookup::TooMany | Lookup::Unusable => true,
        };
        let overlay = &self.journal.overlay;
        for op in overlay.ops().iter().filter(|op| fnv1a(overlay.bytes(&op.name)) == hash) {
            if overlay.text(&op.block).parse() == Ok(block) {
                match op.verb {
                    OpVerb::HandleAdd => leads = true,
                    OpVerb::HandleRemove => leads = self.is_shared(overlay.text(&op.name), block),
                    _ => {}
                }
            }
        }
        Ok(leads)
    }
}

/// The handles that own something of a block, each once.
pub(super) fn owner_names(block: &IpamBlock) -> BTreeSet<Cow<'_, str>> {
    let used: BTreeSet<u16> = block.allocations.iter().flatten().copied().collect();
    let attributes = used.iter().filter_map(|index| block.attributes.get(usize::from(*index)));
    attributes.filter_map(|attribute| attribute.fields().handle_id).collect()
}
