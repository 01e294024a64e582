//! What one call leaves to the next on the machine itself. Losing it, or being wrong, costs a request.
//!
//! - Which blocks a host took addresses from last: a guess, so that they can be read before its affinities are known.
//! - Which endpoint answered last, so that not every call waits for one that is silent.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

use crate::api::{Affinity, HostName};
use crate::datastore::RoomHint;
use crate::net::{Cidr, Family};

/// The longest file that is one of ours, in bytes.
const FILE_MAX: u64 = 256;

/// The files of this machine.
#[derive(Debug)]
pub(super) struct Memory {
    directory: Option<PathBuf>,
    /// Which store it is about.
    store: String,
    /// What was remembered when the call began: at most one block of a family.
    blocks: Vec<Cidr>,
    /// The endpoint that is asked first.
    endpoint: String,
}

impl Memory {
    /// Of a store, by its endpoints.
    pub(super) fn new(directory: Option<PathBuf>, endpoints: &[String]) -> Self {
        let first = endpoints.first().cloned().unwrap_or_default();
        let mut new = Self { directory, store: endpoints.join(","), blocks: Vec::new(), endpoint: first };
        if endpoints.len() > 1 {
            let told = new.file("").and_then(|path| read(&path).ok()).unwrap_or_default();
            if endpoints.contains(&told) {
                new.endpoint = told;
            }
        }
        new
    }

    /// The endpoint to ask first: the one that answered last, as far as is known.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Remembers the endpoint that answered, if it is another than before.
    pub(super) fn note_endpoint(&mut self, endpoint: &str) {
        if endpoint != self.endpoint {
            endpoint.clone_into(&mut self.endpoint);
            self.keep("", endpoint);
        }
    }

    /// The blocks that a host took from last.
    pub(super) fn blocks_of(&mut self, host: &HostName) -> Vec<Cidr> {
        let text = self.file(host.as_str()).and_then(|path| read(&path).ok()).unwrap_or_default();
        self.blocks = text.lines().filter_map(|line| line.parse().ok()).take(2).collect();
        self.blocks.clone()
    }

    /// Remembers the host's own blocks that a commit changed and that have room, if they are others than before.
    pub(super) fn note(&mut self, host: &HostName, hints: &[RoomHint]) {
        let me = Some(Affinity::Host(host.clone()));
        let mut blocks = self.blocks.clone();
        for hint in hints.iter().filter(|hint| hint.has_room && hint.owner == me) {
            let family: Family = hint.block.family();
            blocks.retain(|block| block.family() != family);
            blocks.push(hint.block);
        }
        if blocks == self.blocks {
            return;
        }
        self.keep(
            host.as_str(),
            &blocks.iter().fold(String::new(), |text, block| text + &block.to_string() + "\n"),
        );
        self.blocks = blocks;
    }

    fn keep(&self, about: &str, text: &str) {
        let Some(path) = self.file(about) else { return };
        if let Err(error) = write(&path, text) {
            log::debug!("{} could not be written: {error}", path.display());
        }
    }

    /// Where something about a host is; about none, what is about the store. Names from outside are no path components:
    /// a digest of them is.
    fn file(&self, about: &str) -> Option<PathBuf> {
        let digest = Sha256::digest(format!("{} {about}", self.store));
        let start = digest.iter().take(12).fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
        Some(self.directory.as_ref()?.join(format!("{start:024x}")))
    }
}

fn read(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file as a whole, so that no reader sees half of it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let written = make(&temporary).and_then(|mut file| file.write_all(text.as_bytes()));
    let renamed = written.and_then(|()| std::fs::rename(&temporary, path));
    renamed.inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

fn make(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW.bits();
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostName {
        HostName::new(name).expect(name)
    }

    fn hint(block: &str, owner: &str) -> RoomHint {
        let owner = Some(Affinity::Host(host(owner)));
        RoomHint { block: block.parse().expect(block), owner, has_room: true }
    }

    #[test]
    fn the_last_own_block_of_each_family_is_remembered_for_each_host_and_store() {
        let folder = tempfile::tempdir().expect("a directory");
        let directory = Some(folder.path().join("made/on/demand"));
        let memory = |store: &str| Memory::new(directory.clone(), &[store.to_owned()]);
        let mut first = memory("a");
        assert_eq!(first.blocks_of(&host("n")), []);
        first.note(&host("n"), &[hint("10.0.0.0/26", "n"), hint("10.0.1.0/26", "other")]);
        first.note(&host("n"), &[hint("fd00::/122", "n")]);
        first.note(&host("n"), &[hint("10.0.2.0/26", "n")]);
        first.note(&host("n"), &[RoomHint { has_room: false, ..hint("10.0.3.0/26", "n") }]);
        let cidrs = ["fd00::/122", "10.0.2.0/26"].map(|text| text.parse::<Cidr>().expect(text));
        assert_eq!(memory("a").blocks_of(&host("n")), cidrs);
        assert_eq!(memory("a").blocks_of(&host("m")), []);
        assert_eq!(memory("b").blocks_of(&host("n")), []);
    }

    #[test]
    fn the_endpoint_that_answered_last_is_remembered_for_each_store() {
        let folder = tempfile::tempdir().expect("a directory");
        let urls = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let memory = |names: &[&str]| Memory::new(Some(folder.path().into()), &urls(names));
        let mut first = memory(&["a", "b"]);
        assert_eq!(first.endpoint(), "a");
        first.note_endpoint("b");
        assert_eq!(memory(&["a", "b"]).endpoint(), "b");
        assert_eq!(memory(&["a", "c"]).endpoint(), "a", "another store");
        memory(&["a", "b"]).note_endpoint("a");
        assert_eq!(memory(&["a", "b"]).endpoint(), "a");
        // What somebody else wrote there names no endpoint of this store.
        first.keep("", "http://elsewhere");
        assert_eq!(memory(&["a", "b"]).endpoint(), "a");
        assert_eq!(Memory::new(None, &urls(&["a", "b"])).endpoint(), "a");
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_no_error() {
        let mut memory = Memory::new(Some("/proc/nothing/here".into()), &["a".to_owned()]);
        memory.note(&host("n"), &[hint("10.0.0.0/26", "n")]);
        assert_eq!(memory.blocks_of(&host("n")), []);
        memory.note_endpoint("b");
        assert_eq!(memory.endpoint(), "b", "it serves this call");
    }
}
