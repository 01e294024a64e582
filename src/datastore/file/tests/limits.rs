//! Nothing is committed that could not be read again.

use super::*;

#[test]
fn block_too_large_to_be_read_is_refused() {
    let bench = Bench::new();
    let mut store = bench.change();
    claim(&mut store, "10.0.0.0/26", "n");
    let long = |letter: &str| letter.repeat(31 << 20);
    assign(&mut store, "10.0.0.0/26", &long("a"));
    assign(&mut store, "10.0.0.0/26", &long("b"));
    match try_assign(&mut store, "10.0.0.0/26", &"c".repeat(1 << 20)) {
        Err(Error::NotStorable { what, problem }) => {
            assert!(what.contains("10.0.0.0/26"), "{what}");
            assert!(problem.contains("no file of a store has more than 67108864"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    // A release in such a block works, and what was written is read.
    release(&mut store, "10.0.0.0/26", &long("a"));
    store.write_out().expect("written out");
    drop(store);
    assert_eq!(block_of(&mut bench.reader(), "10.0.0.0/26").attributes.len(), 1);
}

#[test]
fn object_too_large_to_be_read_is_refused() {
    let bench = Bench::new();
    let mut store = bench.change();
    let mut large = pool("a");
    large.metadata.annotations.insert("a".to_owned(), "x".repeat(64 << 20));
    let mut batch = Batch::default();
    batch.create(Key::Pool("a".to_owned()), large);
    match try_commit(&mut store, batch) {
        Err(Error::NotStorable { what, .. }) => assert!(what.contains("a.json") || what == "state", "{what}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.journal.next_seq(), 1);
    put(&mut store, &Key::Pool("a".to_owned()), pool("a"));
}
