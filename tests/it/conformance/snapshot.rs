//! What lies outside of the store, before and after a case: a plugin has no business there.

use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

/// Every entry of a tree, by its path below the root. The directory it was told to leave out is not in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, Entry>);

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    kind: FileType,
    /// Bytes of a regular file; 0 for everything else, whose size is the file system's affair.
    size: u64,
}

impl Snapshot {
    pub(crate) fn of(root: &Path, left_out: &Path) -> io::Result<Self> {
        let mut seen = BTreeMap::new();
        let mut unread = vec![root.to_owned()];
        while let Some(directory) = unread.pop() {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                if path == left_out {
                    continue;
                }
                let metadata = fs::symlink_metadata(&path)?;
                let size = if metadata.is_file() { metadata.len() } else { 0 };
                let below = path.strip_prefix(root).unwrap_or(&path).to_owned();
                seen.insert(below, Entry { kind: metadata.file_type(), size });
                if metadata.is_dir() {
                    unread.push(path);
                }
            }
        }
        Ok(Self(seen))
    }

    /// The paths that were created, removed or changed from this one to `later`.
    pub(crate) fn changes(&self, later: &Self) -> Vec<PathBuf> {
        let gone_or_changed = self.0.iter().filter(|(path, entry)| later.0.get(*path) != Some(entry));
        let new = later.0.iter().filter(|(path, _)| !self.0.contains_key(*path));
        gone_or_changed.chain(new).map(|(path, _)| path.clone()).collect()
    }
}

mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("a directory of our own");
        fs::create_dir_all(tree.path().join("a/store")).expect("directories");
        fs::write(tree.path().join("a/canary"), "canary\n").expect("a file");
        tree
    }

    /// What `Snapshot` sees of `change`, which gets the root of the tree.
    fn seen_of(change: impl FnOnce(&Path)) -> Vec<String> {
        let tree = tree();
        let (root, store) = (tree.path(), tree.path().join("a/store"));
        let before = Snapshot::of(root, &store).expect("readable");
        change(root);
        let after = Snapshot::of(root, &store).expect("readable");
        assert_eq!(before == after, before.changes(&after).is_empty());
        before.changes(&after).into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn whatever_happens_in_the_store_is_not_seen() {
        let none: [&str; 0] = [];
        assert_eq!(seen_of(|_| {}), none);
        assert_eq!(seen_of(|root| fs::write(root.join("a/store/x"), "x").expect("written")), none);
        assert_eq!(seen_of(|root| fs::remove_dir(root.join("a/store")).expect("removed")), none);
    }

    #[test]
    fn a_created_removed_or_resized_entry_outside_is_seen() {
        assert_eq!(seen_of(|root| fs::write(root.join("x"), "").expect("written")), ["x"]);
        assert_eq!(seen_of(|root| fs::create_dir(root.join("a/x")).expect("created")), ["a/x"]);
        assert_eq!(seen_of(|root| symlink("canary", root.join("a/x")).expect("linked")), ["a/x"]);
        assert_eq!(seen_of(|root| fs::remove_file(root.join("a/canary")).expect("removed")), ["a/canary"]);
        assert_eq!(
            seen_of(|root| fs::write(root.join("a/canary"), "longer text\n").expect("written")),
            ["a/canary"]
        );
    }

    #[test]
    fn a_file_that_became_another_kind_of_entry_is_seen() {
        let changes = seen_of(|root| {
            fs::remove_file(root.join("a/canary")).expect("removed");
            fs::create_dir(root.join("a/canary")).expect("created");
        });
        assert_eq!(changes, ["a/canary"]);
    }
}
