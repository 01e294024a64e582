//! Making anew what is derived: the index, the lists of blocks with room, and records of affinities that cannot be read.
//! Who has which address is in the blocks, which are left as they are.

use std::collections::BTreeSet;

use super::codec::decode_affinity;
use super::cut::sweep;
use super::folders::Folders;
use super::handles::HandleMap;
use super::index;
use super::inspect::owner_names;
use super::layout::{AFFINITIES, INDEX, ROOM, STATE, TEMPORARY, cidr_of_file, fnv1a, path};
use super::open_file::io_error;
use super::overlay::Latest;
use super::room::room_entry;
use super::{FileStore, layout, state};
use crate::api::calico::{Attribute, IpamBlock};
use crate::datastore::{Derived, Error, Key, Verb};

impl FileStore {
    /// Mends what was found. The answer: what was done, a line each. The lock is held.
    pub(super) fn rebuild_derived(&mut self, found: &[Derived]) -> Result<Vec<String>, Error> {
        let mut done = self.drop_damaged_affinities()?;
        let is_of_index = |found: &Derived| match found {
            Derived::LostHandle { .. } | Derived::StrayHandle { .. } => true,
            Derived::Unusable { file } => file == INDEX,
            Derived::Unshielded { .. } | Derived::StrayShield { .. } => false,
        };
        let is_due = found.iter().any(is_of_index);
        if is_due {
            // What the journal says of handles would be laid over the new index. A damaged block may keep it from being
            // written out; then the index is right but for that.
            match self.cut() {
                Ok(()) | Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if is_due && self.journal.header.index != 0 {
            self.journal.make_durable()?;
            let map = self.whole_handle_map()?;
            index::build(&self.dir, self.journal.header.index, 0, &index::entries(&map))?;
            done.push(format!("made `{INDEX}` anew from the blocks"));
        }
        if found.contains(&Derived::Unusable { file: STATE.to_owned() }) && self.rebuild_state()? {
            done.push(format!("made `{STATE}` anew from the objects"));
        }
        let changed = self.rebuild_room()?;
        if changed > 0 {
            done.push(format!("corrected {changed} entries of `{ROOM}`"));
        }
        self.seen.forget();
        Ok(done)
    }

    /// Writes the copy of the settings anew, if the objects are those of which it was made. False: somebody has changed
    /// them by hand. Then they count, and the next commit of a setting writes the copy.
    fn rebuild_state(&mut self) -> Result<bool, Error> {
        let content = state::encode(&self.settings()?);
        if Some(crc32fast::hash(&content)) != self.journal.header.state {
            return Ok(false);
        }
        self.write_state(&content)?;
        self.state_is_stale = false;
        Ok(true)
    }

    /// Puts the copy of the settings in place of the one there.
    pub(super) fn write_state(&self, content: &[u8]) -> Result<(), Error> {
        let temporary = format!("{TEMPORARY}{STATE}");
        let file = self.dir.write_new(&temporary, content)?;
        file.sync_data().map_err(|source| io_error(Verb::Sync, &self.dir.path_of(&temporary), source))?;
        self.dir.rename(&temporary, &self.dir, STATE)?;
        self.dir.sync()
    }

    /// Removes records of affinities that cannot be read: the blocks say whose they are.
    fn drop_damaged_affinities(&mut self) -> Result<Vec<String>, Error> {
        let mut done = Vec::new();
        for owner in self.folders(AFFINITIES)? {
            let folder = format!("{AFFINITIES}/{owner}");
            let mut names = Vec::new();
            if let Some(dir) = self.dir.open_dir(&folder)? {
                dir.for_each_name(|name| {
                    names.push(name.to_owned());
                })?;
            }
            for name in names.iter().filter(|name| cidr_of_file(name).is_some()) {
                let file = format!("{folder}/{name}");
                if self.journal.overlay.latest(&file) != Latest::File {
                    continue;
                }
                let Some(content) = self.dir.read(&file)? else { continue };
                let stands_here = |key: &Key| path(key).as_deref() == Some(&file);
                if decode_affinity(&self.dir.path_of(&file), &content, stands_here).is_err() {
                    self.dir.remove(&file)?;
                    done.push(format!(
                        "removed {}, which could not be read",
                        self.dir.path_of(&file).display()
                    ));
                }
            }
        }
        Ok(done)
    }

    /// Every handle of every block. What a block that cannot be read may hold is taken from the index that there is.
    fn whole_handle_map(&mut self) -> Result<HandleMap, Error> {
        let ways = self.ways()?;
        let mut map = HandleMap::new();
        for cidr in self.block_cidrs()? {
            let hashes: BTreeSet<u64> = match self.block_uncached(cidr) {
                Ok(block) => {
                    let names = block.iter().flat_map(owner_names);
                    names.map(|name| fnv1a(name.as_bytes())).collect()
                }
                Err(_) => ways.iter().flat_map(|ways| ways.to(cidr)).collect(),
            };
            for hash in hashes {
                map.entry(hash).or_default().insert(cidr);
            }
        }
        Ok(map)
    }

    /// Has every block with a free address listed, and no other. The answer: how many entries changed.
    fn rebuild_room(&mut self) -> Result<usize, Error> {
        let mut wanted = BTreeSet::new();
        let mut unknown = BTreeSet::new();
        for cidr in self.block_cidrs()? {
            match self.block_uncached(cidr) {
                Ok(Some(block)) if has_room(&block) => {
                    wanted.insert(room_entry(block.affinity.as_ref(), cidr));
                }
                Ok(_) => {}
                Err(_) => drop(unknown.insert(layout::stem(cidr))),
            }
        }
        let mut changed = 0;
        for owner in self.folders(ROOM)? {
            let folder = format!("{ROOM}/{owner}");
            let Some(dir) = self.dir.open_dir(&folder)? else { continue };
            let mut stray = Vec::new();
            dir.for_each_name(|name| {
                if !wanted.contains(&format!("{folder}/{name}")) && !unknown.contains(name) {
                    stray.push(format!("{folder}/{name}"));
                }
            })?;
            for name in stray.iter().filter(|name| self.journal.overlay.latest(name) == Latest::File) {
                self.dir.remove(name)?;
                changed += 1;
            }
        }
        let mut folders = Folders::new(&self.dir, sweep(&self.dir)?);
        for name in &wanted {
            if self.journal.overlay.latest(name) == Latest::File && !self.dir.exists(name)? {
                let folder = name.rsplit_once('/').map_or(ROOM, |(folder, _)| folder);
                folders.touch(folder, name.rsplit_once('/').map_or(name, |(_, file)| file))?;
                changed += 1;
            }
        }
        folders.sync()?;
        Ok(changed)
    }
}

fn has_room(block: &IpamBlock) -> bool {
    !block.unallocated.is_empty() || block.attributes.iter().any(Attribute::may_be_cooling)
}
