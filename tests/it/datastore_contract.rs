//! What every datastore promises, and that the file store answers as the reference in memory does.
//!
//! A backend is added by implementing `Backend` and naming it in `contract!`.

mod backends;
#[expect(clippy::disallowed_methods, reason = "it does to files what befalls them")]
mod model;
mod things;

use std::collections::BTreeSet;

use host_affine::api::calico::{
    AffinityState, BlockAffinity, IpReservation, IpReservationSpec, IpamBlock, IpamConfiguration,
    IpamConfigurationSpec, IpamHandle, Node, NodeSpec,
};
use host_affine::api::milo::PoolExtras;
use host_affine::api::{Affinity, HandleId, ObjectMeta};
use host_affine::clock::Timestamp;
use host_affine::datastore::{
    Answer, Batch, Collection, Commit, Datastore, Entry, Guard, Import, ImportedDirectory, Key, MachinesOf,
    Object, Revision, RoomHint, RoomOf, Want,
};
use host_affine::net::Cidr;

use crate::support::etcd::need_etcd;
use backends::{Backend, Between, InEtcd, InFiles, InMemory};
use things::{
    allocation, apply, ask, attribute, block, carved, cidr, claim, commit, get, handle, holding, host,
    machine, objects, of_project, owner, plain, pool, pool_key, refused, revision,
};

macro_rules! contract {
    ($($promise:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $promise() { super::$promise(&mut super::InMemory::default()); })*
        }
        mod file {
            $(#[test] fn $promise() { super::$promise(&mut super::InFiles::new(super::Between::Nothing)); })*
        }
        mod file_written_out {
            $(#[test] fn $promise() { super::$promise(&mut super::InFiles::new(super::Between::WriteOut)); })*
        }
        mod etcd {
            $(#[test] fn $promise() {
                super::need_etcd!();
                super::$promise(&mut super::InEtcd::new());
            })*
        }
    };
}

contract![
    what_was_created_is_read,
    an_existing_key_is_not_created_again,
    a_stale_revision_changes_nothing,
    a_deleted_key_is_neither_updated_nor_deleted,
    a_revision_never_comes_again,
    a_refused_batch_changes_nothing,
    a_guard_refuses_what_changed_meanwhile,
    a_guard_refuses_a_new_block_that_was_not_seen,
    a_handle_is_read_with_the_blocks_that_it_names,
    lists_are_in_the_order_of_their_keys,
    blocks_with_room_are_found,
    the_floor_rises_with_a_deleted_block,
    a_batch_without_operations_is_applied,
];

fn what_was_created_is_read(backend: &mut impl Backend) {
    let affinity_key = Key::Affinity(owner("n"), cidr("10.0.0.0/30"));
    let name = backend.odd_name();
    let imported = ImportedDirectory {
        directory: "/d".to_owned(),
        inode: u64::MAX,
        ranges: [cidr("10.0.0.0/16"), cidr("fd00::/64")].into(),
    };
    let objects: Vec<(Key, Object)> = vec![
        (Key::Configuration, IpamConfiguration::new("default", IpamConfigurationSpec::default()).into()),
        (pool_key(name), pool(name, "10.0.0.0/16").into()),
        (Key::Reservation("r".to_owned()), IpReservation::new("r", IpReservationSpec::default()).into()),
        (Key::Node(host("n")), Node::new("n", NodeSpec::default()).into()),
        (Key::Block(cidr("10.0.0.0/30")), block("10.0.0.0/30", "n").into()),
        (affinity_key, BlockAffinity::new(AffinityState::Confirmed).into()),
        (
            Key::Import("net".to_owned()),
            Import { network: "net".to_owned(), hosts: [(host("n"), imported)].into() }.into(),
        ),
        (Key::Carved(cidr("10.0.1.0/24")), carved("a").into()),
        (Key::PoolExtras("a/b ü".to_owned()), PoolExtras::default().into()),
        (Key::Allocation(of_project("p/1", "web")), allocation("web").into()),
        (Key::Claim(of_project("default", "web")), claim("web").into()),
        (Key::Machine(handle("net.vmi.prod.db")), machine("db").into()),
        (
            Key::MachinesOf(handle("net.c1")),
            MachinesOf { machines: [handle("net.vmi.prod.db")].into() }.into(),
        ),
    ];
    for (key, _) in &objects {
        assert_eq!(get(backend.store(), key), None, "{key}");
    }
    apply(backend.store(), |batch| {
        for (key, object) in &objects {
            batch.create(key.clone(), object.clone());
        }
    });
    for again in 0..2 {
        for (key, object) in &objects {
            let found = get(backend.store(), key).map(plain);
            assert_eq!(found.map(|entry| entry.object).as_ref(), Some(object), "{key}, {again}");
        }
        backend.reopen();
    }
    let settings = ask(backend.store(), Want::Settings).settings();
    // A store that others share may have reservations of its own making.
    let reservations = settings.reservations.iter().filter(|(_, reservation)| reservation.name() == "r");
    let counts = (settings.pools.len(), reservations.count(), settings.imports.len());
    assert_eq!((settings.configuration.is_some(), counts), (true, (1, 1, 1)));
}

