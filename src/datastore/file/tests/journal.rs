//! Commits and cuts, whole and interrupted.

use super::*;
use crate::api::HostName;
use crate::api::calico::{Node, NodeSpec};
use crate::datastore::Revision;

/// A store that cannot cut: something stands where its temporary files go, as on a disk that is full.
fn that_cannot_cut() -> Bench {
    let bench = Bench::new();
    drop(bench.change());
    fs::create_dir(bench.file(".host-affine-tmp-0")).expect("an obstacle");
    bench
}

#[test]
fn a_small_change_takes_a_small_record() {
    let bench = Bench::new();
    let mut store = bench.change();
    claim(&mut store, "10.0.0.0/26", "n");
    let before = store.journal.tail();
    assign(&mut store, "10.0.0.0/26", "h");
    let assigned = store.journal.tail() - before;
    assert!(assigned < 250, "{assigned} bytes");
    let before = store.journal.tail();
    release(&mut store, "10.0.0.0/26", "h");
    let released = store.journal.tail() - before;
    assert!(released < 200, "{released} bytes");
}

#[test]
fn a_commit_touches_nothing_but_the_journal() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let untouched = |line: &String| !line.contains("/journal ") && !line.contains("/lock ");
    let before: Vec<String> = snapshot(&bench.path()).into_iter().filter(untouched).collect();
    let mut store = bench.change();
    assign(&mut store, "10.0.0.0/29", "one");
    release(&mut store, "10.0.0.0/29", "h0");
    put(&mut store, &Key::Pool("c".to_owned()), pool("c"));
    drop(store);
    let after: Vec<String> = snapshot(&bench.path()).into_iter().filter(untouched).collect();
    assert_eq!(after, before);
}

#[test]
fn a_cut_keeps_every_answer_and_empties_the_journal() {
    let bench = with_twenty_records();
    let all = bench.everything_now();
    let mut store = bench.change();
    store.write_out().expect("written out");
    assert!(store.journal.is_empty());
    let journal_after = run_in_place(store.read(&everything())).expect("reads");
    assert!(journal_after == all);
    drop(store);
    assert!(bench.everything_now() == all);
    assert_eq!(bench.journal().header.generation, 2);
    for name in ["format", "state", "index", "ipam/blocks/10.0.0.8-29.json"] {
        assert!(bench.file(name).exists(), "{name}");
    }
    assert_eq!(room(&mut bench.reader(), "n"), [cidr("10.0.0.0/29"), cidr("10.0.0.8/29")]);
}

#[test]
fn a_session_cuts_once_the_journal_is_long() {
    let bench = Bench::new();
    let mut store = bench.change();
    claim(&mut store, "10.0.0.0/26", "n");
    let mut longest = 0;
    for _ in 0..150 {
        assign(&mut store, "10.0.0.0/26", "h");
        release(&mut store, "10.0.0.0/26", "h");
        longest = longest.max(store.journal.tail());
        run_in_place(store.settle());
    }
    assert!((32 << 10..34 << 10).contains(&longest), "{longest}");
    assert!(store.journal.header.generation > 1);
}

/// Killed just before the header was written: the files are new, the journal is old. And with any one of the files
/// still old, as if the kill had come before it was renamed.
#[test]
fn an_interrupted_cut_changes_no_answer() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let mut store = bench.change();
    release(&mut store, "10.0.0.0/29", "h0");
    assign(&mut store, "10.0.0.0/29", "h0");
    assign(&mut store, "10.0.0.8/29", "h0");
    release(&mut store, "10.0.0.8/29", "h3");
    put(&mut store, &Key::Pool("b".to_owned()), pool("b"));
    put(&mut store, &Key::Pool("c".to_owned()), pool("c"));
    drop(store);
    let all = bench.everything_now();
    let journal = bench.journal_bytes();
    let names = [
        "ipam/blocks/10.0.0.0-29.json",
        "ipam/blocks/10.0.0.8-29.json",
        "projectcalico.org/ippools/b.json",
        "projectcalico.org/ippools/c.json",
        "state",
        "index",
    ];
    let old: Vec<_> = names.map(|name| fs::read(bench.file(name)).ok()).into();
    bench.change().write_out().expect("written out");
    let new: Vec<_> = names.map(|name| fs::read(bench.file(name)).ok()).into();
    bench.put_journal(&journal);
    assert!(bench.everything_now() == all, "all files are new");
    for (name, (old, new)) in names.iter().zip(old.iter().zip(&new)) {
        assert_ne!(old, new, "{name} is to be changed by the cut");
        match old {
            Some(old) => fs::write(bench.file(name), old).expect("put back"),
            None => fs::remove_file(bench.file(name)).expect("removed"),
        }
        assert!(bench.everything_now() == all, "{name} is old");
    }
    bench.change().write_out().expect("the next cut");
    assert!(bench.everything_now() == all);
}

#[test]
fn left_over_temporary_files_are_swept() {
    let bench = with_twenty_records();
    let left = bench.file(".host-affine-tmp-77");
    fs::write(&left, "half").expect("a left-over");
    bench.change().write_out().expect("written out");
    assert!(!left.exists());
}

