//! Who waits for whom.

use super::*;

#[test]
fn one_session_changes_and_many_read() {
    let bench = Bench::new();
    let changing = bench.change();
    for access in [Access::Change, Access::Read] {
        match bench.try_open(access) {
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
    assert!(matches!(bench.try_open(Access::Change), Err(Error::Locked { .. })));
}

#[test]
fn a_removed_lock_file_still_excludes() {
    let bench = Bench::new();
    let changing = bench.change();
    fs::remove_file(bench.file("lock")).expect("removed");
    assert!(matches!(bench.try_open(Access::Change), Err(Error::Locked { .. })));
    assert!(matches!(bench.try_open(Access::Read), Err(Error::Locked { .. })));
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
    batch.update(Key::Block(old.cidr), crate::datastore::Revision(old.sequence_number), changed);
    let refused = run_in_place(first.commit(batch)).expect("answers");
    assert!(matches!(refused, Commit::Refused(_)), "{refused:?}");
    assert!(ask(&mut first, Want::Held(handle("b"))).held().0.is_some());
    assert!(matches!(bench.try_open(Access::Read), Err(Error::Locked { .. })), "it is locked again");
    first.unlock();
    drop(bench.reader());
}
