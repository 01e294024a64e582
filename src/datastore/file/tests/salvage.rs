//! A journal that lost its header gets it back, or nothing is touched.

use super::*;
use crate::datastore::Inspect;
use crate::datastore::file::header::{HEADER_BYTES, Header};

/// A store whose journal holds records, behind a cut or not; and one whose journal holds none.
fn stores() -> Vec<Bench> {
    let first = with_twenty_records();
    let later = with_twenty_records();
    let mut store = later.change();
    store.write_out().expect("written out");
    release(&mut store, "10.0.0.0/29", "h0");
    assign(&mut store, "10.0.0.8/29", "h0");
    drop(store);
    let settings_too = with_twenty_records();
    let mut store = settings_too.change();
    store.write_out().expect("written out");
    put(&mut store, &Key::Pool("newer".to_owned()), pool("newer"));
    drop(store);
    let empty = with_twenty_records();
    empty.change().write_out().expect("written out");
    let new = Bench::new();
    drop(new.change());
    vec![first, later, settings_too, empty, new]
}

/// All that a reader is told, but for what cannot be known any more.
fn told(bench: &Bench) -> Vec<Answer> {
    let mut answers = bench.everything_now();
    for answer in &mut answers {
        if let Answer::Settings(settings) = answer {
            settings.sequence_floor = 0;
        }
    }
    answers
}

fn salvage(bench: &Bench) -> Result<Option<String>, Error> {
    FileStore::salvage(&bench.options())
}

#[test]
fn a_lost_header_is_given_back_and_everything_is_as_it_was() {
    for bench in stores() {
        let all = told(&bench);
        let whole = bench.journal_bytes();
        let header = bench.journal().header;
        for lost in
            [vec![0; HEADER_BYTES], vec![b'x'; HEADER_BYTES], [&b"X"[..], &whole[1..HEADER_BYTES]].concat()]
        {
            bench.put_journal(&[&lost, &whole[HEADER_BYTES..]].concat());
            assert!(bench.damage().1.contains("header"));
            // Nothing else of the store tells what the header named.
            for derived in ["index", "state"] {
                let _ = fs::remove_file(bench.file(derived));
            }
            let said = salvage(&bench).expect("enough is known").expect("the header was damaged");
            assert!(said.contains(&format!("generation {}", header.generation)), "{said}");
            assert!(told(&bench) == all, "{said}");
            let now = bench.journal().header;
            assert_eq!((now.first_seq, now.generation), (header.first_seq, header.generation));
            // Where the journal itself carries the settings, the copy of before does not matter.
            assert!(now.state == header.state || now.state.is_none());
            assert!(now.floor >= header.floor);
            assert_eq!(
                bench.journal_bytes()[HEADER_BYTES..],
                whole[HEADER_BYTES..],
                "only the header is written"
            );
            assert_eq!(run_in_place(bench.reader().derived()).expect("readable"), [], "{said}");
            assert_eq!(salvage(&bench).expect("readable"), None, "once is enough");
        }
        let mut store = bench.change();
        put(&mut store, &Key::Pool("later".to_owned()), pool("later"));
        store.write_out().expect("written out");
    }
}

#[test]
fn a_header_that_nothing_vouches_for_is_not_made_up() {
    for bench in stores() {
        let whole = bench.journal_bytes();
        let mut bytes = whole.clone();
        bytes[..HEADER_BYTES].fill(0);
        // The head, or the body, or the checksum of what stands behind it.
        for place in [HEADER_BYTES + 2, HEADER_BYTES + 15, HEADER_BYTES + 27] {
            bytes[place] ^= 1;
            bench.put_journal(&bytes);
            match salvage(&bench) {
                Err(Error::Damaged { path, problem }) => {
                    assert_eq!(path, bench.file(JOURNAL));
                    assert!(problem.contains("does not say surely"), "{problem}");
                }
                other => panic!("byte {place}: {other:?}"),
            }
            assert!(bench.journal_bytes() == bytes, "it is not touched");
            bytes[place] ^= 1;
        }
    }
}

#[test]
fn damage_behind_the_header_is_named_and_nothing_is_given_back() {
    let bench = with_twenty_records();
    let whole = bench.journal_bytes();
    let tenth = format!("HA02 {:016x}", 10);
    let at =
        whole.windows(tenth.len()).position(|bytes| bytes == tenth.as_bytes()).expect("the tenth record");
    let mut bytes = whole.clone();
    bytes[..HEADER_BYTES].fill(0);
    bytes[at + 50] ^= 1;
    bench.put_journal(&bytes);
    match salvage(&bench) {
        Err(Error::Damaged { problem, .. }) => {
            assert!(problem.contains("the record of commit 10"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    assert!(bench.journal_bytes() == bytes, "it is not touched");
}

#[test]
fn what_is_whole_newer_or_not_there_is_left_alone() {
    let bench = Bench::new();
    assert_eq!(salvage(&bench).expect("nothing is wrong"), None);
    assert!(!bench.path().exists(), "none is made");
    let bench = with_twenty_records();
    let whole = bench.journal_bytes();
    assert_eq!(salvage(&bench).expect("nothing is wrong"), None);
    let mut newer = Header::new().to_bytes();
    newer.truncate(HEADER_BYTES);
    newer[3] = b'3';
    let text = HEADER_BYTES - 9;
    let crc = crc32fast::hash(&newer[..text]);
    newer.splice(text.., format!("{crc:08x}\n").into_bytes());
    let bytes = [&newer, &whole[HEADER_BYTES..]].concat();
    bench.put_journal(&bytes);
    assert_eq!(salvage(&bench).expect("it is another version's"), None);
    assert!(bench.journal_bytes() == bytes, "it is not touched");
}