#[test]
fn a_full_journal_takes_releases_and_nothing_else() {
    let bench = that_cannot_cut();
    let mut store = bench.change();
    for number in 0..40 {
        claim(&mut store, &format!("10.0.{number}.0/26"), "n");
    }
    let mut held = Vec::new();
    let full = loop {
        let range = format!("10.0.{}.0/26", held.len() / 60);
        let id = format!("{}-{}", held.len(), "x".repeat(40));
        match try_assign(&mut store, &range, &id) {
            Ok(()) => held.push((range, id)),
            Err(error) => break error,
        }
        run_in_place(store.settle());
    };
    assert!(
        matches!(full, Error::JournalFull { used, .. } if (63 << 10..64 << 10).contains(&used)),
        "{full:?}"
    );
    let refused = try_commit(&mut store, {
        let mut batch = Batch::default();
        batch.create(Key::Pool("a".to_owned()), pool("a"));
        batch
    });
    assert!(matches!(refused, Err(Error::JournalFull { .. })));
    drop(store);
    assert_eq!(bench.everything_now().len(), everything().len(), "reading works");
    let mut store = bench.change();
    let mut released = 0;
    for (range, id) in &held {
        release(&mut store, range, id);
        released += 1;
    }
    assert!(released > 80 && store.journal.tail() > 64 << 10);
    // The disk is back.
    fs::remove_dir(bench.file(".host-affine-tmp-0")).expect("the obstacle goes");
    assign(&mut store, "10.0.0.0/26", "again");
    assert!(store.journal.tail() < 4 << 10, "it was preceded by a cut");
}

#[test]
fn a_journal_that_is_full_of_releases_takes_nothing() {
    let bench = that_cannot_cut();
    let mut store = bench.change();
    claim(&mut store, "10.0.0.0/22", "n");
    // Whole blocks are written, since several ordinals change at once.
    let change = |store: &mut FileStore, gains: bool| {
        let mut block = block_of(store, "10.0.0.0/22");
        let old = block.sequence_number;
        for _ in 0..if gains { 9 } else { 2 } {
            let done = if gains {
                let nobodys = Attribute::new(&AttributeFields::default());
                block.set(block.unallocated[0], &nobodys, old + 1)
            } else {
                let place = block.allocations.iter().position(Option::is_some);
                let ordinal = u16::try_from(place.expect("one is left")).expect("small");
                block.clear(ordinal, old + 1)
            };
            assert!(done);
        }
        let mut batch = Batch::default();
        batch.update(Key::Block(block.cidr), Revision(old), block);
        try_commit(store, batch)
    };
    let until_full = |store: &mut FileStore, gains: bool| {
        loop {
            match change(store, gains) {
                Ok(()) => {}
                Err(Error::JournalFull { used, .. }) => return used,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let gained = until_full(&mut store, true);
    assert!((50 << 10..64 << 10).contains(&gained), "{gained}");
    let released = until_full(&mut store, false);
    assert!((100 << 10..120 << 10).contains(&released), "{released}");
    fs::remove_dir(bench.file(".host-affine-tmp-0")).expect("the obstacle goes");
    change(&mut store, true).expect("there is room again");
}

#[test]
fn a_batch_larger_than_the_journal_is_committed() {
    let bench = Bench::new();
    let mut store = bench.change();
    let mut batch = Batch::default();
    for number in 0..128 {
        let mut node = Node::new(format!("n{number}"), NodeSpec::default());
        node.metadata.annotations.insert("a".to_owned(), "x".repeat(3000));
        batch.create(Key::Node(HostName::new(node.name()).expect("name")), node);
    }
    try_commit(&mut store, batch).expect("is committed");
    assert!(store.journal.tail() > 256 << 10);
    drop(store);
    let mut store = bench.change();
    assert_eq!(ask(&mut store, Want::Nodes).objects().len(), 128);
    run_in_place(store.settle());
    assert!(store.journal.is_empty());
    assert_eq!(ask(&mut store, Want::Nodes).objects().len(), 128);
    drop(store);
    assert_eq!(ask(&mut bench.reader(), Want::Nodes).objects().len(), 128);
}

#[test]
fn the_number_of_a_deleted_block_is_never_used_again_after_a_cut() {
    let bench = Bench::new();
    let mut store = bench.change();
    claim(&mut store, "10.0.0.0/30", "n");
    let mut batch = Batch::default();
    batch.delete(Key::Block(cidr("10.0.0.0/30")), Revision(1000));
    try_commit(&mut store, batch).expect("is committed");
    for _ in 0..2 {
        store.write_out().expect("written out");
        assert_eq!(ask(&mut store, Want::Settings).settings().sequence_floor, 1001);
        put(&mut store, &Key::Pool("a".to_owned()), pool("a"));
    }
}

/// A cut that was killed made directories, and did not flush the ones above them.
#[test]
fn cut_finishes_the_directories_of_a_killed_one() {
    let bench = with_twenty_records();
    let marker = bench.file(".host-affine-tmp-folders");
    fs::create_dir(bench.file("index")).expect("an obstacle, before any directory");
    bench.change().write_out().expect_err("it cannot write the index");
    assert!(!marker.exists());
    fs::remove_dir(bench.file("index")).expect("the obstacle goes");
    fs::create_dir_all(bench.file("projectcalico.org/ippools/b.json/x")).expect("an obstacle");
    bench.change().write_out().expect_err("it cannot write a pool");
    assert!(marker.exists(), "directories were made");
    let dir = super::super::Dir::open_store(&bench.path()).expect("opens").expect("exists");
    let flushed = |is_marked| {
        let mut folders = super::super::folders::Folders::new(&dir, is_marked);
        folders.make("ipam/blocks").expect("exists");
        folders.names().join(" ")
    };
    assert_eq!(flushed(false), "ipam/blocks");
    assert_eq!(flushed(true), ". ipam ipam/blocks");
    fs::remove_dir_all(bench.file("projectcalico.org/ippools/b.json")).expect("the obstacle goes");
    bench.change().write_out().expect("written out");
    assert!(!marker.exists());
}
