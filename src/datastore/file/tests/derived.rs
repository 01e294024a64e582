//! `state`, `index` and `room` are repaired, never believed.

use super::*;
use crate::datastore::file::index;
use crate::datastore::file::layout::fnv1a;
use crate::datastore::{Inspect, RoomHint, Visit};

/// A store with everything written out, then changed, then written out again; and the older copy of a file.
fn with_older(name: &str) -> (Bench, Vec<u8>) {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let older = fs::read(bench.file(name)).expect("it is written out");
    let mut store = bench.change();
    put(&mut store, &Key::Pool("newer".to_owned()), pool("newer"));
    release(&mut store, "10.0.0.0/29", "h0");
    assign(&mut store, "10.0.0.8/29", "h0");
    store.write_out().expect("written out");
    assert_ne!(fs::read(bench.file(name)).expect("it is there"), older);
    (bench, older)
}

/// What can befall a file.
fn misfortunes(older: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut flipped = older.to_vec();
    flipped[0] ^= 1;
    vec![
        None,
        Some(Vec::new()),
        Some(older.to_vec()),
        Some(flipped),
        Some(older[..older.len() / 2].to_vec()),
        Some([older, b"x"].concat()),
        Some(vec![0; older.len()]),
    ]
}

fn befall(path: &Path, content: Option<&Vec<u8>>) {
    match content {
        Some(content) => fs::write(path, content).expect("overwritten"),
        None => fs::remove_file(path).expect("removed"),
    }
}

#[test]
fn a_stale_state_is_not_believed_and_the_next_commit_mends_it() {
    let (bench, older) = with_older("state");
    let all = bench.everything_now();
    let good = fs::read(bench.file("state")).expect("the state");
    for content in misfortunes(&older) {
        befall(&bench.file("state"), content.as_ref());
        assert!(bench.everything_now() == all, "{content:?}");
    }
    let mut store = bench.change();
    assert_eq!(ask(&mut store, Want::Settings).settings().pools.len(), 3);
    assign(&mut store, "10.0.0.8/29", "h1");
    store.write_out().expect("written out");
    assert_eq!(fs::read(bench.file("state")).expect("the state"), good);
    assert_eq!(bench.journal().header.state, Some(crc32fast::hash(&good)));
}

#[test]
fn a_damaged_object_is_named_only_when_the_state_is_gone_too() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let all = bench.everything_now();
    let path = bench.file("projectcalico.org/ippools/a.json");
    fs::write(&path, "{}").expect("damaged");
    assert!(bench.everything_now() == all);
    fs::remove_file(bench.file("state")).expect("removed");
    assert_eq!(bench.damage().0, path);
}

#[test]
fn a_stale_index_is_not_believed_and_whoever_may_write_mends_it() {
    let (bench, older) = with_older("index");
    let all = bench.everything_now();
    let good = fs::read(bench.file("index")).expect("the index");
    for content in misfortunes(&older) {
        befall(&bench.file("index"), content.as_ref());
        let before = fs::read(bench.file("index")).ok();
        assert!(bench.everything_now() == all);
        assert_eq!(fs::read(bench.file("index")).ok(), before, "a reader writes nothing");
        let mut store = bench.change();
        let held = ask(&mut store, Want::Held(handle("h0"))).held().0.expect("the handle");
        assert_eq!(held.into::<IpamHandle>().block.len(), 1);
        drop(store);
        let mended = fs::read(bench.file("index")).expect("made anew");
        assert_eq!(mended.len(), good.len());
        assert_eq!(mended[..64], good[..64], "it belongs to the journal again");
        assert!(bench.everything_now() == all);
    }
}

#[test]
fn a_flipped_bit_in_the_index_hides_no_handle() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let good = fs::read(bench.file("index")).expect("the index");
    let dir = crate::datastore::file::Dir::open_store(&bench.path()).expect("opens").expect("exists");
    let journal = bench.journal();
    let looked_up = || {
        let ids = ["h0", "h3", "h7", "nobody"];
        ids.map(|id| index::lookup(&dir, &journal, fnv1a(id.as_bytes())).expect("is read"))
    };
    let right = looked_up();
    // Every byte of the first line and of the slots in use, and of some that are free.
    let line = |place: usize| &good[place - place % 64..place - place % 64 + 63];
    let counts =
        |place: &usize| (place / 64).is_multiple_of(32) || line(*place).iter().any(|&byte| byte != b' ');
    for place in (0..good.len()).filter(|place| *place < 64 || *place >= 4096).filter(counts) {
        let mut flipped = good.clone();
        flipped[place] ^= 1 << (place % 8);
        fs::write(bench.file("index"), flipped).expect("damaged");
        for (found, right) in looked_up().iter().zip(&right) {
            assert!(
                found == right || *found == index::Lookup::Unusable,
                "byte {place}: {found:?} instead of {right:?}"
            );
        }
    }
}

