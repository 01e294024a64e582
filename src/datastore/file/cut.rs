//! The cut: what the journal says is written into the files, and the journal begins anew.
//!
//! Nothing in the journal is given up before all of it is in the files and flushed. Whatever fails or is killed on the
//! way leaves files that are partly new, and a journal that still says everything.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::codec::compact;
use super::dir::Dir;
use super::folders::{Folders, marker};
use super::frame::HeadLayout;
use super::handles::HandleMap;
use super::header::{Header, VERSION};
use super::inspect::owner_names;
use super::layout::{BLOCKS, FORMAT, ROOM, STATE, TEMPORARY, block_path, cidr_of_file, fnv1a};
use super::open_file::io_error;
use super::overlay::Latest;
use super::record::OpVerb;
use super::{FileStore, index};
use crate::datastore::{Error, Verb};
use crate::net::Cidr;

/// From here on, in bytes, whoever commits also cuts. Larger costs every call more to read, smaller cuts more often.
const CUT_FROM: usize = 32 << 10;
/// With more files than this to flush, the disk is given all of them before the first is waited for.
const FLUSH_TOGETHER_FROM: usize = 16;
/// How many files are open at once.
const OPEN_MAX: usize = 128;

impl FileStore {
    /// Whether the journal is long enough to be written out.
    pub(super) const fn is_due_for_cut(&self) -> bool {
        self.journal.tail() > CUT_FROM
    }

    /// Writes everything in the journal into the files, and begins a new journal.
    pub(super) fn cut(&mut self) -> Result<(), Error> {
        if self.journal.is_empty() {
            return Ok(());
        }
        // Else a power cut could leave files that have what the journal lost.
        self.journal.make_durable()?;
        let is_marked = sweep(&self.dir)?;
        let mut files = self.present_values()?;
        let state = match files.get(STATE) {
            Some(Some(content)) => Some(crc32fast::hash(content)),
            Some(None) => None,
            None => self.journal.header.state,
        };
        if self.journal.header.layout == HeadLayout::One || !self.dir.exists(FORMAT)? {
            files.insert(FORMAT.to_owned(), Some(format_text()));
        }
        let generation = self.journal.header.generation.wrapping_add(1).max(1);
        let index = self.cut_index(generation)?;
        let mut folders = Folders::new(&self.dir, is_marked);
        write_files(&self.dir, &mut folders, &files)?;
        folders.sync()?;
        folders.unmark()?;
        let header = Header {
            layout: HeadLayout::Two,
            first_seq: self.journal.next_seq(),
            generation,
            floor: self.journal.floor(),
            state,
            index,
        };
        // The files are others now, and what the journal had to say about them is gone.
        self.seen.block_files = None;
        self.seen.room.clear();
        self.seen.handle_map = None;
        let begun = self.journal.begin(header);
        if begun.is_err() {
            // Nobody can tell which header the next reader finds. Whoever goes on looks again first.
            self.unlock();
        }
        begun
    }

    /// What every file that the journal changes must hold; `None`: it must go.
    fn present_values(&self) -> Result<BTreeMap<String, Option<Vec<u8>>>, Error> {
        let overlay = &self.journal.overlay;
        let mut blocks: BTreeSet<Cidr> = BTreeSet::new();
        let mut files = BTreeMap::new();
        for op in overlay.ops() {
            let name = overlay.text(&op.name);
            match op.verb {
                OpVerb::Put | OpVerb::Delete => {
                    let block = name.strip_prefix(BLOCKS).and_then(|rest| rest.strip_prefix('/'));
                    if let Some(cidr) = block.and_then(cidr_of_file) {
                        blocks.insert(cidr);
                    } else {
                        let content = (op.verb == OpVerb::Put).then(|| overlay.bytes(&op.payload).to_vec());
                        files.insert(name.to_owned(), content);
                    }
                }
                OpVerb::Set | OpVerb::Clear => {
                    let cidr = name.parse().map_err(|_| self.journal.damaged(no_block(name)))?;
                    blocks.insert(cidr);
                }
                OpVerb::HandleAdd | OpVerb::HandleRemove => {}
            }
        }
        for cidr in blocks {
            let name = block_path(cidr);
            let content = match overlay.of_block(&name, cidr) {
                (Latest::Put(content), changes) if changes.is_empty() => Some(content.to_vec()),
                _ => self.block_uncached(cidr)?.map(|block| compact(&block)),
            };
            files.insert(name, content);
        }
        Ok(files)
    }

