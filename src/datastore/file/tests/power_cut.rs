//! A power cut in the middle of a flush: the disk holds any mixture of old and new sectors.

use super::*;
use crate::datastore::file::frame::{MARK_BYTES, RECORD_HEAD_BYTES};

const RANGE: &str = "10.0.0.0/24";
/// With more sectors than this, their mixtures are sampled.
const ALL_MIXTURES_UP_TO: usize = 12;
const SAMPLES: usize = 200;

/// Everything that a disk may hold that was to get from `old` to `new`, in sectors of `size` bytes.
fn mixtures(old: &[u8], new: &[u8], size: usize) -> Vec<Vec<u8>> {
    let is_changed = |sector: &usize| old.chunks(size).nth(*sector) != new.chunks(size).nth(*sector);
    let changed: Vec<usize> = (0..new.len() / size).filter(is_changed).collect();
    let count = changed.len();
    let lost: Vec<Vec<bool>> = if count <= ALL_MIXTURES_UP_TO {
        (0..1_u32 << count).map(|set| (0..count).map(|bit| set >> bit & 1 == 1).collect()).collect()
    } else {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |_: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 40 & 1 == 1
        };
        let holes = (0..count).map(|hole| (0..count).map(|place| place == hole).collect());
        let starts = (0..=count).map(|end| (0..count).map(|place| place < end).collect());
        let ends = (0..=count).map(|start| (0..count).map(|place| place >= start).collect());
        let mut lost: Vec<Vec<bool>> = holes.chain(starts).chain(ends).collect();
        lost.extend((0..SAMPLES).map(|_| (0..count).map(&mut random).collect()));
        lost
    };
    let mix = |lost: Vec<bool>| {
        let mut mixed = new.to_vec();
        for (sector, _) in changed.iter().zip(lost).filter(|(_, is_lost)| *is_lost) {
            let bytes = sector * size..(sector + 1) * size;
            mixed[bytes.clone()].copy_from_slice(&old[bytes]);
        }
        mixed
    };
    lost.into_iter().map(mix).collect()
}

/// A store with some answered commits, which the next writer knows to be flushed or not.
fn answered(is_noted: bool, is_cut: bool) -> Bench {
    let bench = Bench::new();
    let mut store = bench.session(Durability::Power);
    claim(&mut store, RANGE, "n");
    for number in 0..20 {
        assign(&mut store, RANGE, &format!("old{number}"));
    }
    if is_cut {
        store.write_out().expect("written out");
    }
    drop(store);
    for number in 0..3 {
        let mut store = bench.session(Durability::Power);
        assign(&mut store, RANGE, &format!("answered{number}"));
        if is_noted {
            run_in_place(store.settle());
        }
    }
    bench
}

/// What a call commits that is killed before its flush, or before the power goes.
fn killed(bench: &Bench, number: usize) {
    assign(&mut bench.session(Durability::Process), RANGE, &format!("killed{number}"));
}

#[test]
fn power_cut_loses_no_answered_commit() {
    for (killed_calls, is_noted, is_cut) in [1, 2, 3, 12]
        .iter()
        .flat_map(|calls| [(true, false), (false, true), (true, true)].map(|(a, b)| (*calls, a, b)))
    {
        let bench = answered(is_noted, is_cut);
        let flushed = bench.journal_bytes();
        let mut states = vec![bench.everything_now()];
        // The last one is in its flush.
        for number in 0..=killed_calls {
            killed(&bench, number);
            states.push(bench.everything_now());
        }
        let written = bench.journal_bytes();
        for size in [512, 4096] {
            let mixtures = mixtures(&flushed, &written, size);
            for (number, mixture) in mixtures.iter().enumerate() {
                let case = format!("mixture {number} of sectors of {size}, {killed_calls} killed");
                bench.put_journal(mixture);
                let found = bench.everything().unwrap_or_else(|error| panic!("{case}: {error}"));
                assert!(states.contains(&found), "{case}: an answered commit is lost, or one is half there");
                assign(&mut bench.session(Durability::Power), RANGE, "next");
                let held = ask(&mut bench.reader(), Want::Held(handle("next"))).held().0;
                assert!(held.is_some(), "{case}: the next call goes on");
            }
        }
    }
}

