//! What the file store promises beyond the contract of datastores.

mod damage;
mod derived;
mod formats;
mod journal;
mod limits;
mod locks;
mod power_cut;
mod repair;
mod safety;
mod salvage;
mod stores;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::journal::Journal;
use super::layout::JOURNAL;
use super::{Access, Durability, FileStore, IfAbsent, Options};
use crate::api::calico::{
    Attribute, AttributeFields, BlockAffinity, IpPool, IpPoolSpec, IpamBlock, IpamHandle,
};
use crate::api::{Affinity, HandleId};
use crate::clock::Timestamp;
use crate::datastore::{
    Answer, Batch, Commit, Datastore, Entry, Error, Key, Object, RoomOf, Want, run_in_place,
};
use crate::net::Cidr;

/// A store in a directory of its own.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a directory for the test") }
    }

    /// The store's directory, which the first session makes.
    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn options(&self) -> Options {
        Options {
            path: self.path(),
            durability: Durability::Process,
            allow_network_file_system: true,
            // Another test's child process holds copies of our descriptors until it runs its own program.
            lock_timeout: Duration::from_secs(30),
            operation: "process 1 (a test)".to_owned(),
        }
    }

    /// Opens the store as a call does whose commits are flushed, or not.
    fn session(&self, durability: Durability) -> FileStore {
        let options = Options { durability, ..self.options() };
        FileStore::open(&options, Access::Change, IfAbsent::Create).expect("opens").expect("exists")
    }

    fn try_open(&self, access: Access) -> Result<Option<FileStore>, Error> {
        FileStore::open(&self.options(), access, IfAbsent::Create)
    }

    /// Opens the store unless somebody has it locked.
    fn open_at_once(&self, access: Access) -> Result<Option<FileStore>, Error> {
        let options = Options { lock_timeout: Duration::ZERO, ..self.options() };
        FileStore::open(&options, access, IfAbsent::Create)
    }

    fn change(&self) -> FileStore {
        self.try_open(Access::Change).expect("opens").expect("exists")
    }

    fn reader(&self) -> FileStore {
        self.try_open(Access::Read).expect("opens").expect("exists")
    }

    /// Everything that a reader is told; an error as soon as there is one.
    fn everything(&self) -> Result<Vec<Answer>, Error> {
        let Some(mut reader) = self.try_open(Access::Read)? else {
            return Ok(Vec::new());
        };
        run_in_place(reader.read(&everything()))
    }

    fn everything_now(&self) -> Vec<Answer> {
        self.everything().expect("a reader is told everything")
    }

    /// The problem of the damage that a reader meets.
    fn damage(&self) -> (PathBuf, String) {
        match self.everything() {
            Err(Error::Damaged { path, problem }) => (path, problem),
            other => panic!("no damage was found: {other:?}"),
        }
    }

    fn journal(&self) -> Journal {
        let dir = super::Dir::open_store(&self.path()).expect("opens").expect("exists");
        Journal::open(&dir, Access::Read).expect("is read").expect("exists")
    }

    fn journal_bytes(&self) -> Vec<u8> {
        fs::read(self.file(JOURNAL)).expect("the journal")
    }

    fn put_journal_byte(&self, place: usize, byte: u8) {
        use std::os::unix::fs::FileExt;
        let file = fs::File::options().write(true).open(self.file(JOURNAL)).expect("opens");
        file.write_all_at(&[byte], u64::try_from(place).expect("small")).expect("the byte is written");
    }

    fn put_journal(&self, bytes: &[u8]) {
        fs::write(self.file(JOURNAL), bytes).expect("the journal is written");
    }
}

/// All that has one right answer.
fn everything() -> Vec<Want> {
    vec![
        Want::Settings,
        Want::AllBlocks,
        Want::AllHandles,
        Want::AllAffinities,
        Want::Nodes,
        Want::Held(handle("h0")),
        Want::Held(handle("h3")),
        Want::Held(handle("h7")),
    ]
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect(text)
}

fn owner(name: &str) -> Affinity {
    format!("host:{name}").parse().expect(name)
}

fn handle(name: &str) -> HandleId {
    HandleId::new(name).expect(name)
}

fn attribute(handle: &str) -> Attribute {
    Attribute::new(&AttributeFields { handle_id: Some(handle.into()), ..AttributeFields::default() })
}

fn pool(name: &str) -> IpPool {
    IpPool::new(name, IpPoolSpec::new(cidr("10.0.0.0/8")))
}

fn ask(store: &mut FileStore, want: Want) -> Answer {
    let answers = run_in_place(store.read(&[want])).expect("the store reads");
    answers.into_iter().next().expect("one answer to one want")
}

fn get(store: &mut FileStore, key: &Key) -> Option<Entry> {
    ask(store, Want::Object(key.clone())).object()
}

