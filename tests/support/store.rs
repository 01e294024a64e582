//! What a file store holds, read through the library as the command line does.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_affine::api::calico::{IpamBlock, IpamConfiguration, IpamConfigurationSpec};
use host_affine::clock::{Clock as _, SystemClock};
use host_affine::datastore::file::{Access, Durability, FileStore, IfAbsent, Options};
use host_affine::datastore::{Answer, Batch, Commit, Datastore as _, Entry, Key, Want, run_in_place};
use host_affine::ipam::{Block, Finding, HOST_ADDRESS_HANDLE, Ipam, Usage, audit, noted, owner_key};

use super::cni::Network;

/// A directory for a test, and a place in it for a store that does not exist yet.
#[derive(Debug)]
pub(crate) struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    /// On the disk.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a directory for the test") }
    }

    /// In memory where that is possible: for tests that make very many calls and do not depend on the disk.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = tempfile::Builder::new().prefix("host-affine-test-").tempdir_in(memory);
        folder.map_or_else(|_| Self::new(), |folder| Self { folder })
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the store is, or will be.
    pub(crate) fn store(&self) -> PathBuf {
        self.path().join("store")
    }
}

/// Who holds an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub(crate) network: String,
    pub(crate) container: String,
    pub(crate) ifname: String,
    pub(crate) node: String,
}

/// Everything that a store holds.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// Who has which address. The hosts' own addresses are not among them.
    pub(crate) held: BTreeMap<IpAddr, Holder>,
    /// Every block.
    pub(crate) blocks: Vec<IpamBlock>,
    /// How many handles there are.
    pub(crate) handles: usize,
    /// The counts.
    pub(crate) usage: Usage,
    /// What does not agree.
    pub(crate) findings: Vec<Finding>,
}

impl View {
    /// Reads a store. One that does not exist holds nothing.
    #[track_caller]
    pub(crate) fn of(path: &Path) -> View {
        let Some(store) = open(path, Access::Read, IfAbsent::None) else { return View::default() };
        let mut ipam = Ipam::new(store);
        let usage =
            run_in_place(ipam.usage(SystemClock.now())).unwrap_or_else(|error| panic!("no usage: {error}"));
        let wants = [Want::AllBlocks, Want::AllHandles, Want::AllAffinities];
        let answers = run_in_place(ipam.store_mut().read(&wants)).unwrap_or_else(|error| panic!("{error}"));
        let entries: Vec<Entry> = answers.into_iter().flat_map(Answer::objects).collect();
        let handles = entries.iter().filter(|entry| matches!(entry.key, Key::Handle(_))).count();
        let is_block = |entry: &&Entry| matches!(entry.key, Key::Block(_));
        let blocks: Vec<IpamBlock> = entries.iter().filter(is_block).cloned().map(Entry::into).collect();
        let findings = audit(entries.into_iter().map(|entry| (entry.key, entry.object)));
        View { held: blocks.iter().flat_map(held_in).collect(), blocks, handles, usage, findings }
    }

    /// All objects agree, and all counts do: with each other, and with who holds what.
    #[track_caller]
    pub(crate) fn sound(self) -> Self {
        assert_eq!(self.findings, [], "objects do not agree");
        let mut in_use = 0;
        for pool in &self.usage.pools {
            let counted = pool.in_use + pool.reserved + pool.carved + pool.free;
            assert_eq!(pool.capacity, counted, "pool {}", pool.cidr);
            in_use += pool.in_use;
        }
        in_use += self.usage.orphans.iter().map(|block| block.in_use).sum::<u128>();
        let own = self.blocks.iter().flat_map(own_in).count();
        assert_eq!(usize::try_from(in_use), Ok(self.held.len() + own), "the counts are not what is held");
        self
    }

    /// The addresses of a container, on whatever network and interface.
    pub(crate) fn of_container(&self, container: &str) -> Vec<IpAddr> {
        let of_it =
            |(address, holder): (&IpAddr, &Holder)| (holder.container == container).then_some(*address);
        self.held.iter().filter_map(of_it).collect()
    }

