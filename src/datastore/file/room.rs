//! Which blocks have a free address: empty files in `ipam/room/<owner>/`, read as a list of names.
//!
//! They are derived, and only ever a hint: whoever needs certainty reads the blocks.

use std::cell::Cell;

use super::FileStore;
use super::layout::{ROOM, cidr_of_stem, room_of, stem};
use super::overlay::Latest;
use crate::api::Affinity;
use crate::datastore::{Error, RoomOf, lies_in};
use crate::net::Cidr;

/// What a session saw of an owner's directory.
#[derive(Debug)]
pub(super) struct RoomSeen {
    folder: String,
    blocks: Vec<Cidr>,
    /// Whether these are all, as far as a hint has to know.
    complete: bool,
}

impl FileStore {
    /// Blocks with room, of some owners and in some networks, lowest first.
    pub(super) fn room(&mut self, of: &RoomOf, within: &[Cidr], enough: usize) -> Result<Vec<Cidr>, Error> {
        let folders: Vec<String> = match of {
            RoomOf::Owner(owner) => vec![room_of(Some(owner))],
            RoomOf::Nobody => vec![room_of(None)],
            RoomOf::AllBut(left_out) => {
                let left_out = room_of(Some(left_out));
                self.folders(ROOM)?
                    .into_iter()
                    .map(|owner| format!("{ROOM}/{owner}"))
                    .filter(|folder| *folder != left_out)
                    .collect()
            }
        };
        let mut found: Vec<Cidr> = Vec::new();
        for folder in folders {
            if found.len() >= enough {
                break;
            }
            let seen = self.room_in(folder, within, enough - found.len())?;
            found.extend(seen.blocks.iter().filter(|cidr| lies_in(within, **cidr)));
            self.seen.room.push(seen);
        }
        found.sort_unstable();
        found.truncate(enough);
        Ok(found)
    }

    fn room_in(&self, folder: String, within: &[Cidr], enough: usize) -> Result<RoomSeen, Error> {
        let mut blocks = Vec::new();
        let mut complete = true;
        let fitting = Cell::new(0);
        if let Some(dir) = self.dir.open_dir(&folder)? {
            let each = |name: &str| {
                if let Some(cidr) = cidr_of_stem(name) {
                    fitting.set(fitting.get() + usize::from(lies_in(within, cidr)));
                    blocks.push(cidr);
                }
            };
            dir.for_names(each, |was_full| {
                let goes_on = was_full && fitting.get() < enough;
                complete = goes_on || !was_full;
                goes_on
            })?;
        }
        for (name, present) in self.journal.overlay.names_in(&folder) {
            let Some(cidr) = cidr_of_stem(name) else {
                continue;
            };
            blocks.retain(|known| *known != cidr);
            if present {
                blocks.push(cidr);
            }
        }
        Ok(RoomSeen { folder, blocks, complete })
    }

    /// Whether a block is listed as having room.
    pub(super) fn is_listed(&self, owner: Option<&Affinity>, block: Cidr) -> Result<bool, Error> {
        let folder = room_of(owner);
        let name = room_entry(owner, block);
        match self.journal.overlay.latest(&name) {
            Latest::Put(_) => return Ok(true),
            Latest::Deleted => return Ok(false),
            Latest::File => {}
        }
        for seen in self.seen.room.iter().filter(|seen| seen.folder == folder) {
            if seen.blocks.contains(&block) {
                return Ok(true);
            }
            if seen.complete {
                return Ok(false);
            }
        }
        self.dir.exists(&name)
    }
}

/// The file that says that a block has room.
pub(super) fn room_entry(owner: Option<&Affinity>, block: Cidr) -> String {
    format!("{}/{}", room_of(owner), stem(block))
}