fn an_existing_key_is_not_created_again(backend: &mut impl Backend) {
    let store = backend.store();
    apply(store, |batch| {
        batch.create(pool_key("a"), pool("a", "10.0.0.0/16"));
    });
    let mut batch = Batch::default();
    batch.create(pool_key("a"), pool("a", "10.1.0.0/16"));
    let found = get(store, &pool_key("a"));
    match commit(store, batch) {
        Commit::Refused(conflicts) => assert_eq!((conflicts.len(), &conflicts[0].found), (1, &found)),
        other => panic!("{other:?}"),
    }
    assert_eq!(get(store, &pool_key("a")), found);
}

fn a_stale_revision_changes_nothing(backend: &mut impl Backend) {
    let store = backend.store();
    let keys = [pool_key("a"), Key::Node(host("n")), Key::Block(cidr("10.0.0.0/30"))];
    apply(store, |batch| {
        batch.create(keys[0].clone(), pool("a", "10.0.0.0/16"));
        batch.create(keys[1].clone(), Node::new("n", NodeSpec::default()));
        batch.create(keys[2].clone(), block("10.0.0.0/30", "n"));
    });
    let old: Vec<Revision> = keys.iter().map(|key| revision(store, key)).collect();
    let mut newer = block("10.0.0.0/30", "n");
    assert!(newer.set(0, &attribute("h", "p"), 1001));
    apply(store, |batch| {
        batch.update(keys[0].clone(), old[0], pool("a", "10.0.0.0/16"));
        batch.update(keys[1].clone(), old[1], Node::new("n", NodeSpec::default()));
        batch.update(keys[2].clone(), old[2], newer.clone());
        batch.create(Key::Handle(handle("h")), holding(&[("10.0.0.0/30", 1)]));
    });
    for (key, old) in keys.iter().zip(old) {
        let before = get(store, key).expect("it exists");
        assert_ne!(before.revision, old, "{key}");
        assert_eq!(refused(store, |batch| batch.delete(key.clone(), old)), std::slice::from_ref(key));
        let object = before.object.clone();
        assert_eq!(refused(store, |batch| batch.update(key.clone(), old, object)), std::slice::from_ref(key));
        assert_eq!(get(store, key), Some(before));
    }
}

fn a_deleted_key_is_neither_updated_nor_deleted(backend: &mut impl Backend) {
    let store = backend.store();
    apply(store, |batch| {
        batch.create(pool_key("a"), pool("a", "10.0.0.0/16"));
    });
    let old = revision(store, &pool_key("a"));
    apply(store, |batch| batch.delete(pool_key("a"), old));
    assert_eq!(get(store, &pool_key("a")), None);
    assert_eq!(refused(store, |batch| batch.delete(pool_key("a"), old)), [pool_key("a")]);
    assert_eq!(
        refused(store, |batch| batch.update(pool_key("a"), old, pool("a", "10.0.0.0/16"))),
        [pool_key("a")]
    );
}

fn a_revision_never_comes_again(backend: &mut impl Backend) {
    let range = "10.0.0.0/30";
    let keys = [pool_key("a"), Key::Block(cidr(range)), Key::Handle(handle("h"))];
    let mut seen = BTreeSet::new();
    for round in 0..4 {
        let store = backend.store();
        let floor = ask(store, Want::Settings).settings().sequence_floor;
        let mut made = block(range, "n");
        made.sequence_number = made.sequence_number.max(floor);
        let first = made.sequence_number;
        assert!(made.set(0, &attribute("h", "p"), first + 1));
        apply(store, |batch| {
            batch.create(keys[0].clone(), pool("a", "10.0.0.0/16"));
            batch.create(keys[1].clone(), made.clone());
            batch.create(keys[2].clone(), holding(&[(range, 1)]));
        });
        for (place, key) in keys.iter().enumerate() {
            assert!(seen.insert((place, revision(store, key).0)), "{key} in round {round}");
        }
        let revisions: Vec<Revision> = keys.iter().map(|key| revision(store, key)).collect();
        apply(store, |batch| {
            for (key, revision) in keys.iter().zip(revisions) {
                batch.delete(key.clone(), revision);
            }
        });
        backend.reopen();
    }
}

