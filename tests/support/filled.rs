//! Stores of any size, made without calling the plugin for each address.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use host_affine::api::calico::{AffinityState, BlockAffinity};
use host_affine::api::calico::{Attribute, AttributeFields, IpPoolSpec, IpamHandle};
use host_affine::api::{Affinity, HandleId, Resource};
use host_affine::clock::Timestamp;
use host_affine::datastore::file::{Access, Durability, FileStore, IfAbsent, Options};
use host_affine::datastore::{Batch, Commit, Datastore as _, Key, Want, run_in_place};
use host_affine::ipam::Block;
use host_affine::ipam::walk::Walk;
use host_affine::net::{AddrSet, Cidr};
use serde_json::json;

const BLOCK_PREFIX: u8 = 26;

/// A pool, so many of its blocks, for as many hosts as that takes, and so many addresses in them.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// The pool, which is called `pods`.
    pub(crate) pool: Cidr,
    /// How many of its blocks there are.
    pub(crate) blocks: usize,
    /// How many of them each host has; hosts are called `node-0000` and so on.
    pub(crate) blocks_per_host: usize,
    /// How many addresses are held.
    pub(crate) addresses: usize,
}

impl Scale {
    /// Which blocks there are: each host's where it would look for them.
    fn cidrs(&self) -> Vec<(String, Cidr)> {
        let mut taken = AddrSet::new();
        let mut cidrs = Vec::with_capacity(self.blocks);
        for number in 0..self.blocks.div_ceil(self.blocks_per_host) {
            let host = format!("node-{number:04}");
            let wanted = self.blocks_per_host.min(self.blocks - cidrs.len());
            let own: Vec<Cidr> = Walk::new(&host, self.pool, BLOCK_PREFIX, &taken).take(wanted).collect();
            for cidr in &own {
                taken.insert_cidr(*cidr);
            }
            cidrs.extend(own.into_iter().map(|cidr| (host.clone(), cidr)));
        }
        assert_eq!(cidrs.len(), self.blocks, "the pool has so many blocks");
        cidrs
    }

    /// How many addresses each block holds: some are full, some are nearly empty.
    pub(crate) fn held(&self) -> Vec<usize> {
        let size = 1usize << (32 - BLOCK_PREFIX);
        let mut left = self.addresses;
        let mut held = vec![0; self.blocks];
        while left > 0 {
            let before = left;
            for (number, held) in held.iter_mut().enumerate() {
                let more = (1 + number * 2_654_435_761 % 97).min(size - *held).min(left);
                *held += more;
                left -= more;
            }
            assert!(left < before, "the blocks have room for so many addresses");
        }
        held
    }
}

/// Makes it: the pool and the first block as calls do, the other files as a cut would have written them. The index is
/// then made from the blocks, as it is for whoever lost it.
pub(crate) fn make(path: &Path, scale: &Scale) {
    let mut store = open(path);
    let pool = scale.pool;
    let mut batch = Batch::default();
    let spec = IpPoolSpec { cidr: pool, ..serde_json::from_value(json!({ "cidr": pool })).expect("a pool") };
    batch.create(Key::Pool("pods".to_owned()), Resource::new("pods", spec));
    commit(&mut store, batch);
    for (number, ((host, cidr), held)) in scale.cidrs().into_iter().zip(scale.held()).enumerate() {
        let owner: Affinity = format!("host:{host}").parse().expect("an owner");
        let block = block_of(cidr, &owner, &host, number, held);
        if number == 0 {
            commit_block(&mut store, &owner, &block);
            store.write_out().expect("written out");
            continue;
        }
        let (stem, host) = (cidr.to_string().replace('/', "-"), format!("host%3A{host}"));
        let affinity = json!({ "owner": owner, "cidr": cidr, "resourceVersion": "2", "state": "confirmed" });
        write(path, "ipam/blocks", &format!("{stem}.json"), &serde_json::to_vec(block.wire()).expect("JSON"));
        write(
            path,
            &format!("ipam/affinities/{host}"),
            &format!("{stem}.json"),
            affinity.to_string().as_bytes(),
        );
        if !block.wire().unallocated.is_empty() {
            write(path, &format!("ipam/room/{host}"), &stem, b"");
        }
    }
    drop(store);
    fs::remove_file(path.join("index")).expect("the first block's");
    let nobody = HandleId::new("nobody").expect("a handle");
    run_in_place(open(path).read(&[Want::Held(nobody)])).expect("the index is made anew");
}

