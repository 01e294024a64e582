//! A journal with a damaged record is ended before it, once somebody was told what is lost.

use super::*;
use crate::datastore::Inspect;

/// A store whose tenth commit is damaged.
fn damaged() -> (Bench, Vec<u8>) {
    let bench = with_twenty_records();
    let mut bytes = bench.journal_bytes();
    let tenth = format!("HA02 {:016x}", 10);
    let at =
        bytes.windows(tenth.len()).position(|found| found == tenth.as_bytes()).expect("the tenth record");
    bytes[at + 70] ^= 1;
    bench.put_journal(&bytes);
    (bench, bytes)
}

#[test]
fn damaged_record_is_named_with_the_way_out() {
    let (bench, _) = damaged();
    let (path, problem) = bench.damage();
    assert_eq!(path, bench.file(JOURNAL));
    assert!(problem.starts_with("the record of commit 10 at byte"), "{problem}");
    assert!(problem.contains("`host-affine ipam check --repair`"), "{problem}");
}

#[test]
fn repair_says_what_is_lost_and_ends_the_journal() {
    let (bench, bytes) = damaged();
    let lost = FileStore::beyond_salvage(&bench.options()).expect("is read");
    assert_eq!(lost[0], "commit 10, which cannot be read");
    assert_eq!(lost[1], "commit 11: 10.0.0.7 assigned to h7");
    assert_eq!(lost[2], "commit 12: 10.0.0.2 released");
    assert!(lost.iter().any(|line| line.contains("projectcalico.org/ippools/b.json written")), "{lost:?}");
    assert_eq!(lost.len(), 11);
    assert!(bench.journal_bytes() == bytes, "asking changes nothing");
    let said = FileStore::salvage(&bench.options()).expect("is repaired").expect("it was damaged");
    assert!(lost.iter().all(|line| said.contains(line)), "{said}");
    let journal = bench.journal();
    assert_eq!(journal.next_seq(), 10);
    assert!(bench.journal_bytes()[journal.tail() + 31..].iter().all(|byte| *byte == 0));
    assert_eq!(FileStore::salvage(&bench.options()).expect("is read"), None, "once is enough");
    assert_eq!(FileStore::beyond_salvage(&bench.options()).expect("is read"), Vec::<String>::new());
    let mut store = bench.session(Durability::Power);
    assign(&mut store, "10.0.0.0/29", "again");
    store.write_out().expect("written out");
    assert_eq!(run_in_place(store.derived()).expect("is read"), []);
    assert!(ask(&mut store, Want::Held(handle("h5"))).held().0.is_some(), "what was before it is kept");
}