fn a_refused_batch_changes_nothing(backend: &mut impl Backend) {
    let store = backend.store();
    apply(store, |batch| {
        batch.create(pool_key("a"), pool("a", "10.0.0.0/16"));
    });
    let keys = refused(store, |batch| {
        batch.create(pool_key("b"), pool("b", "10.1.0.0/16"));
        batch.create(Key::Block(cidr("10.0.0.0/30")), block("10.0.0.0/30", "n"));
        batch.create(pool_key("a"), pool("a", "10.2.0.0/16"));
        batch.delete(pool_key("c"), Revision(1));
    });
    assert_eq!(keys, [pool_key("a"), pool_key("c")]);
    backend.reopen();
    let store = backend.store();
    assert_eq!(ask(store, Want::Settings).settings().pools.len(), 1);
    assert_eq!(ask(store, Want::BlockCidrs(cidr("0.0.0.0/0"))).cidrs(), []);
    let everywhere = Want::Room { of: RoomOf::Owner(owner("n")), within: vec![cidr("0.0.0.0/0")], enough: 9 };
    assert_eq!(ask(store, everywhere).cidrs(), []);
}

fn a_guard_refuses_what_changed_meanwhile(backend: &mut impl Backend) {
    let store = backend.store();
    apply(store, |batch| {
        batch.create(pool_key("a"), pool("a", "10.0.0.0/16"));
    });
    let old = revision(store, &pool_key("a"));
    let guarded = |guard: Guard| {
        move |batch: &mut Batch| {
            batch.create(Key::Node(host("n")), Node::new("n", NodeSpec::default()));
            batch.guards.push(guard);
        }
    };
    for (key, expected) in
        [(pool_key("a"), None), (pool_key("a"), Some(Revision(old.0 + 999))), (pool_key("b"), Some(old))]
    {
        let guard = Guard::Unchanged(key.clone(), expected);
        assert_eq!(refused(store, guarded(guard)), [key]);
        assert_eq!(get(store, &Key::Node(host("n"))), None);
    }
    apply(store, |batch| {
        batch.guards.push(Guard::Unchanged(pool_key("b"), None));
        guarded(Guard::Unchanged(pool_key("a"), Some(old)))(batch);
    });
}

fn a_guard_refuses_a_new_block_that_was_not_seen(backend: &mut impl Backend) {
    let store = backend.store();
    for range in ["10.0.0.0/30", "10.0.0.8/29", "10.1.0.0/30"] {
        apply(store, |batch| {
            batch.create(Key::Block(cidr(range)), block(range, "n"));
        });
    }
    let claim = |network: &str, seen: &[&str]| {
        let guard = Guard::NothingNewIn(cidr(network), seen.iter().map(|range| cidr(range)).collect());
        move |batch: &mut Batch| {
            batch.create(Key::Node(host("n")), Node::new("n", NodeSpec::default()));
            batch.guards.push(guard);
        }
    };
    apply(store, |batch| batch.create(Key::Carved(cidr("10.2.0.0/24")), carved("a")));
    assert_eq!(refused(store, claim("10.2.0.64/26", &[])), [Key::Carved(cidr("10.2.0.0/24"))]);
    let of = |range: &str| Key::Block(cidr(range));
    assert_eq!(refused(store, claim("10.0.0.0/16", &["10.0.0.0/30"])), [of("10.0.0.8/29")]);
    assert_eq!(refused(store, claim("10.0.0.12/30", &[])), [of("10.0.0.8/29")], "an overlap from above");
    apply(store, claim("10.0.0.0/16", &["10.0.0.8/29", "10.0.0.0/30"]));
}

