//! The file store: readable JSON under one lock, changed only through a redo journal.
//!
//! Read `journal` and `header` first (what a commit leaves on disk), then `commit` and `cut`, then `read`. In short: a
//! commit is one record and one flush of the journal; the files are written when the journal is cut, about once in a
//! hundred commits; every reader lays the journal over the files.
//!
//! # System calls of a steady ADD
//!
//! From opening to the answer, with everything written out at the last cut; one flush, and no walk of a directory.
//!
//! | calls | on | for |
//! | --- | --- | --- |
//! | `openat`, `fstat`, `fstatfs`, `flock` | the directory | to be found, safe, local, and ours alone |
//! | `openat2`, `fstat`, `flock`, `pwrite` | `lock` | the second lock, and a note for who waits |
//! | `openat2`, `fstat`, `pread` | `journal` | its first 16 KiB; one more `pread` for each further 16 KiB in use |
//! | `openat2`, `fstat`, `pread`, `close` | `state` | configuration, pools, reservations; none while the journal has them |
//! | `openat2` | the host's node | absent, as a rule |
//! | `openat2`, `fstat`, 2 `pread`, `close` | `index` | whether the handle holds something: first line and one page |
//! | `openat2`, `getdents64`, `close` | `ipam/room/<host>` | a block with room |
//! | `openat2`, `fstat`, `pread`, `close` | the block | which address |
//! | `pwrite`, `fdatasync` | `journal` | the commit |
//! | `pwrite` | `journal` | after the answer is out: that the commit is flushed |
//! | 3 `close` | journal, lock, directory | after the answer is out |
//!
//! That is 30, and 4 after the answer; GNU's C library says `statx` for `fstat`. A DEL has no list of blocks with room, but
//! looks for the journal and for the block's entry in that list: 29. The handle's blocks are read through `index`.
//!
//! # Invariants
//!
//! - Nothing but the journal is written in a commit, and nothing of it is given up before it is in the files.
//! - `state`, `index` and `room` are derived. The journal's header says which `state` and `index` belong to it; others
//!   are made anew, never believed. `room` is a hint.
//! - *Absent* is `ENOENT` and nothing else.
//! - Only `lock` waits, and nothing here asks for the time of day.

mod change;
mod codec;
mod commit;
mod create;
mod cut;
mod dir;
mod folders;
mod frame;
mod handles;
mod header;
mod index;
mod inspect;
mod journal;
mod layout;
mod limits;
mod lock;
mod open_file;
mod origin;
mod overlay;
mod own;
mod read;
mod rebuild;
mod record;
mod room;
mod salvage;
mod slots;
mod state;
mod tail;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests do to files what befalls them")]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dir::Dir;
use handles::{HandleMap, Held};
use journal::Journal;
pub use lock::lock_within;
use lock::{Kernels, Locks};
use room::RoomSeen;

use super::{Answer, Batch, Commit, Datastore, Error, Isolation, Key, Revision, Settings, Want};
use crate::api::HandleId;
use crate::api::calico::IpamBlock;
use crate::net::Cidr;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store's directory.
    pub path: PathBuf,
    /// What a commit survives.
    pub durability: Durability,
    /// Whether a network file system is taken, although a lock may not exclude other machines there.
    pub allow_network_file_system: bool,
    /// How long to wait for the lock. Zero: one try.
    pub lock_timeout: Duration,
    /// Who opens it and for what, such as `process 4121 (ADD, container 3f2a90c1b7de)`: what others read who wait for
    /// the lock.
    pub operation: String,
}

/// What a commit survives once it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: each commit is flushed to the disk.
    #[default]
    Power,
    /// The death of every process, but not of the machine: commits are not flushed.
    Process,
}

/// What a session may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and commit; nobody else does either until the session ends.
    Change,
    /// Read only; other readers go on.
    Read,
}

/// What happens when there is no store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfAbsent {
    /// It is made.
    Create,
    /// There is nothing to open, which is no error.
    None,
}

/// An open store, locked until it is dropped or [unlocked](FileStore::unlock).
#[derive(Debug)]
pub struct FileStore {
    options: Options,
    access: Access,
    /// Let go before the directory: who waits for both finds the second free.
    locks: Locks,
    dir: Dir,
    locked: bool,
    journal: Journal,
    /// Whether the settings had to be read from the objects; then the next commit writes the copy anew.
    state_is_stale: bool,
    /// What lists passed over; `None`: they pass over nothing.
    passed_over: Option<Vec<Error>>,
    seen: Seen,
    kernels: Kernels,
}

/// Is a store used by this kernel alone? Where there is none yet, it will be.
#[must_use]
pub fn is_one_kernel(options: &Options) -> bool {
    let is_local = |dir: &Dir| matches!(lock::refuse_network(dir, &options.path), Ok(Kernels::One));
    !options.allow_network_file_system
        && Dir::open_store(&options.path).ok().flatten().is_none_or(|dir| is_local(&dir))
}