fn room(store: &mut FileStore, of: &str) -> Vec<Cidr> {
    let want =
        Want::Room { of: RoomOf::Owner(owner(of)), within: vec![cidr("0.0.0.0/0")], enough: usize::MAX };
    ask(store, want).cidrs()
}

fn try_commit(store: &mut FileStore, batch: Batch) -> Result<(), Error> {
    let commit = run_in_place(store.commit(batch))?;
    assert_eq!(commit, Commit::Applied);
    Ok(())
}

/// Writes an object, whatever stands there.
fn put(store: &mut FileStore, key: &Key, object: impl Into<Object>) {
    let mut batch = Batch::default();
    match get(store, key) {
        Some(entry) => batch.update(key.clone(), entry.revision, object),
        None => batch.create(key.clone(), object),
    }
    try_commit(store, batch).expect("is committed");
}

fn block_of(store: &mut FileStore, range: &str) -> IpamBlock {
    get(store, &Key::Block(cidr(range))).expect("the block").into()
}

/// Makes a block of a host, and its affinity.
fn claim(store: &mut FileStore, range: &str, of: &str) {
    let mut batch = Batch::default();
    let block = IpamBlock::new(cidr(range), Some(owner(of)), Timestamp::default(), 1000);
    batch.create(Key::Affinity(owner(of), cidr(range)), BlockAffinity::default());
    batch.create(Key::Block(cidr(range)), block);
    try_commit(store, batch).expect("is committed");
}

/// What an ADD commits: the next free address of a block goes to a handle.
fn try_assign(store: &mut FileStore, range: &str, id: &str) -> Result<(), Error> {
    let mut block = block_of(store, range);
    let (old, ordinal) = (block.sequence_number, block.unallocated[0]);
    assert!(block.set(ordinal, &attribute(id), old + 1));
    change_holding(store, range, id, block, true)
}

fn assign(store: &mut FileStore, range: &str, id: &str) {
    try_assign(store, range, id).expect("is committed");
}

/// What a DEL commits: a handle loses an address that it has in a block.
fn try_release(store: &mut FileStore, range: &str, id: &str) -> Result<(), Error> {
    let mut block = block_of(store, range);
    let old = block.sequence_number;
    let is_its = |index: &u16| block.attributes[usize::from(*index)] == attribute(id);
    let place = block.allocations.iter().position(|index| index.as_ref().is_some_and(is_its));
    let ordinal = u16::try_from(place.expect("it has one")).expect("small");
    assert!(block.clear(ordinal, old + 1));
    change_holding(store, range, id, block, false)
}

fn release(store: &mut FileStore, range: &str, id: &str) {
    try_release(store, range, id).expect("is committed");
}

fn change_holding(
    store: &mut FileStore,
    range: &str,
    id: &str,
    block: IpamBlock,
    gains: bool,
) -> Result<(), Error> {
    let key = Key::Handle(handle(id));
    let old = get(store, &key);
    let mut held: IpamHandle = old.clone().map(Entry::into).unwrap_or_default();
    let count = held.block.entry(cidr(range)).or_default();
    *count = if gains { *count + 1 } else { *count - 1 };
    held.block.retain(|_, count| *count > 0);
    let mut batch = Batch::default();
    match old {
        None => batch.create(key, held),
        Some(old) if held.block.is_empty() => batch.delete(key, old.revision),
        Some(old) => batch.update(key, old.revision, held),
    }
    let old = get(store, &Key::Block(cidr(range))).expect("the block").revision;
    batch.update(Key::Block(cidr(range)), old, block);
    try_commit(store, batch)
}

/// A store whose journal has 20 records of every kind, all of which are known to be flushed.
fn with_twenty_records() -> Bench {
    let bench = Bench::new();
    let mut store = bench.session(Durability::Power);
    put(&mut store, &Key::Pool("a".to_owned()), pool("a"));
    claim(&mut store, "10.0.0.0/29", "n");
    claim(&mut store, "10.0.0.8/29", "n");
    for number in 0..8 {
        assign(&mut store, "10.0.0.0/29", &format!("h{number}"));
    }
    for number in 2..5 {
        release(&mut store, "10.0.0.0/29", &format!("h{number}"));
    }
    put(&mut store, &Key::Pool("b".to_owned()), pool("b"));
    for number in 3..8 {
        assign(&mut store, "10.0.0.8/29", &format!("h{number}"));
    }
    assert_eq!(store.journal.next_seq(), 21);
    run_in_place(store.settle());
    bench
}

/// All files beneath a directory with their content, times and modes.
fn snapshot(path: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    for entry in fs::read_dir(path).expect("a directory") {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("metadata");
        let (mode, inode) = (metadata.mode(), metadata.ino());
        found.push(format!(
            "{} {mode:o} {inode} {}.{}",
            path.display(),
            metadata.mtime(),
            metadata.mtime_nsec()
        ));
        if metadata.is_dir() {
            found.extend(snapshot(&path));
        }
    }
    found.sort();
    found
}
