//! Answers: the journal laid over the files.

use std::collections::BTreeSet;

use super::codec::{damaged, decode_affinity, decode_block, decode_resource};
use super::layout::{
    AFFINITIES, BLOCKS, JOURNAL, NODES, affinities_of, block_path, cidr_of_file, escape, path,
};
use super::overlay::Latest;
use super::record::{Op, OpVerb};
use super::{Access, FileStore, state};
use crate::api::HostName;
use crate::api::calico::{Attribute, IpamBlock, Node};
use crate::datastore::{Answer, Entry, Error, Key, Object, Revision, Want};
use crate::net::Cidr;

impl FileStore {
    pub(super) fn answer(&mut self, want: &Want) -> Result<Answer, Error> {
        Ok(match want {
            Want::Object(key) => Answer::Object(self.entry(key)?),
            Want::Settings => Answer::Settings(Box::new(self.settings()?)),
            Want::Held(id) => {
                let (held, blocks) = self.held(id)?;
                let blocks = blocks.into_iter().map(block_entry).collect();
                Answer::Held(held.map(|held| held.into_entry(id.clone())), blocks)
            }
            Want::Affinities(owner) => Answer::Objects(self.affinities(|_| Ok(vec![affinities_of(owner)]))?),
            Want::AffinityCidrs(owner) => {
                let names = self.names(&affinities_of(owner))?;
                let cidrs: BTreeSet<Cidr> = names.iter().filter_map(|name| cidr_of_file(name)).collect();
                Answer::Cidrs(cidrs.into_iter().collect())
            }
            Want::AllAffinities => Answer::Objects(self.affinities(|store| {
                let owners = store.folders(AFFINITIES)?.into_iter();
                Ok(owners.map(|owner| format!("{AFFINITIES}/{owner}")).collect())
            })?),
            Want::BlockCidrs(within) => {
                let cidrs = self.block_cidrs()?;
                Answer::Cidrs(cidrs.into_iter().filter(|cidr| cidr.overlaps(*within)).collect())
            }
            Want::CarvedCidrs(within) => {
                let cidrs = self.carved_cidrs()?.into_iter();
                Answer::Cidrs(cidrs.filter(|cidr| cidr.overlaps(*within)).collect())
            }
            Want::All(collection) => Answer::Objects(self.collection(*collection)?),
            Want::Blocks(within) => Answer::Objects(self.blocks(|cidr| cidr.overlaps(*within))?),
            Want::AllBlocks => Answer::Objects(self.blocks(|_| true)?),
            Want::AllHandles => Answer::Objects(self.all_handles()?),
            Want::Nodes => Answer::Objects(self.nodes()?),
            Want::Room { of, within, enough } => Answer::Cidrs(self.room(of, within, *enough)?),
        })
    }

    /// One object.
    pub(super) fn entry(&mut self, key: &Key) -> Result<Option<Entry>, Error> {
        match key {
            Key::Configuration | Key::Pool(_) | Key::Reservation(_) | Key::Import(_) => {
                if self.seen.settings.is_none() {
                    self.seen.settings = Some(self.settings()?);
                }
                Ok(self.seen.settings.as_ref().and_then(|settings| state::entry(settings, key)))
            }
            Key::Handle(id) => Ok(self.handle(id)?.map(|held| held.into_entry(id.clone()))),
            Key::Block(cidr) => Ok(self.block(*cidr)?.map(block_entry)),
            Key::Node(name) => self.node(name),
            Key::Carved(_)
            | Key::PoolExtras(_)
            | Key::Allocation(_)
            | Key::Claim(_)
            | Key::Machine(_)
            | Key::MachinesOf(_) => self.own_record(key),
            Key::Affinity(..) => {
                let name = path(key).unwrap_or_default();
                let Some(content) = self.content(&name)? else {
                    return Ok(None);
                };
                let is_it = |found: &Key| found == key;
                decode_affinity(&self.dir.path_of(&name), &content, is_it).map(Some)
            }
        }
    }

    /// A block.
    pub(super) fn block(&mut self, cidr: Cidr) -> Result<Option<IpamBlock>, Error> {
        if let Some(block) = self.seen.blocks.get(&cidr) {
            return Ok(Some(block.clone()));
        }
        let block = self.block_uncached(cidr)?;
        if let (Some(block), Access::Change) = (&block, self.access) {
            self.seen.blocks.insert(cidr, block.clone());
        }
        Ok(block)
    }

    /// A block that is looked at once: walks over all of them keep none.
    pub(super) fn block_uncached(&self, cidr: Cidr) -> Result<Option<IpamBlock>, Error> {
        let name = block_path(cidr);
        let path = self.dir.path_of(&name);
        let (latest, changes) = self.journal.overlay.of_block(&name, cidr);
        let block = match latest {
            Latest::Put(content) => Some(decode_block(&self.dir.path_of(JOURNAL), cidr, content)?),
            Latest::Deleted => None,
            Latest::File => match self.dir.read(&name)? {
                Some(content) => Some(decode_block(&path, cidr, &content)?),
                None => None,
            },
        };
        let Some(mut block) = block else {
            return if changes.is_empty() {
                Ok(None)
            } else {
                Err(damaged(&path, "it is missing, and the journal has changes of it".to_owned()))
            };
        };
        for op in changes {
            self.apply(op, &mut block)?;
        }
        Ok(Some(block))
    }

