//! Walks over many objects, which hold no lock: neither they nor those who commit wait for each other for long.

use std::collections::BTreeSet;

use super::{Access, FileStore};
use crate::datastore::Error;

/// So many objects are read under the lock: about the time of a few commits.
const LOCKED_MAX: usize = 64;

impl FileStore {
    /// Reads what `list` names with `read`, in the order of the names.
    ///
    /// A session that only reads lets go of the lock for many names. Each object is then as it was at some moment in
    /// between: files are replaced whole, and what the journal said when it was read stays true until they are. What
    /// is missing or looks wrong is looked at again under the lock, and so is what is new. What is damaged is an error,
    /// unless somebody said that it is to be passed over.
    pub(super) fn walk<K: Ord + Clone, T>(
        &mut self,
        list: impl Fn(&mut Self) -> Result<BTreeSet<K>, Error>,
        read: impl Fn(&Self, &K) -> Result<Option<T>, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut names = list(self)?;
        let mut found: Vec<(K, T)> = Vec::with_capacity(names.len());
        if self.access == Access::Read && names.len() > LOCKED_MAX {
            self.unlock();
            for name in &names {
                if let Ok(Some(object)) = read(self, name) {
                    found.push((name.clone(), object));
                }
            }
            self.lock_again()?;
            names = list(self)?;
            for (name, _) in &found {
                names.remove(name);
            }
        }
        for name in names {
            match (read(self, &name), &mut self.passed_over) {
                (Ok(object), _) => found.extend(object.map(|object| (name, object))),
                (Err(error @ Error::Damaged { .. }), Some(passed_over)) => passed_over.push(error),
                (Err(error), _) => return Err(error),
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found.into_iter().map(|(_, object)| object).collect())
    }
}
