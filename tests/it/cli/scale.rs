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
use host_affine::net::{AddrSet, Cidr};
use serde_json::json;

use super::support::Store;

const BLOCK_PREFIX: u8 = 26;
const BLOCKS_PER_HOST: usize = 16;

/// Blocks of a /12 at most, for as many hosts as that takes, with the addresses spread over them evenly.
struct Scale {
    blocks: usize,
    addresses: usize,
}

impl Scale {
    /// How many addresses are held in a block.
    fn held_in(&self, block: usize) -> usize {
        self.addresses / self.blocks + usize::from(block < self.addresses % self.blocks)
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
    let pool: Cidr = "10.0.0.0/12".parse().expect("a range");
    let mut batch = Batch::default();
    let spec = IpPoolSpec { cidr: pool, ..serde_json::from_value(json!({ "cidr": pool })).expect("a pool") };
    batch.create(Key::Pool("pods".to_owned()), Resource::new("pods", spec));
    commit(&mut store, batch);
    let now = Timestamp::from_nanos(1_787_000_000_000_000_000);
    for number in 0..scale.blocks {
        let cidr = pool.nth_subnet(BLOCK_PREFIX, u128::try_from(number).expect("few")).expect("a block");
        let host = format!("node-{:04}", number / BLOCKS_PER_HOST);
        let owner: Affinity = format!("host:{host}").parse().expect("an owner");
        let mut block = Block::new(cidr, Some(owner.clone()), now, 0);
        let mut batch = Batch::default();
        for place in 0..scale.held_in(number) {
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
    let scale = Scale {
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
    assert_eq!((&pool["total"], &pool["inUse"]), (&json!(1 << 20), &json!(scale.addresses)));
    assert_eq!(pool["free"], json!((1 << 20) - scale.addresses));
    let blocks = pool["blocks"].as_array().expect("blocks");
    assert_eq!(blocks.len(), scale.blocks);
    let held = blocks.iter().enumerate().map(|(number, block)| (scale.held_in(number), &block["inUse"]));
    held.for_each(|(wanted, shown)| assert_eq!(shown, &json!(wanted)));
    // Whoever is not here is nobody's to judge.
    run(&["ipam", "check"]).exits(0);
}