fn open(path: &Path) -> FileStore {
    let options = Options {
        path: path.to_owned(),
        durability: Durability::Process,
        allow_network_file_system: false,
        lock_timeout: Duration::from_secs(60),
        operation: "a generator".to_owned(),
    };
    let open = FileStore::open(&options, Access::Change, IfAbsent::Create);
    open.expect("the store is made").expect("it is there")
}

fn write(store: &Path, folder: &str, name: &str, content: &[u8]) {
    let folder = store.join(folder);
    fs::create_dir_all(&folder).expect("a directory");
    fs::write(folder.join(name), content).expect("a file");
}

fn handle_of(block: usize, place: usize) -> String {
    format!("pods.{block:08x}{place:056x}")
}

fn block_of(cidr: Cidr, owner: &Affinity, host: &str, number: usize, held: usize) -> Block {
    let now = Timestamp::from_nanos(1_787_000_000_000_000_000);
    // Of an earlier boot all would be dead.
    let boot = host_affine::host::boot_id().unwrap_or_default();
    let mut block = Block::new(cidr, Some(owner.clone()), now, 0);
    for place in 0..held {
        let ordinal = block.next_free(&AddrSet::new()).expect("a block has room");
        block.assign(ordinal, &attribute(&handle_of(number, place), host, &boot, number, place));
    }
    block
}

/// The first block, with its handles and its affinity.
fn commit_block(store: &mut FileStore, owner: &Affinity, block: &Block) {
    let cidr = block.cidr();
    let mut batch = Batch::default();
    for (place, _) in block.allocations().enumerate() {
        let handle = IpamHandle { block: BTreeMap::from([(cidr, 1)]), ..IpamHandle::default() };
        batch.create(Key::Handle(HandleId::new(handle_of(0, place)).expect("a handle")), handle);
    }
    batch.create(Key::Block(cidr), block.wire().clone());
    let record = BlockAffinity { state: AffinityState::Confirmed, ..BlockAffinity::default() };
    batch.create(Key::Affinity(owner.clone(), cidr), record);
    commit(store, batch);
}

fn commit(store: &mut FileStore, batch: Batch) {
    assert_eq!(run_in_place(store.commit(batch)).expect("the store works"), Commit::Applied);
    run_in_place(store.settle());
}

/// What an ADD notes of a pod.
fn attribute(id: &str, host: &str, boot: &str, block: usize, place: usize) -> Attribute {
    let noted = [
        ("namespace", format!("team-{}", block % 100)),
        ("pod", format!("service-{block}-{place}")),
        ("node", host.to_owned()),
        ("timestamp", "2026-08-22 06:33:21.5 +0000 UTC".to_owned()),
        ("network", "pods".to_owned()),
        ("ifname", "eth0".to_owned()),
        ("netns", format!("/var/run/netns/cni-{block:08x}-{place:04x}")),
        ("boot", boot.to_owned()),
        ("booted", "1787380000".to_owned()),
        ("host-netns", "4:4026531833".to_owned()),
        ("netns-id", format!("4:{}", 4_026_532_000_u64 + place as u64)),
        ("netns-dir", "107374182400:1302529:1787380000990997306".to_owned()),
    ];
    let owner = noted.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Attribute::new(&AttributeFields {
        handle_id: Some(id.into()),
        active_owner: Some(owner),
        ..AttributeFields::default()
    })
}