    /// Brings the index up to date. The number that it bears then.
    fn cut_index(&mut self, generation: u32) -> Result<u64, Error> {
        let overlay = &self.journal.overlay;
        let mut changes: BTreeMap<(u64, Cidr), bool> = BTreeMap::new();
        for op in overlay.ops() {
            let added = match op.verb {
                OpVerb::HandleAdd => true,
                OpVerb::HandleRemove => false,
                _ => continue,
            };
            let block = overlay.text(&op.block);
            let cidr = block.parse().map_err(|_| self.journal.damaged(no_block(block)))?;
            changes.insert((fnv1a(overlay.bytes(&op.name)), cidr), added);
        }
        if changes.is_empty() {
            return Ok(self.journal.header.index);
        }
        self.keep_shared_slots(&mut changes)?;
        let id = self.journal.next_index_id(generation);
        if !index::update(&self.dir, &self.journal, id, &changes)? {
            let map: HandleMap = self.map_handles()?;
            index::build(&self.dir, id, 0, &index::entries(&map))?;
        }
        Ok(id)
    }

    /// A slot stands for every handle of its hash. It goes with the last one that has an address in the block.
    fn keep_shared_slots(&self, changes: &mut BTreeMap<(u64, Cidr), bool>) -> Result<(), Error> {
        let mut hashes: BTreeMap<Cidr, BTreeSet<u64>> = BTreeMap::new();
        for ((hash, cidr), is_kept) in changes.iter_mut().filter(|(_, added)| !**added) {
            let in_block = match hashes.entry(*cidr) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => {
                    let block = self.block_uncached(*cidr)?;
                    let names = block.iter().flat_map(owner_names);
                    vacant.insert(names.map(|name| fnv1a(name.as_bytes())).collect())
                }
            };
            *is_kept = in_block.contains(hash);
        }
        Ok(())
    }
}

fn no_block(text: &str) -> String {
    format!("`{}` is no block", text.escape_debug())
}

/// What the file `format` says.
pub(super) fn format_text() -> Vec<u8> {
    format!("host-affine file store, format {VERSION}\n").into_bytes()
}

/// Removes what an earlier process left half-written. Returns whether the marker of [`folders`](super::folders) was there,
/// which stays.
pub(super) fn sweep(dir: &Dir) -> Result<bool, Error> {
    let mut left = Vec::new();
    if let Some(listing) = dir.open_dir(".")? {
        listing.for_each_name(|name| {
            if name.starts_with(TEMPORARY) {
                left.push(name.to_owned());
            }
        })?;
    }
    let marker = marker();
    left.iter().filter(|name| **name != marker).try_for_each(|name| dir.remove(name))?;
    Ok(left.contains(&marker))
}

/// Writes, or removes, every file. Their directories are left to be flushed.
fn write_files<'a>(
    dir: &'a Dir,
    folders: &mut Folders<'a>,
    files: &BTreeMap<String, Option<Vec<u8>>>,
) -> Result<(), Error> {
    let mut full: Vec<(&str, &[u8])> = Vec::new();
    for (name, content) in files {
        let (folder, file) = split(name);
        match content {
            None => folders.remove(folder, file)?,
            // An empty file has nothing to be flushed but its name.
            Some(_) if folder.starts_with(ROOM) => folders.touch(folder, file)?,
            Some(content) => full.push((name, content)),
        }
    }
    let together = full.len() > FLUSH_TOGETHER_FROM;
    for (number, chunk) in full.chunks(OPEN_MAX).enumerate() {
        let temporary = |place: usize| format!("{TEMPORARY}{}", number * OPEN_MAX + place);
        if together {
            let mut open = Vec::with_capacity(chunk.len());
            for (place, (_, content)) in chunk.iter().enumerate() {
                let file = dir.write_new(&temporary(place), content)?;
                // Has the kernel begin to write. Where it does not, only time is lost.
                let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
                open.push(file);
            }
            for (place, ((name, _), file)) in chunk.iter().zip(open).enumerate() {
                move_into_place(dir, folders, &temporary(place), &file, name)?;
            }
        } else {
            for (place, (name, content)) in chunk.iter().enumerate() {
                let file = dir.write_new(&temporary(place), content)?;
                move_into_place(dir, folders, &temporary(place), &file, name)?;
            }
        }
    }
    Ok(())
}

fn move_into_place<'a>(
    dir: &'a Dir,
    folders: &mut Folders<'a>,
    temporary: &str,
    file: &File,
    name: &str,
) -> Result<(), Error> {
    file.sync_data().map_err(|source| io_error(Verb::Sync, &dir.path_of(temporary), source))?;
    let (folder, file) = split(name);
    dir.rename(temporary, folders.make(folder)?, file)
}

fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or((".", name))
}
