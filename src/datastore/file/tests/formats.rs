//! A store of format 1, whose records do not say how far the journal was flushed.

use super::*;
use crate::datastore::Inspect;
use crate::datastore::file::frame::{
    Found, HeadLayout, Link, Mark, RECORD_HEAD_BYTES, finish_record, mark, record_at,
};
use crate::datastore::file::header::{HEADER_BYTES, Header};
use crate::datastore::file::{Dir, index};

/// Writes the journal as format 1 has it.
fn to_format_1(bench: &Bench) {
    let bytes = bench.journal_bytes();
    let journal = bench.journal();
    let is_written = journal.header.index != 0;
    let index = u64::from(if is_written { journal.header.generation } else { 0 });
    let header = Header { layout: HeadLayout::One, index, ..journal.header.clone() };
    let mut old = header.to_bytes();
    old.truncate(HEADER_BYTES);
    let (mut at, mut next) = (HEADER_BYTES, header.first_seq);
    while let Found::Record { body, end, .. } =
        record_at(&bytes, at, bytes.len(), journal.header.scope(), |seq| seq == next)
    {
        let body = [&[b' '; RECORD_HEAD_BYTES][..], &bytes[body]].concat();
        let link = Link { flushed: 0, previous: 0 };
        old.extend(finish_record(header.scope(), next, link, body).0);
        (at, next) = (end, next + 1);
    }
    old.extend(mark(header.scope(), Mark::End, next));
    old.resize(bytes.len(), 0);
    bench.put_journal(&old);
    if is_written {
        let mut store = bench.change();
        let map = store.map_handles().expect("the blocks are read");
        let dir = Dir::open_store(&bench.path()).expect("opens").expect("exists");
        index::build(&dir, index, 0, &index::entries(&map)).expect("is built");
    }
}

#[test]
fn store_of_format_1_opens_and_is_upgraded() {
    for is_cut in [false, true] {
        let bench = with_twenty_records();
        let mut store = bench.change();
        if is_cut {
            store.write_out().expect("written out");
            release(&mut store, "10.0.0.0/29", "h0");
        }
        drop(store);
        let all = bench.everything_now();
        to_format_1(&bench);
        assert!(bench.journal_bytes().starts_with(b"HAJ1 "));
        assert!(bench.everything_now() == all);
        assert_eq!(run_in_place(bench.reader().derived()).expect("is read"), []);
        let mut store = bench.session(Durability::Power);
        assign(&mut store, "10.0.0.8/29", "new");
        run_in_place(store.settle());
        drop(store);
        let text = bench.journal_bytes();
        assert!(
            text.starts_with(b"HAJ1 ") && !text.windows(5).any(|bytes| bytes == b"HA02 "),
            "one format a journal"
        );
        let all = bench.everything_now();
        bench.change().write_out().expect("written out");
        assert!(bench.journal_bytes().starts_with(b"HAJ2 "));
        assert!(bench.everything_now() == all);
        let format = fs::read_to_string(bench.file("format")).expect("the format");
        assert_eq!(format, "host-affine file store, format 2\n");
        assert_eq!(run_in_place(bench.reader().derived()).expect("is read"), []);
    }
}

/// In format 1 no record tells a hole from damage, so each counts as damage, and can be repaired.
#[test]
fn hole_in_format_1_is_damage() {
    let bench = with_twenty_records();
    to_format_1(&bench);
    let mut bytes = bench.journal_bytes();
    bytes[HEADER_BYTES + 3] ^= 1;
    bench.put_journal(&bytes);
    assert!(bench.damage().1.starts_with("the record of commit 1 at byte 128 is not valid"));
    assert_eq!(FileStore::beyond_salvage(&bench.options()).expect("is read").len(), 20);
    FileStore::salvage(&bench.options()).expect("is repaired").expect("it was damaged");
    assert_eq!(bench.journal().next_seq(), 1);
}

#[test]
fn lost_header_of_format_1_is_rebuilt() {
    let bench = with_twenty_records();
    to_format_1(&bench);
    let all = bench.everything_now();
    let whole = bench.journal_bytes();
    bench.put_journal(&[&[0; HEADER_BYTES], &whole[HEADER_BYTES..]].concat());
    FileStore::salvage(&bench.options()).expect("is repaired").expect("it was damaged");
    assert!(bench.journal_bytes().starts_with(b"HAJ1 "));
    assert_eq!(bench.everything_now()[1..], all[1..]);
}

#[test]
fn record_after_a_cut_that_made_room_has_the_new_format() {
    let bench = with_twenty_records();
    to_format_1(&bench);
    let mut store = bench.change();
    while store.journal.tail() < 60 << 10 {
        put(&mut store, &Key::Pool("p".to_owned()), pool("p"));
    }
    while store.journal.header.generation == 1 {
        put(&mut store, &Key::Pool("p".to_owned()), pool("p"));
    }
    assert_eq!(store.journal.header.layout, HeadLayout::Two);
    drop(store);
    assert!(bench.journal_bytes()[HEADER_BYTES..].starts_with(b"HA02 "));
    bench.everything_now();
}