    /// Does one change of a block that the journal carries, unless a cut that was interrupted did it already.
    fn apply(&self, op: &Op, block: &mut IpamBlock) -> Result<(), Error> {
        if op.sequence <= block.sequence_number {
            return Ok(());
        }
        let fits = op.sequence == block.sequence_number + 1;
        let done = fits
            && match op.verb {
                OpVerb::Set => Attribute::from_json(self.journal.overlay.text(&op.payload))
                    .is_some_and(|attribute| block.set(op.ordinal, &attribute, op.sequence)),
                _ => block.clear(op.ordinal, op.sequence),
            };
        if done {
            return Ok(());
        }
        Err(self.journal.damaged(format!(
            "change {} of ordinal {} at byte {} does not fit block {} in state {}",
            op.sequence, op.ordinal, op.name.start, block.cidr, block.sequence_number
        )))
    }

    fn blocks(&mut self, wanted: impl Fn(Cidr) -> bool) -> Result<Vec<Entry>, Error> {
        self.walk(
            |store| Ok(store.block_cidrs()?.into_iter().filter(|cidr| wanted(*cidr)).collect()),
            |store, cidr| Ok(store.block_uncached(*cidr)?.map(block_entry)),
        )
    }

    /// Which blocks exist.
    pub(super) fn block_cidrs(&mut self) -> Result<BTreeSet<Cidr>, Error> {
        if self.seen.block_files.is_none() {
            self.seen.block_files =
                Some(self.file_names(BLOCKS)?.iter().filter_map(|name| cidr_of_file(name)).collect());
        }
        let mut cidrs: BTreeSet<Cidr> = self.seen.block_files.iter().flatten().copied().collect();
        for (name, present) in self.journal.overlay.names_in(BLOCKS) {
            let Some(cidr) = cidr_of_file(name) else {
                continue;
            };
            if present {
                cidrs.insert(cidr);
            } else {
                cidrs.remove(&cidr);
            }
        }
        Ok(cidrs)
    }

    fn affinities(
        &mut self,
        owners: impl Fn(&Self) -> Result<Vec<String>, Error>,
    ) -> Result<Vec<Entry>, Error> {
        let list = |store: &mut Self| {
            let mut names = BTreeSet::new();
            for folder in owners(store)? {
                let blocks = store.names(&folder)?.into_iter();
                names.extend(
                    blocks.filter(|name| cidr_of_file(name).is_some()).map(|name| format!("{folder}/{name}")),
                );
            }
            Ok(names)
        };
        let mut entries = self.walk(list, |store, name| {
            let Some(content) = store.content(name)? else {
                return Ok(None);
            };
            let stands_here = |key: &Key| path(key).as_deref() == Some(name);
            decode_affinity(&store.dir.path_of(name), &content, stands_here).map(Some)
        })?;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    fn node(&self, name: &HostName) -> Result<Option<Entry>, Error> {
        let file = path(&Key::Node(name.clone())).unwrap_or_default();
        self.node_in(&file, |found| found == name.as_str())
    }

    fn nodes(&mut self) -> Result<Vec<Entry>, Error> {
        let mut entries = self.walk(
            |store| store.names(NODES),
            |store, name| {
                let is_it = |found: &str| name.strip_suffix(".json") == Some(&escape(found));
                store.node_in(&format!("{NODES}/{name}"), is_it)
            },
        )?;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    pub(super) fn node_in(&self, file: &str, is_it: impl Fn(&str) -> bool) -> Result<Option<Entry>, Error> {
        let Some(content) = self.content(file)? else {
            return Ok(None);
        };
        let path = self.dir.path_of(file);
        let (revision, node) = decode_resource(&path, &content, is_it)?;
        let node: Box<Node> = Box::new(node);
        let host = HostName::new(node.name()).map_err(|error| damaged(&path, error.to_string()))?;
        Ok(Some(Entry { key: Key::Node(host), revision, object: Object::Node(node) }))
    }

    /// The content of a file as of now; `None`: it does not exist.
    pub(super) fn content(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.journal.overlay.latest(name) {
            Latest::Put(content) => Ok(Some(content.to_vec())),
            Latest::Deleted => Ok(None),
            Latest::File => self.dir.read(name),
        }
    }

    /// The objects of a directory, by the names of their files.
    pub(super) fn objects_in(&self, folder: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let names = self.names(folder)?;
        let mut objects = Vec::with_capacity(names.len());
        for name in names {
            if let Some(content) = self.content(&format!("{folder}/{name}"))? {
                objects.push((name, content));
            }
        }
        Ok(objects)
    }

    /// The names of the objects in a directory.
    pub(super) fn names(&self, folder: &str) -> Result<BTreeSet<String>, Error> {
        let mut names: BTreeSet<String> = self.file_names(folder)?.into_iter().collect();
        for (name, present) in self.journal.overlay.names_in(folder) {
            if present {
                names.insert(name.to_owned());
            } else {
                names.remove(name);
            }
        }
        names.retain(|name| name.strip_suffix(".json").is_some());
        Ok(names)
    }

    /// The names in a directory, without the journal; none where it does not exist.
    fn file_names(&self, folder: &str) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        if let Some(dir) = self.dir.open_dir(folder)? {
            dir.for_each_name(|name| {
                names.push(name.to_owned());
            })?;
        }
        Ok(names)
    }

    /// The directories in a directory, with those that the journal will make.
    pub(super) fn folders(&self, folder: &str) -> Result<BTreeSet<String>, Error> {
        let mut folders: BTreeSet<String> = self.file_names(folder)?.into_iter().collect();
        folders.extend(self.journal.overlay.folders_in(folder).map(str::to_owned));
        Ok(folders)
    }
}

/// A block, with its own number as its revision.
fn block_entry(block: IpamBlock) -> Entry {
    Entry { key: Key::Block(block.cidr), revision: Revision(block.sequence_number), object: block.into() }
}