#[test]
fn power_cut_without_flushes_leaves_what_is_whole() {
    let bench = Bench::new();
    let mut store = bench.session(Durability::Process);
    claim(&mut store, RANGE, "n");
    for number in 0..70 {
        assign(&mut store, RANGE, &format!("old{number}"));
    }
    store.write_out().expect("written out");
    drop(store);
    let flushed = bench.journal_bytes();
    let mut states = vec![bench.everything_now()];
    for number in 0..60 {
        let mut store = bench.session(Durability::Process);
        assign(&mut store, RANGE, &format!("new{number}"));
        run_in_place(store.settle());
        drop(store);
        states.push(bench.everything_now());
    }
    let written = bench.journal_bytes();
    for size in [512, 4096] {
        let mut longest = 0;
        for (number, mixture) in mixtures(&flushed, &written, size).iter().enumerate() {
            bench.put_journal(mixture);
            let found =
                bench.everything().unwrap_or_else(|error| panic!("mixture {number} of {size}: {error}"));
            let place = states.iter().position(|state| *state == found);
            longest = longest.max(place.expect("it is as it was after some commit"));
            assign(&mut bench.change(), RANGE, "next");
        }
        assert_eq!(longest, 60, "all of it, where nothing is lost");
    }
}

/// The second cut tears the flush of a commit that was written over what the first one left.
#[test]
fn second_power_cut_revives_no_lost_commit() {
    let bench = answered(true, true);
    let flushed = bench.journal_bytes();
    for number in 0..5 {
        killed(&bench, number);
    }
    let written = bench.journal_bytes();
    for (number, mixture) in mixtures(&flushed, &written, 512).iter().enumerate() {
        bench.put_journal(mixture);
        let before = bench.everything_now();
        // As long as those that were lost, and not.
        for id in ["killed9", "longer-than-those"] {
            bench.put_journal(mixture);
            assign(&mut bench.session(Durability::Process), RANGE, id);
            let after = bench.everything_now();
            for torn in mixtures(mixture, &bench.journal_bytes(), 512) {
                bench.put_journal(&torn);
                let found = bench.everything().unwrap_or_else(|error| panic!("mixture {number}: {error}"));
                assert!(found == before || found == after, "mixture {number}, {id}: a lost commit is back");
            }
        }
    }
}

/// A record left over from a lost flush starts exactly where the mark after a new record was torn.
#[test]
fn left_over_record_does_not_follow_another() {
    let bench = answered(true, true);
    let start = bench.journal().tail();
    killed(&bench, 0);
    let end = bench.journal().tail();
    killed(&bench, 1);
    let whole = bench.journal_bytes();
    let mut torn = whole.clone();
    torn[start..start + RECORD_HEAD_BYTES].fill(0);
    bench.put_journal(&torn);
    // A record of the same length in place of the torn one.
    killed(&bench, 7);
    assert_eq!(bench.journal().tail(), end);
    let expected = bench.everything_now();
    let mut torn = bench.journal_bytes();
    torn[end..end + MARK_BYTES].copy_from_slice(&whole[end..end + MARK_BYTES]);
    bench.put_journal(&torn);
    assert!(bench.everything_now() == expected);
    // The test can fail: after its own predecessor it counts.
    bench.put_journal(&whole);
    assert!(ask(&mut bench.reader(), Want::Held(handle("killed1"))).held().0.is_some());
}

/// Each commit by a call of its own, as the plugin does it.
#[test]
fn damage_is_told_from_a_torn_flush() {
    for is_cut in [false, true] {
        let bench = answered(true, is_cut);
        let whole = bench.journal_bytes();
        let journal = bench.journal();
        let (first, last) = (journal.header.first_seq, journal.next_seq() - 1);
        for seq in first..=last {
            let start = format!("HA02 {seq:016x}");
            let at =
                whole.windows(start.len()).position(|bytes| bytes == start.as_bytes()).expect("the record");
            for place in [at, at + 10, at + RECORD_HEAD_BYTES + 5] {
                let mut bytes = whole.clone();
                bytes[place] ^= 1;
                bench.put_journal(&bytes);
                if seq < last {
                    let problem = bench.damage().1;
                    assert!(
                        problem.starts_with(&format!("the record of commit {seq} at byte {at} ")),
                        "{problem}"
                    );
                } else {
                    bench.everything_now();
                }
            }
        }
    }
}

/// What was not flushed is flushed before files get it that the journal may lose.
#[test]
fn cut_knows_all_of_the_journal_flushed() {
    let bench = answered(true, false);
    killed(&bench, 0);
    let mut store = bench.session(Durability::Process);
    fs::create_dir(bench.file(".host-affine-tmp-0")).expect("an obstacle");
    store.write_out().expect_err("it cannot write files");
    // The next record says what its writer knows.
    assign(&mut store, RANGE, "next");
    let flushed = format!("{:016x}", store.journal.next_seq() - 2);
    let text = String::from_utf8_lossy(&bench.journal_bytes()).into_owned();
    let head = text.rsplit_once("HA02 ").expect("a record").1;
    assert_eq!(&head[26..42], flushed, "{}", &head[..60]);
}