fn a_handle_is_read_with_the_blocks_that_it_names(backend: &mut impl Backend) {
    let (v4, v6) = ("10.0.0.0/30", "fd00::/126");
    let store = backend.store();
    let (mut four, mut six) = (block(v4, "n"), block(v6, "n"));
    assert!(four.set(1, &attribute("h", "p"), 1001));
    assert!(four.set(2, &attribute("other", "p"), 1002));
    assert!(four.set(3, &attribute("h", "p"), 1003));
    assert!(six.set(0, &attribute("h", "p"), 1001));
    apply(store, |batch| {
        batch.create(Key::Handle(handle("h")), holding(&[(v4, 2), (v6, 1)]));
        batch.create(Key::Handle(handle("other")), holding(&[(v4, 1)]));
        batch.create(Key::Block(cidr(v4)), four.clone());
        batch.create(Key::Block(cidr(v6)), six.clone());
    });
    for _ in 0..2 {
        let store = backend.store();
        let (entry, blocks) = ask(store, Want::Held(handle("h"))).held();
        let entry = entry.expect("the handle");
        assert_eq!(entry, get(store, &Key::Handle(handle("h"))).expect("the handle"));
        assert_eq!(entry.into::<IpamHandle>(), holding(&[(v4, 2), (v6, 1)]));
        let blocks: Vec<IpamBlock> = blocks.into_iter().map(Entry::into).collect();
        assert_eq!(blocks, [four.clone(), six.clone()]);
        assert_eq!(ask(store, Want::Held(handle("nobody"))), Answer::Held(None, Vec::new()));
        let all: Vec<Key> = objects(store, Want::AllHandles).into_iter().map(|entry| entry.key).collect();
        assert_eq!(all, [Key::Handle(handle("h")), Key::Handle(handle("other"))]);
        backend.reopen();
    }
    let store = backend.store();
    assert!(six.clear(0, 1002));
    let (of_six, of_handle) =
        (revision(store, &Key::Block(cidr(v6))), revision(store, &Key::Handle(handle("h"))));
    apply(store, |batch| {
        batch.update(Key::Block(cidr(v6)), of_six, six.clone());
        batch.update(Key::Handle(handle("h")), of_handle, holding(&[(v4, 2)]));
    });
    let left = get(store, &Key::Handle(handle("h"))).expect("the handle");
    assert_eq!(left.into::<IpamHandle>(), holding(&[(v4, 2)]));
}

fn lists_are_in_the_order_of_their_keys(backend: &mut impl Backend) {
    let ranges = ["10.0.0.128/30", "10.0.0.16/30", "9.0.0.0/30", "fd00::/126", "10.0.0.4/30"];
    for range in ranges {
        apply(backend.store(), |batch| {
            for name in ["n10", "n9", "virtual"] {
                let key = Key::Affinity(owner(name), cidr(range));
                batch.create(key, BlockAffinity::default());
            }
            let of_service = Affinity::Virtual(host("a"));
            batch.create(Key::Affinity(of_service, cidr(range)), BlockAffinity::default());
            batch.create(Key::Block(cidr(range)), block(range, "n9"));
        });
    }
    for name in ["x", "a/b", "a"] {
        let machine = machine(name);
        apply(backend.store(), |batch| batch.create(Key::Machine(handle(&name.replace('/', "_"))), machine));
    }
    for (project, name) in [("b", "a"), ("a", "b"), ("a", "a"), ("../b", "a")] {
        let key = Key::Allocation(of_project(project, name));
        apply(backend.store(), |batch| batch.create(key, allocation(name)));
    }
    for range in ["10.9.0.0/24", "10.10.0.0/24", "9.0.0.0/8"] {
        apply(backend.store(), |batch| batch.create(Key::Carved(cidr(range)), carved(range)));
    }
    for name in ["b", "a", "B", "a-1"] {
        apply(backend.store(), |batch| {
            batch.create(Key::Node(host(name)), Node::new(name, NodeSpec::default()));
        });
    }
    backend.reopen();
    let store = backend.store();
    for want in [
        Want::AllAffinities,
        Want::Affinities(owner("n9")),
        Want::AllBlocks,
        Want::Blocks(cidr("10.0.0.0/24")),
        Want::Nodes,
        Want::All(Collection::Carved),
        Want::All(Collection::Machines),
        Want::All(Collection::Allocations),
    ] {
        let keys: Vec<Key> = objects(store, want.clone()).into_iter().map(|entry| entry.key).collect();
        assert!(keys.is_sorted() && keys.len() >= 3, "{want:?}: {keys:?}");
    }
    let cidrs = ask(store, Want::BlockCidrs(cidr("10.0.0.0/8"))).cidrs();
    assert_eq!(cidrs, [cidr("10.0.0.4/30"), cidr("10.0.0.16/30"), cidr("10.0.0.128/30")]);
    assert_eq!(ask(store, Want::BlockCidrs(cidr("11.0.0.0/8"))).cidrs(), []);
    let carved = ask(store, Want::CarvedCidrs(cidr("10.0.0.0/8"))).cidrs();
    assert_eq!(carved, [cidr("10.9.0.0/24"), cidr("10.10.0.0/24")]);
    assert_eq!(ask(store, Want::CarvedCidrs(cidr("10.9.0.7/32"))).cidrs(), [cidr("10.9.0.0/24")]);
}

