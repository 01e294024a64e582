//! Damage is named, and never taken for less than there was.

use super::*;
use crate::datastore::file::frame::{Link, MARK_BYTES, RECORD_HEAD_BYTES, Scope, finish_record};
use crate::datastore::file::header::HEADER_BYTES;

#[test]
fn a_flipped_bit_never_hides_a_record() {
    let bench = with_twenty_records();
    let whole = bench.journal_bytes();
    let all = bench.everything_now();
    let tail = bench.journal().tail();
    let last_record = start_of_last_record(&bench);
    // What is left when the last record is torn.
    let mut torn = whole.clone();
    torn[last_record] = 0;
    bench.put_journal(&torn);
    let without_last = bench.everything_now();
    assert_ne!(all, without_last);
    bench.put_journal(&whole);
    for (place, byte) in whole.iter().enumerate().take(tail + MARK_BYTES + 40) {
        for bit in [place % 8, (place + 3) % 8] {
            bench.put_journal_byte(place, byte ^ (1 << bit));
            match bench.everything() {
                Ok(answers) if answers == all => {
                    assert!(place >= tail, "bit {bit} of byte {place} was not noticed");
                }
                Ok(answers) => {
                    assert!(place >= last_record, "bit {bit} of byte {place} hid a record");
                    assert!(answers == without_last, "bit {bit} of byte {place} changed the answers");
                }
                Err(Error::Damaged { path, problem }) => {
                    assert_eq!(path, bench.file(JOURNAL));
                    assert!(problem.contains("header") || problem.contains("byte"), "{problem}");
                    assert!(place < last_record, "bit {bit} of byte {place}: {problem}");
                }
                Err(error) => panic!("bit {bit} of byte {place}: {error}"),
            }
        }
        bench.put_journal_byte(place, *byte);
    }
}

/// Where the last record of a journal starts.
fn start_of_last_record(bench: &Bench) -> usize {
    let journal = bench.journal();
    let seq = journal.next_seq() - 1;
    let start = format!("HA02 {seq:016x}");
    let bytes = bench.journal_bytes();
    bytes.windows(start.len()).position(|window| window == start.as_bytes()).expect("the last record")
}

#[test]
fn a_torn_tail_is_no_commit_whatever_its_length() {
    for behind in [0u8, b'x'] {
        let bench = with_twenty_records();
        let whole = bench.journal_bytes();
        let all = bench.everything_now();
        let (start, end) = (start_of_last_record(&bench), bench.journal().tail());
        let mut before = whole.clone();
        before[start..].fill(behind);
        bench.put_journal(&before);
        let without_last = bench.everything_now();
        for written in start..=end + MARK_BYTES {
            let mut torn = before.clone();
            torn[start..written].copy_from_slice(&whole[start..written]);
            bench.put_journal(&torn);
            let expected = if written < end { &without_last } else { &all };
            assert!(bench.everything_now() == *expected, "{written} bytes of {end} were written");
            if written % 16 == 0 {
                let mut store = bench.change();
                put(&mut store, &Key::Pool("next".to_owned()), pool("next"));
                drop(store);
                assert!(get(&mut bench.reader(), &Key::Pool("next".to_owned())).is_some());
            }
        }
    }
}

#[test]
fn a_later_record_far_behind_a_damaged_one_is_found() {
    let bench = with_twenty_records();
    let mut store = bench.session(Durability::Power);
    for number in 0..60 {
        put(&mut store, &Key::Pool(format!("p{number}")), pool("x"));
        store.settings().expect("settings");
        if store.journal.tail() > 40_000 {
            break;
        }
    }
    drop(store);
    let mut bytes = bench.journal_bytes();
    bytes[HEADER_BYTES + 50] ^= 1;
    bench.put_journal(&bytes);
    let (path, problem) = bench.damage();
    assert_eq!(path, bench.file(JOURNAL));
    assert!(problem.starts_with("the record of commit 1 at byte 128 is not valid"), "{problem}");
    // A session that may write goes on with it no more than one that reads.
    assert!(matches!(bench.try_open(Access::Change), Err(Error::Damaged { .. })));
}

