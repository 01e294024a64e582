//! Who waits for whom.

use super::*;
use crate::datastore::Revision;

#[test]
fn one_session_changes_and_many_read() {
    let bench = Bench::new();
    let changing = bench.change();
    for access in [Access::Change, Access::Read] {
        match bench.open_at_once(access) {
            Err(error @ Error::Locked { .. }) => assert_eq!(
                error.to_string(),
                format!(
                    "could not lock {} within 0 s; last taken by process 1 (a test)",
                    bench.file("lock").display()
                )
            ),
            other => panic!("{other:?}"),
        }
    }
    drop(changing);
    let (_one, _other) = (bench.reader(), bench.reader());
    assert!(matches!(bench.open_at_once(Access::Change), Err(Error::Locked { .. })));
}

#[test]
fn a_removed_lock_file_still_excludes() {
    let bench = Bench::new();
    let changing = bench.change();
    fs::remove_file(bench.file("lock")).expect("removed");
    assert!(matches!(bench.open_at_once(Access::Change), Err(Error::Locked { .. })));
    assert!(matches!(bench.open_at_once(Access::Read), Err(Error::Locked { .. })));
    drop(changing);
    drop(bench.reader());
    assert!(!bench.file("lock").exists(), "a reader does not make it");
    drop(bench.change());
    assert!(bench.file("lock").exists());
}

#[test]
fn the_note_of_the_holder_is_one_line_of_fixed_length() {
    let bench = Bench::new();
    for operation in ["x".repeat(500), "ü".repeat(150), "a\nb".to_owned()] {
        let options = Options { operation, ..bench.options() };
        drop(FileStore::open(&options, Access::Change, IfAbsent::Create).expect("opens"));
        let note = fs::read_to_string(bench.file("lock")).expect("the note");
        assert_eq!((note.len(), note.lines().count()), (192, 1), "{note:?}");
    }
}

#[test]
fn an_unlocked_session_sees_what_others_changed_meanwhile() {
    let bench = Bench::new();
    let mut first = bench.change();
    claim(&mut first, "10.0.0.0/29", "n");
    assign(&mut first, "10.0.0.0/29", "a");
    let old = block_of(&mut first, "10.0.0.0/29");
    first.unlock();
    let mut second = bench.change();
    assign(&mut second, "10.0.0.0/29", "b");
    second.write_out().expect("written out");
    drop(second);
    // Its knowledge is old, and a commit that rests on it is refused.
    let mut batch = Batch::default();
    let mut changed = old.clone();
    changed.sequence_number += 1;
    batch.update(Key::Block(old.cidr), Revision(old.sequence_number), changed);
    let refused = run_in_place(first.commit(batch)).expect("answers");
    assert!(matches!(refused, Commit::Refused(_)), "{refused:?}");
    assert!(ask(&mut first, Want::Held(handle("b"))).held().0.is_some());
    assert!(matches!(bench.open_at_once(Access::Read), Err(Error::Locked { .. })), "it is locked again");
    first.unlock();
    drop(bench.reader());
}

#[test]
fn a_long_walk_keeps_nobody_waiting_and_sees_every_block_whole() {
    let bench = Bench::new();
    let mut store = bench.change();
    let ranges: Vec<String> = (0..100).map(|number| format!("10.0.{number}.0/29")).collect();
    for range in &ranges {
        claim(&mut store, range, "n");
        run_in_place(store.settle());
    }
    assign(&mut store, &ranges[3], "early");
    store.write_out().expect("written out");
    drop(store);
    let mut reader = bench.reader();
    let meanwhile = std::cell::Cell::new(true);
    let blocks = reader
        .walk(FileStore::block_cidrs, |reader, cidr| {
            if meanwhile.replace(false) {
                // While it walks, a block is deleted, one is made, and some change; and all is written out.
                let mut store = bench.change();
                claim(&mut store, "10.1.0.0/29", "n");
                let mut batch = Batch::default();
                batch.delete(Key::Block(super::cidr(&ranges[50])), Revision(1000));
                try_commit(&mut store, batch).expect("is committed");
                assign(&mut store, &ranges[3], "late");
                assign(&mut store, &ranges[70], "late");
                store.write_out().expect("written out");
                assign(&mut store, &ranges[70], "later");
            }
            reader.block_uncached(*cidr)
        })
        .expect("the walk ends");
    let found = |range: &str| blocks.iter().find(|block| block.cidr == cidr(range));
    assert_eq!(blocks.len(), 100);
    assert!(blocks.is_sorted_by_key(|block| block.cidr));
    assert!(found(&ranges[50]).is_none() && found("10.1.0.0/29").is_some());
    assert!(blocks.iter().all(|block| block.problem().is_none()));
    assert!(!found(&ranges[3]).expect("the block").attributes.is_empty());
    assert!(found(&ranges[70]).expect("the block").attributes.contains(&attribute("late")));
    assert!(matches!(bench.open_at_once(Access::Change), Err(Error::Locked { .. })), "it is locked again");
}

/// Anybody who can open a directory can hold a lock on it.
#[test]
fn stranger_with_the_directory_stops_nobody() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    fs::create_dir(bench.path()).expect("a directory");
    let set_mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("is set");
    set_mode(&bench.path(), 0o755);
    let stranger = fs::File::open(bench.path()).expect("opens");
    fs2::FileExt::lock_exclusive(&stranger).expect("is locked");
    drop(bench.open_at_once(Access::Change).expect("opens"));
    drop(bench.open_at_once(Access::Read).expect("opens"));
    let changing = bench.change();
    assert!(
        matches!(bench.open_at_once(Access::Change), Err(Error::Locked { .. })),
        "the file still excludes"
    );
    assert!(matches!(bench.open_at_once(Access::Read), Err(Error::Locked { .. })), "the file still excludes");
    drop(changing);
    set_mode(&bench.path(), 0o700);
    assert!(matches!(bench.open_at_once(Access::Change), Err(Error::Locked { .. })), "one of our own counts");
    drop(stranger);
    // The same of the lock file.
    set_mode(&bench.file("lock"), 0o644);
    drop(bench.change());
    let mode = fs::metadata(bench.file("lock")).expect("metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