    /// How many blocks are affine to each host.
    pub(crate) fn blocks_of(&self, node: &str) -> usize {
        let owner = format!("host:{node}");
        self.blocks
            .iter()
            .filter(|block| block.affinity.as_ref().is_some_and(|a| a.to_string() == owner))
            .count()
    }
}

fn held_in(wire: &IpamBlock) -> Vec<(IpAddr, Holder)> {
    let block = Block::from_wire(wire.clone()).unwrap_or_else(|error| panic!("{}: {error}", wire.cidr));
    let mut held = Vec::new();
    for allocation in block.allocations() {
        let fields = allocation.fields;
        let handle = fields.handle_id.as_deref().unwrap_or_default();
        if handle == HOST_ADDRESS_HANDLE || fields.released_at.is_some() {
            continue;
        }
        let noted = |key| noted(&fields, key).unwrap_or_default().to_owned();
        let network = noted(owner_key::NETWORK);
        let container = handle.strip_prefix(&format!("{network}.")).unwrap_or(handle).to_owned();
        let (ifname, node) = (noted(owner_key::IFNAME), noted(owner_key::NODE));
        held.push((allocation.address, Holder { network, container, ifname, node }));
    }
    held
}

fn own_in(wire: &IpamBlock) -> Vec<IpAddr> {
    let block = Block::from_wire(wire.clone()).unwrap_or_else(|error| panic!("{}: {error}", wire.cidr));
    let own = |handle: Option<&str>| handle == Some(HOST_ADDRESS_HANDLE);
    block.allocations().filter(|a| own(a.fields.handle_id.as_deref())).map(|a| a.address).collect()
}

/// Sets the global options, in a store that is made if there is none.
pub(crate) fn configure(path: &Path, spec: IpamConfigurationSpec) {
    let mut store = open(path, Access::Change, IfAbsent::Create).expect("it is made");
    let settings = run_in_place(store.read(&[Want::Settings])).expect("settings").remove(0).settings();
    let mut batch = Batch::default();
    match settings.configuration {
        None => batch.create(Key::Configuration, IpamConfiguration::new("default", spec)),
        Some((revision, _)) => {
            batch.update(Key::Configuration, revision, IpamConfiguration::new("default", spec));
        }
    }
    assert_eq!(run_in_place(store.commit(batch)).expect("committed"), Commit::Applied);
    run_in_place(store.settle());
}

/// The header of the journal, which changes when it is written out. Empty: there is no store.
pub(crate) fn header_of(store: &Path) -> Vec<u8> {
    fs::read(store.join("journal")).map(|bytes| bytes[..128].to_vec()).unwrap_or_default()
}

/// Makes calls until the journal has just been written out, and everything is in its file.
pub(crate) fn write_out(network: &Network, store: &Path) {
    let (before, filler) = (header_of(store), network.unflushed());
    for _ in 0..200 {
        filler.add("filler").succeeded();
        filler.del("filler").succeeded();
        if header_of(store) != before {
            return;
        }
    }
    panic!("400 commits, and the journal was not written out");
}

/// Opens a store; `None`: there is none.
#[track_caller]
pub(crate) fn open(path: &Path, access: Access, if_absent: IfAbsent) -> Option<FileStore> {
    let options = Options {
        path: path.to_owned(),
        durability: Durability::Process,
        allow_network_file_system: false,
        lock_timeout: Duration::from_secs(20),
        operation: "a test".to_owned(),
    };
    FileStore::open(&options, access, if_absent)
        .unwrap_or_else(|error| panic!("the store: {error}: {error:?}"))
}

/// Copies a directory with all that is in it. It keeps the modes, on which a store insists.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    fs::set_permissions(to, fs::metadata(from).expect("it is there").permissions()).expect("a mode");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.expect("an open directory can be listed");
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().expect("a type").is_dir() {
            copy_tree(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        }
    }
}