#[test]
fn records_of_older_generations_mean_nothing() {
    let bench = with_twenty_records();
    let mut store = bench.change();
    store.write_out().expect("written out");
    let all = {
        drop(store);
        bench.everything_now()
    };
    // The old records are all still there, behind the header and the mark.
    assert!(bench.journal_bytes().windows(5).filter(|window| window == b"HA02 ").count() > 10);
    assert!(bench.journal().is_empty());
    // One with the right number, but of the generation before, is none either.
    let mut bytes = bench.journal_bytes();
    let body = b"delete 0 ipam/affinities/host%3An/10.0.0.0-29.json 0\n";
    let scope = bench.journal().header.scope();
    let body = [&[b' '; RECORD_HEAD_BYTES][..], body].concat();
    let link = Link { flushed: 0, previous: 0 };
    let record_of = |generation| {
        finish_record(Scope { generation, ..scope }, bench.journal().next_seq(), link, body.clone()).0
    };
    let record = record_of(1);
    bytes[HEADER_BYTES..HEADER_BYTES + record.len()].copy_from_slice(&record);
    bench.put_journal(&bytes);
    assert_eq!(bench.everything_now(), all);
    // The same, of this generation, is one: the test can fail.
    let record = record_of(2);
    bytes[HEADER_BYTES..HEADER_BYTES + record.len()].copy_from_slice(&record);
    bench.put_journal(&bytes);
    assert!(bench.everything().expect("valid") != all);
}

#[test]
fn a_journal_cut_short_is_damaged() {
    let bench = with_twenty_records();
    let bytes = bench.journal_bytes();
    for len in [0, 100, 16 << 10, (128 << 10) - 1] {
        bench.put_journal(&bytes[..len]);
        assert!(bench.damage().1.contains("bytes"), "{len}");
    }
}

#[test]
fn a_damaged_block_hurts_only_those_who_need_it() {
    let bench = with_twenty_records();
    let mut store = bench.change();
    store.write_out().expect("written out");
    drop(store);
    let path = bench.file("ipam/blocks/10.0.0.0-29.json");
    let content = fs::read_to_string(&path).expect("the block");
    for bad in [
        String::new(),
        content.replace("10.0.0.0/29", "10.0.0.8/29"),
        content.replacen("null", "0", 1),
        content[..content.len() / 2].to_owned(),
    ] {
        fs::write(&path, bad).expect("damaged");
        let mut reader = bench.reader();
        let damaged = run_in_place(reader.read(&[Want::Held(handle("h0"))]));
        assert!(matches!(&damaged, Err(Error::Damaged { path: found, .. }) if *found == path), "{damaged:?}");
        let (held, blocks) = ask(&mut reader, Want::Held(handle("h3"))).held();
        assert!(held.is_some() && blocks.len() == 1);
        assert_eq!(ask(&mut reader, Want::Settings).settings().pools.len(), 2);
    }
    fs::remove_file(&path).expect("removed");
    let mut reader = bench.reader();
    let lost = run_in_place(reader.read(&[Want::Held(handle("h0"))]));
    assert!(matches!(&lost, Err(Error::Damaged { path: found, .. }) if *found == path), "{lost:?}");
}

#[test]
fn a_change_that_does_not_fit_its_block_is_damage() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let mut store = bench.change();
    assign(&mut store, "10.0.0.0/29", "late");
    assign(&mut store, "10.0.0.0/29", "later");
    drop(store);
    let path = bench.file("ipam/blocks/10.0.0.0-29.json");
    let content = fs::read_to_string(&path).expect("the block");
    let number = 1011;
    assert!(content.contains(&format!("\"sequenceNumber\":{number},")), "{content}");
    // One more would be that of an interrupted cut.
    let other = content
        .replace(&format!("\"sequenceNumber\":{number},"), &format!("\"sequenceNumber\":{},", number - 1));
    fs::write(&path, other).expect("replaced");
    assert!(bench.damage().1.contains("does not fit block 10.0.0.0/29 in state 1010"));
    fs::remove_file(&path).expect("removed");
    assert_eq!(bench.damage().0, path);
}

/// Its index leads to it only by way of handles, which a claim does not ask for.
#[test]
fn lost_block_is_not_claimed_again() {
    let bench = with_twenty_records();
    let mut store = bench.change();
    store.write_out().expect("written out");
    let path = bench.file("ipam/blocks/10.0.0.0-29.json");
    fs::remove_file(&path).expect("removed");
    drop(store);
    let mut store = bench.change();
    let (block, key) = (cidr("10.0.0.0/29"), Key::Affinity(owner("n"), cidr("10.0.0.0/29")));
    let affinity = get(&mut store, &key).expect("the affinity");
    let new = || IpamBlock::new(block, Some(owner("n")), crate::clock::Timestamp::default(), 5000);
    let mut batch = Batch::default();
    batch.create(Key::Block(block), new());
    let mut with_affinity = batch.clone();
    with_affinity.update(key, affinity.revision, BlockAffinity::default());
    for batch in [batch, with_affinity] {
        match try_commit(&mut store, batch) {
            Err(Error::Damaged { path: found, problem }) => {
                assert_eq!(found, path);
                assert!(problem.contains("it is missing, and host:n has it"), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }
    claim(&mut store, "10.0.0.16/29", "n");
}
