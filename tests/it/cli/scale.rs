//! A store of any size, made without calling the plugin for each address.
//!
//! By itself the test makes a small one. To have a large one, and to keep it:
//!
//! ```sh
//! HOST_AFFINE_SCALE_STORE=/var/tmp/large HOST_AFFINE_SCALE_BLOCKS=16384 HOST_AFFINE_SCALE_ADDRESSES=1000000 \
//!   cargo test --test it a_store_of_any_size
//! /usr/bin/time -v target/release/host-affine --datastore file:///var/tmp/large ipam show
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use host_affine::api::calico::{AffinityState, BlockAffinity};
use host_affine::api::calico::{Attribute, AttributeFields, IpPoolSpec, IpamHandle};
use host_affine::api::{Affinity, HandleId, Resource};
use host_affine::clock::Timestamp;
use host_affine::datastore::file::{Access, Durability, FileStore, IfAbsent, Options};
use host_affine::datastore::{Batch, Commit, Datastore as _, Key, run_in_place};
use host_affine::ipam::Block;
use host_affine::ipam::walk::Walk;
use host_affine::net::{AddrSet, Cidr};
use serde_json::json;

use super::support::Store;

const BLOCK_PREFIX: u8 = 26;
const BLOCKS_PER_HOST: usize = 16;

/// A pool, so many of its blocks, for as many hosts as that takes, and so many addresses in them.
struct Scale {
    pool: Cidr,
    blocks: usize,
    addresses: usize,
}

impl Scale {
    /// Which blocks there are: each host's where it would look for them.
    fn cidrs(&self) -> Vec<(String, Cidr)> {
        let mut taken = AddrSet::new();
        let mut cidrs = Vec::with_capacity(self.blocks);
        for number in 0..self.blocks.div_ceil(BLOCKS_PER_HOST) {
            let host = format!("node-{number:04}");
            let wanted = BLOCKS_PER_HOST.min(self.blocks - cidrs.len());
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
    fn held(&self) -> Vec<usize> {
        let size = 1usize << (32 - BLOCK_PREFIX);
        let mut left = self.addresses;
        let mut held = vec![0; self.blocks];
        while left > 0 {
            let before = left;
            for (number, held) in held.iter_mut().enumerate() {
                let more = (number * 2_654_435_761 % 97).min(size - *held).min(left);
                *held += more;
                left -= more;
            }
            assert!(left < before, "the blocks have room for so many addresses");
        }
        held
    }
}

fn make(path: &Path, scale: &Scale) {
    let options = Options {
        path: path.to_owned(),
        durability: Durability::Process,
        allow_network_file_system: false,
        lock_timeout: Duration::from_secs(60),
        operation: "a generator".to_owned(),
    };
    let open = FileStore::open(&options, Access::Change, IfAbsent::Create);
    let mut store = open.expect("the store is made").expect("it is there");
    let pool = scale.pool;
    let mut batch = Batch::default();
    let spec = IpPoolSpec { cidr: pool, ..serde_json::from_value(json!({ "cidr": pool })).expect("a pool") };
    batch.create(Key::Pool("pods".to_owned()), Resource::new("pods", spec));
    commit(&mut store, batch);
    let now = Timestamp::from_nanos(1_787_000_000_000_000_000);
    for (number, ((host, cidr), held)) in scale.cidrs().into_iter().zip(scale.held()).enumerate() {
        let owner: Affinity = format!("host:{host}").parse().expect("an owner");
        let mut block = Block::new(cidr, Some(owner.clone()), now, 0);
        let mut batch = Batch::default();
        for place in 0..held {
            let id = format!("pods.{number:08x}{place:056x}");
            let ordinal = block.next_free(&AddrSet::new()).expect("a block has room");
            block.assign(ordinal, &attribute(&id, &host, number, place));
            let counts = BTreeMap::from([(cidr, 1)]);
            let handle = IpamHandle { block: counts, ..IpamHandle::default() };
            batch.create(Key::Handle(HandleId::new(id).expect("a handle")), handle);
        }
        batch.create(Key::Block(cidr), block.wire().clone());
        let record = BlockAffinity { state: AffinityState::Confirmed, ..BlockAffinity::default() };
        batch.create(Key::Affinity(owner, cidr), record);
        commit(&mut store, batch);
    }
    store.write_out().expect("written out");
}

fn commit(store: &mut FileStore, batch: Batch) {
    assert_eq!(run_in_place(store.commit(batch)).expect("the store works"), Commit::Applied);
    run_in_place(store.settle());
}

/// What an ADD notes of a pod.
fn attribute(id: &str, host: &str, block: usize, place: usize) -> Attribute {
    let noted = [
        ("namespace", format!("team-{}", block % 100)),
        ("pod", format!("service-{block}-{place}")),
        ("node", host.to_owned()),
        ("timestamp", "2026-08-22 06:33:21.5 +0000 UTC".to_owned()),
        ("network", "pods".to_owned()),
        ("ifname", "eth0".to_owned()),
        ("netns", format!("/var/run/netns/cni-{block:08x}-{place:04x}")),
        ("boot", "0f0e0d0c-0b0a-4908-8706-050403020100".to_owned()),
    ];
    let owner = noted.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Attribute::new(&AttributeFields {
        handle_id: Some(id.into()),
        active_owner: Some(owner),
        ..AttributeFields::default()
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn a_store_of_any_size_is_counted_exactly_and_agrees_with_itself() {
    let number = |name, otherwise| variable(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let pool = variable("HOST_AFFINE_SCALE_POOL").unwrap_or_else(|| "10.0.0.0/12".to_owned());
    let scale = Scale {
        pool: pool.parse().expect("a range"),
        blocks: number("HOST_AFFINE_SCALE_BLOCKS", 80),
        addresses: number("HOST_AFFINE_SCALE_ADDRESSES", 4_005),
    };
    let store = Store::new();
    let path = variable("HOST_AFFINE_SCALE_STORE").map_or_else(|| store.path(), Into::into);
    make(&path, &scale);
    let url = format!("file://{}", path.display());
    let run = |args: &[&str]| {
        let mut command = super::support::program();
        store.ran(super::support::feed(command.arg("--datastore").arg(&url).args(args), ""))
    };
    let shown = run(&["ipam", "show", "--show-blocks", "-o", "json"]).exits(0).json();
    let pool = &shown["pools"][0];
    let total = usize::try_from(scale.pool.size()).expect("a small pool");
    assert_eq!((&pool["total"], &pool["inUse"]), (&json!(total), &json!(scale.addresses)));
    assert_eq!(pool["free"], json!(total - scale.addresses));
    let blocks = pool["blocks"].as_array().expect("blocks");
    let mut shown: Vec<_> = blocks.iter().map(|block| block["inUse"].as_u64().expect("a count")).collect();
    let mut held: Vec<_> = scale.held().into_iter().map(|held| u64::try_from(held).expect("few")).collect();
    shown.sort_unstable();
    held.sort_unstable();
    assert_eq!(shown, held);
    // Whoever is not here is nobody's to judge.
    run(&["ipam", "check"]).exits(0);
}