/// What a session has read and may rely on while it holds the lock.
#[derive(Debug, Default)]
struct Seen {
    /// As they are now, with the journal laid over.
    blocks: BTreeMap<Cidr, IpamBlock>,
    /// As they are now.
    handles: BTreeMap<HandleId, Option<Held>>,
    /// As they are now.
    settings: Option<Settings>,
    /// The revisions of the settings, whenever those were read: all that most commits ask of them again.
    setting_revisions: Option<Vec<(Key, Revision)>>,
    /// The names in the directory of blocks, without the journal.
    block_files: Option<Vec<Cidr>>,
    /// What the index would say, where it could not be used.
    handle_map: Option<HandleMap>,
    /// The lists of blocks with room that were read.
    room: Vec<RoomSeen>,
}

impl Seen {
    fn forget(&mut self) {
        *self = Self::default();
    }
}

impl FileStore {
    /// Opens and locks a store. `None`: there is none, and none was to be made.
    ///
    /// A directory without a journal and without anything of a store counts as no store, whatever else is in it. A
    /// session that only reads never makes one.
    pub fn open(options: &Options, access: Access, if_absent: IfAbsent) -> Result<Option<FileStore>, Error> {
        let may_create = access == Access::Change && if_absent == IfAbsent::Create;
        let dir = match Dir::open_store(&options.path)? {
            Some(dir) => dir,
            None if !may_create => return Ok(None),
            None => {
                dir::make_path(&options.path)?;
                match Dir::open_store(&options.path)? {
                    Some(dir) => dir,
                    None => return Err(open_file::vanished(&options.path)),
                }
            }
        };
        let kernels = if options.allow_network_file_system {
            Kernels::Many
        } else {
            lock::refuse_network(&dir, &options.path)?
        };
        let mut locks = Locks::lock_directory(&dir, access, options.lock_timeout, &options.operation)?;
        // Where there is no store, none may be left behind either, not even an empty `lock`.
        if !may_create && !dir.exists(layout::JOURNAL)? {
            create::refuse_lost_journal(&dir)?;
            return Ok(None);
        }
        locks.lock_file(&dir)?;
        let mut journal = Journal::open(&dir, access)?;
        if journal.is_none() && may_create {
            create::refuse_lost_journal(&dir)?;
            create::create(&dir)?;
            journal = Journal::open(&dir, access)?;
        } else if access == Access::Change && journal.as_ref().is_some_and(Journal::is_unused) {
            create::finish(&dir)?;
        }
        let journal = journal.ok_or_else(|| open_file::vanished(&dir.path_of(layout::JOURNAL)))?;
        Ok(Some(FileStore {
            options: options.clone(),
            access,
            dir,
            locks,
            locked: true,
            journal,
            state_is_stale: false,
            passed_over: None,
            seen: Seen::default(),
            kernels,
        }))
    }

    /// Lets others at the store. The next read or commit waits for the lock again, and sees what they changed.
    pub fn unlock(&mut self) {
        if self.locked {
            self.locks.release(&self.dir);
            self.locked = false;
        }
    }

    /// Writes everything in the journal into the files, however little it is, so that they can be looked at or copied.
    ///
    /// # Panics
    /// When the session was opened to read only.
    pub fn write_out(&mut self) -> Result<(), Error> {
        assert!(
            self.access == Access::Change,
            "a session that only reads was asked to write the journal out"
        );
        self.lock_again()?;
        self.cut()
    }

    fn lock_again(&mut self) -> Result<(), Error> {
        if self.locked {
            return Ok(());
        }
        self.locks.retake(&self.dir)?;
        self.seen.forget();
        self.state_is_stale = false;
        if let Err(error) = self.journal.reload() {
            self.locks.release(&self.dir);
            return Err(error);
        }
        self.locked = true;
        Ok(())
    }

    fn make_durable_now(&mut self) -> Result<(), Error> {
        match self.options.durability {
            Durability::Power => self.journal.make_durable(),
            Durability::Process => Ok(()),
        }
    }
}

impl Datastore for FileStore {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        self.lock_again()?;
        wants.iter().map(|want| self.answer(want)).collect()
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        self.lock_again()?;
        self.commit_batch(batch)
    }

    async fn settle(&mut self) {
        if self.access != Access::Change || !self.locked {
            return;
        }
        if self.is_due_for_cut()
            && let Err(error) = self.cut()
        {
            log::warn!("{error}; the journal is written out by a later call");
        }
        // A cut that failed may have let go of the lock.
        if self.locked {
            self.journal.note_flush();
        }
    }

    async fn make_durable(&mut self) -> Result<(), Error> {
        self.make_durable_now()
    }

    fn isolation(&self) -> Isolation {
        Isolation::Exclusive
    }

    /// A store for which a network file system is allowed counts as shared, whatever it lies on.
    fn is_one_kernel(&self) -> bool {
        self.kernels == Kernels::One
    }
}
