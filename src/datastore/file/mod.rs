//! The file store.

use std::path::PathBuf;
use std::time::Duration;

use super::{Answer, Batch, Commit, Datastore, Error, Want};

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
}

impl FileStore {
    /// Opens and locks a store. `None`: there is none, and none was to be made.
    pub fn open(options: &Options, access: Access, if_absent: IfAbsent) -> Result<Option<FileStore>, Error> {
        let _ = (access, if_absent);
        Ok(Some(FileStore {
            options: options.clone(),
        }))
    }

    /// Lets others at the store. What is read from now on may be newer than what was read before.
    pub fn unlock(&mut self) {}
}

impl Datastore for FileStore {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        let _ = wants;
        Err(Error::OutcomeUnknown {
            what: self.options.path.display().to_string(),
        })
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        let _ = batch;
        Ok(Commit::Unknown)
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn is_one_machine(&self) -> bool {
        true
    }
}