#[test]
fn a_lost_list_of_blocks_with_room_is_mended_by_what_is_found_out() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    fs::remove_dir_all(bench.file("ipam/room")).expect("removed");
    let mut store = bench.change();
    assert_eq!(room(&mut store, "n"), []);
    let mut batch = Batch::default();
    for range in ["10.0.0.0/29", "10.0.0.8/29"] {
        batch.room.push(RoomHint { block: cidr(range), owner: Some(owner("n")), has_room: true });
    }
    try_commit(&mut store, batch.clone()).expect("is committed");
    assert_eq!(room(&mut store, "n"), [cidr("10.0.0.0/29"), cidr("10.0.0.8/29")]);
    let seq = store.journal.next_seq();
    try_commit(&mut store, batch).expect("is committed");
    assert_eq!(store.journal.next_seq(), seq, "what is there already takes no record");
    store.write_out().expect("written out");
    drop(store);
    assert_eq!(room(&mut bench.reader(), "n"), [cidr("10.0.0.0/29"), cidr("10.0.0.8/29")]);
    // An entry without a block is only a hint, too.
    fs::write(bench.file("ipam/room/host%3An/10.9.0.0-26"), "").expect("a stale entry");
    assert_eq!(get(&mut bench.reader(), &Key::Block(cidr("10.9.0.0/26"))), None);
}

#[test]
fn the_index_grows_and_shrinks_with_the_handles() {
    let bench = Bench::new();
    let mut store = bench.change();
    for number in 0..8 {
        claim(&mut store, &format!("10.0.{number}.0/24"), "n");
    }
    for number in 0..1000 {
        assign(&mut store, &format!("10.0.{}.0/24", number / 200), &format!("net.{number:04}"));
        run_in_place(store.settle());
    }
    store.write_out().expect("written out");
    let size = fs::metadata(bench.file("index")).expect("the index").len();
    assert!((4096 * 17..=4096 * 65).contains(&size), "{size}");
    drop(store);
    let mut store = bench.change();
    for number in 0..1000 {
        let held = ask(&mut store, Want::Held(handle(&format!("net.{number:04}")))).held().0;
        assert!(held.is_some(), "{number}");
    }
    for number in 0..1000 {
        release(&mut store, &format!("10.0.{}.0/24", number / 200), &format!("net.{number:04}"));
        run_in_place(store.settle());
    }
    store.write_out().expect("written out");
    let text = fs::read_to_string(bench.file("index")).expect("the index is text");
    assert!(text.lines().all(|line| line.len() == 63));
    assert_eq!(text.lines().filter(|line| !line.trim().is_empty()).count(), 1, "only its first line is left");
}

#[test]
fn a_handle_in_very_many_blocks_is_found_in_all_of_them() {
    let bench = Bench::new();
    let mut store = bench.change();
    let ranges: Vec<String> = (0..70).map(|number| format!("10.0.{number}.0/30")).collect();
    for range in &ranges {
        claim(&mut store, range, "n");
        assign(&mut store, range, "many");
        assign(&mut store, range, "few");
        release(&mut store, range, "few");
        run_in_place(store.settle());
    }
    assign(&mut store, &ranges[5], "few");
    store.write_out().expect("written out");
    drop(store);
    let mut store = bench.change();
    assert_eq!(ask(&mut store, Want::Held(handle("many"))).held().1.len(), 70);
    assert_eq!(ask(&mut store, Want::Held(handle("few"))).held().1.len(), 1);
    release(&mut store, &ranges[9], "many");
    store.write_out().expect("written out");
    assert_eq!(ask(&mut store, Want::Held(handle("many"))).held().1.len(), 69);
}

#[test]
fn what_is_derived_agrees_whatever_the_journal_has_and_a_reader_lets_others_in() {
    let bench = with_twenty_records();
    let found = |store: &mut FileStore| run_in_place(Inspect::derived(store)).expect("looked through");
    // First all is in the journal, then nothing, then some.
    assert_eq!(found(&mut bench.reader()), []);
    bench.change().write_out().expect("written out");
    assert_eq!(found(&mut bench.reader()), []);
    let mut store = bench.change();
    release(&mut store, "10.0.0.0/29", "h0");
    assign(&mut store, "10.0.0.8/29", "h0");
    assert_eq!(found(&mut store), []);
    drop(store);
    let mut reader = bench.reader();
    assert_eq!(found(&mut reader), []);
    let mut seen = 0;
    let mut visit = |_: Visit| {
        seen += 1;
        // Nobody waits for who looks at blocks.
        assert!(bench.open_at_once(Access::Change).expect("opens").is_some());
    };
    run_in_place(reader.each_block(&mut visit)).expect("visited");
    assert_eq!(seen, ask(&mut bench.reader(), Want::AllBlocks).objects().len());
}