fn blocks_with_room_are_found(backend: &mut impl Backend) {
    let store = backend.store();
    let room = |of: RoomOf, within: &[&str], enough| Want::Room {
        of,
        within: within.iter().map(|range| cidr(range)).collect(),
        enough,
    };
    let mine = || RoomOf::Owner(owner("n"));
    for range in ["10.0.0.16/30", "10.0.0.4/30", "10.1.0.0/30"] {
        apply(store, |batch| {
            batch.create(Key::Block(cidr(range)), block(range, "n"));
            batch
                .create(Key::Affinity(owner("n"), cidr(range)), BlockAffinity::new(AffinityState::Confirmed));
        });
    }
    let (mut nobodys, others) = (block("10.0.0.8/30", "x"), block("10.0.0.12/30", "x"));
    nobodys.affinity = None;
    apply(store, |batch| {
        batch.create(Key::Block(nobodys.cidr), nobodys.clone());
        batch.create(Key::Block(others.cidr), others.clone());
    });
    assert_eq!(
        ask(store, room(mine(), &["10.0.0.0/24"], 9)).cidrs(),
        [cidr("10.0.0.4/30"), cidr("10.0.0.16/30")]
    );
    assert_eq!(ask(store, room(mine(), &["10.0.0.0/8"], 1)).cidrs(), [cidr("10.0.0.4/30")]);
    assert_eq!(
        ask(store, room(RoomOf::AllBut(owner("n")), &["10.0.0.0/8"], 9)).cidrs(),
        [cidr("10.0.0.8/30"), cidr("10.0.0.12/30")]
    );
    // The last address goes, and one comes back.
    let mut full = block("10.1.0.0/30", "n");
    for ordinal in 0..4 {
        let sequence = full.sequence_number + 1;
        assert!(full.set(ordinal, &attribute("h", "p"), sequence));
    }
    let key = Key::Block(full.cidr);
    let old = revision(store, &key);
    apply(store, |batch| {
        batch.update(key.clone(), old, full.clone());
        batch.create(Key::Handle(handle("h")), holding(&[("10.1.0.0/30", 4)]));
    });
    assert_eq!(ask(store, room(mine(), &["10.1.0.0/16"], 9)).cidrs(), []);
    let sequence = full.sequence_number + 1;
    assert!(full.clear(2, sequence));
    let old = revision(store, &key);
    let of_handle = revision(store, &Key::Handle(handle("h")));
    apply(store, |batch| {
        batch.update(key.clone(), old, full.clone());
        batch.update(Key::Handle(handle("h")), of_handle, holding(&[("10.1.0.0/30", 3)]));
    });
    assert_eq!(ask(store, room(mine(), &["10.1.0.0/16"], 9)).cidrs(), [cidr("10.1.0.0/30")]);
    // It is given up, and has room for nobody in particular.
    full.affinity = None;
    full.sequence_number += 1;
    let old = revision(store, &key);
    apply(store, |batch| batch.update(key.clone(), old, full.clone()));
    backend.reopen();
    let store = backend.store();
    assert_eq!(ask(store, room(mine(), &["10.1.0.0/16"], 9)).cidrs(), []);
    assert_eq!(
        ask(store, room(RoomOf::AllBut(owner("n")), &["10.1.0.0/16"], 9)).cidrs(),
        [cidr("10.1.0.0/30")]
    );
}

fn floor(backend: &mut impl Backend) -> u64 {
    ask(backend.store(), Want::Settings).settings().sequence_floor
}

fn the_floor_rises_with_a_deleted_block(backend: &mut impl Backend) {
    let key = Key::Block(cidr("10.0.0.0/30"));
    apply(backend.store(), |batch| {
        batch.create(key.clone(), block("10.0.0.0/30", "n"));
    });
    assert_eq!(floor(backend), 0);
    let old = revision(backend.store(), &key);
    apply(backend.store(), |batch| batch.delete(key.clone(), old));
    assert_eq!(floor(backend), 1001);
    let mut lower = block("10.0.0.4/30", "n");
    lower.sequence_number = 1001;
    apply(backend.store(), |batch| {
        batch.create(Key::Block(lower.cidr), lower.clone());
    });
    backend.reopen();
    assert_eq!(floor(backend), 1001);
}

fn a_batch_without_operations_is_applied(backend: &mut impl Backend) {
    apply(backend.store(), |_| ());
    apply(backend.store(), |batch| {
        batch.room.push(RoomHint { block: cidr("10.0.0.0/30"), owner: None, has_room: false });
    });
    assert_eq!(ask(backend.store(), Want::AllBlocks).objects(), []);
}
