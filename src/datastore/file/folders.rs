//! The directories that a cut changes.
//!
//! A new directory needs a flush of the one above it. A cut that is killed in between leaves a directory that exists and may
//! not be on disk. So a cut creates a marker before its first directory, and removes it when all are flushed. A cut that
//! finds the marker flushes every directory above those that it changes.

use std::collections::BTreeMap;

use super::dir::Dir;
use super::layout::TEMPORARY;
use crate::datastore::Error;

/// The marker's name, after that of temporary files.
const MARKER: &str = "folders";

/// The name of the marker.
pub(super) fn marker() -> String {
    format!("{TEMPORARY}{MARKER}")
}

/// The directories that a cut changes, each opened and flushed once.
pub(super) struct Folders<'a> {
    store: &'a Dir,
    open: BTreeMap<String, Dir>,
    /// Whether directories exist, or will, whose entries may not be flushed.
    is_marked: bool,
    /// Whether that was so before this cut.
    was_marked: bool,
}

impl<'a> Folders<'a> {
    pub(super) fn new(store: &'a Dir, is_marked: bool) -> Self {
        Self { store, open: BTreeMap::new(), is_marked, was_marked: is_marked }
    }

    /// A directory, made with those above it where they are missing.
    pub(super) fn make(&mut self, folder: &str) -> Result<&Dir, Error> {
        if !self.open.contains_key(folder) {
            let dir = if let Some(dir) = self.store.open_dir(folder)? {
                dir.check()?;
                if self.was_marked && folder != "." {
                    self.make(parent(folder))?;
                }
                dir
            } else {
                self.mark()?;
                // Opening the one above also has it flushed.
                self.make(parent(folder))?;
                self.store.make_dir(folder)?
            };
            self.open.insert(folder.to_owned(), dir);
        }
        Ok(self.open.get(folder).unwrap_or(self.store))
    }

    fn mark(&mut self) -> Result<(), Error> {
        if !self.is_marked {
            self.store.create_file(&marker())?;
            self.is_marked = true;
        }
        Ok(())
    }

    /// Removes a file; where there is no directory, there is no file.
    pub(super) fn remove(&mut self, folder: &str, file: &str) -> Result<(), Error> {
        if !self.open.contains_key(folder) && self.store.open_dir(folder)?.is_none() {
            return Ok(());
        }
        self.make(folder)?.remove(file)
    }

    /// Makes an empty file that may exist.
    pub(super) fn touch(&mut self, folder: &str, file: &str) -> Result<(), Error> {
        self.make(folder)?.create_file(file)?;
        Ok(())
    }

    /// Flushes them.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.open.values().try_for_each(Dir::sync)
    }

    /// Removes the marker. Only after a cut: it changes every directory that a cut before it made.
    pub(super) fn unmark(&self) -> Result<(), Error> {
        if self.is_marked { self.store.remove(&marker()) } else { Ok(()) }
    }
}

#[cfg(test)]
impl Folders<'_> {
    /// The directories that are flushed.
    pub(super) fn names(&self) -> Vec<&str> {
        self.open.keys().map(String::as_str).collect()
    }
}

/// The directory above one of the store; `.` is the store's own.
fn parent(folder: &str) -> &str {
    folder.rsplit_once('/').map_or(".", |(above, _)| above)
}