/// Two handles with one FNV-1a hash.
const TWINS: [&str; 2] = ["n.o5y4uyfprzzmm", "n.kgw3nwdl43ikc"];

#[test]
fn handles_of_one_hash_lose_only_themselves() {
    let [gone, kept] = TWINS;
    assert_eq!(fnv1a(gone.as_bytes()), fnv1a(kept.as_bytes()));
    for cuts in 0..8 {
        let bench = Bench::new();
        let mut store = bench.change();
        let cut_if = |store: &mut FileStore, bit: u32| {
            if cuts >> bit & 1 == 1 {
                store.write_out().expect("written out");
            }
        };
        claim(&mut store, "10.0.0.0/29", "n");
        assign(&mut store, "10.0.0.0/29", gone);
        cut_if(&mut store, 0);
        assign(&mut store, "10.0.0.0/29", kept);
        cut_if(&mut store, 1);
        release(&mut store, "10.0.0.0/29", gone);
        assert_eq!(run_in_place(store.derived()).expect("is read"), [], "{cuts:03b}");
        cut_if(&mut store, 2);
        drop(store);
        let mut store = bench.change();
        assert_eq!(run_in_place(store.derived()).expect("is read"), [], "{cuts:03b}");
        assert!(
            ask(&mut store, Want::Held(handle(kept))).held().0.is_some(),
            "{cuts:03b}: the other is lost"
        );
        assert!(ask(&mut store, Want::Held(handle(gone))).held().0.is_none());
        release(&mut store, "10.0.0.0/29", kept);
        store.write_out().expect("written out");
        let text = fs::read_to_string(bench.file("index")).expect("the index");
        assert_eq!(text.lines().filter(|line| !line.trim().is_empty()).count(), 1, "no slot is left: {text}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("an entry");
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).expect("copied");
        }
    }
}

/// A backup without what is derived is put back over a newer store.
#[test]
fn index_of_another_history_is_not_believed() {
    for cuts_after in [1, 2] {
        let bench = with_twenty_records();
        let mut store = bench.change();
        store.write_out().expect("written out");
        assign(&mut store, "10.0.0.0/29", "late");
        drop(store);
        let all = bench.everything_now();
        let backup = bench.folder.path().join("backup");
        copy(&bench.path(), &backup);
        for name in ["index", "state", "lock"] {
            fs::remove_file(backup.join(name)).expect("left out");
        }
        let mut store = bench.change();
        for _ in 0..cuts_after {
            release(&mut store, "10.0.0.0/29", "h7");
            store.write_out().expect("written out");
            assign(&mut store, "10.0.0.0/29", "h7");
        }
        release(&mut store, "10.0.0.0/29", "h7");
        drop(store);
        copy(&backup, &bench.path());
        assert!(bench.everything_now() == all, "{cuts_after} cuts later");
        let mut store = bench.change();
        assert!(ask(&mut store, Want::Held(handle("h7"))).held().0.is_some(), "{cuts_after} cuts later");
        release(&mut store, "10.0.0.0/29", "h7");
        assert_eq!(run_in_place(store.derived()).expect("is read"), []);
    }
}

/// Two stores went on from one backup. The index of one has the same generation as the journal of the other.
#[test]
fn index_of_a_twin_is_not_believed() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let backup = bench.folder.path().join("backup");
    copy(&bench.path(), &backup);
    let mut store = bench.change();
    release(&mut store, "10.0.0.0/29", "h7");
    store.write_out().expect("written out");
    drop(store);
    let other = fs::read(bench.file("index")).expect("the index");
    fs::remove_dir_all(bench.path()).expect("removed");
    copy(&backup, &bench.path());
    let mut store = bench.change();
    release(&mut store, "10.0.0.0/29", "h6");
    store.write_out().expect("written out");
    drop(store);
    fs::write(bench.file("index"), other).expect("the twin's");
    let mut store = bench.change();
    assert!(ask(&mut store, Want::Held(handle("h7"))).held().0.is_some());
    assert!(ask(&mut store, Want::Held(handle("h6"))).held().1.len() < 2);
}
