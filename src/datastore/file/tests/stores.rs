//! New stores, no stores, and stores that lost something.

use super::*;

fn open(bench: &Bench, access: Access, if_absent: IfAbsent) -> Result<Option<FileStore>, Error> {
    FileStore::open(&bench.options(), access, if_absent)
}

#[test]
fn nothing_is_made_for_who_only_looks() {
    let bench = Bench::new();
    for access in [Access::Change, Access::Read] {
        assert!(open(&bench, access, IfAbsent::None).expect("looks").is_none());
        assert!(!bench.path().exists());
    }
    assert!(open(&bench, Access::Read, IfAbsent::Create).expect("looks").is_none());
    assert!(!bench.path().exists());
    // A directory that host-local uses is no store.
    fs::create_dir_all(bench.file("pods")).expect("a network");
    for access in [Access::Change, Access::Read] {
        assert!(open(&bench, access, IfAbsent::None).expect("looks").is_none());
    }
    assert_eq!(snapshot(&bench.path()).len(), 1);
}

#[test]
fn only_a_missing_directory_is_no_store() {
    let bench = Bench::new();
    fs::write(bench.path(), "a file").expect("a file");
    let options = Options { path: bench.path().join("below"), ..bench.options() };
    for (options, access) in
        [(&bench.options(), Access::Change), (&options, Access::Change), (&options, Access::Read)]
    {
        let opened = FileStore::open(options, access, IfAbsent::None);
        assert!(matches!(opened, Err(Error::Io { .. })), "{opened:?}");
    }
}

#[test]
fn a_store_is_made_with_all_directories_above_it() {
    let bench = Bench::new();
    let options = Options { path: bench.path().join("a/b/"), ..bench.options() };
    let mut store =
        FileStore::open(&options, Access::Change, IfAbsent::Create).expect("opens").expect("is made");
    put(&mut store, &Key::Pool("a".to_owned()), pool("a"));
    drop(store);
    let text = fs::read_to_string(bench.path().join("a/b/format")).expect("the format");
    assert_eq!(text, "host-affine file store, format 2\n");
    let size = fs::metadata(bench.path().join("a/b/journal")).expect("the journal").len();
    assert_eq!(size, 128 << 10);
}

#[test]
fn others_may_keep_their_things_in_the_same_directory() {
    let bench = Bench::new();
    fs::create_dir_all(bench.file("pods")).expect("a network");
    fs::write(bench.file("pods/10.88.0.5"), "id\r\neth0").expect("an address");
    let mut store = bench.change();
    claim(&mut store, "10.0.0.0/29", "n");
    store.write_out().expect("written out");
    drop(store);
    assert!(bench.file("pods/10.88.0.5").exists());
    assert_eq!(bench.everything_now().len(), everything().len());
}

#[test]
fn a_creation_that_was_interrupted_is_completed() {
    // Killed with the journal half-written, killed with the lock made, killed before `format` was made.
    let bench = Bench::new();
    fs::create_dir_all(bench.path()).expect("a directory");
    fs::write(bench.file(".host-affine-tmp-journal"), [0; 1000]).expect("a left-over");
    fs::write(bench.file("lock"), "").expect("a lock");
    drop(bench.change());
    fs::remove_file(bench.file("format")).expect("removed");
    let mut store = bench.change();
    claim(&mut store, "10.0.0.0/29", "n");
    assert!(!bench.file("format").exists());
    store.write_out().expect("written out");
    assert!(bench.file("format").exists());
    assert!(!bench.file(".host-affine-tmp-journal").exists());
}

#[test]
fn a_lost_journal_is_not_replaced_by_an_empty_one() {
    for left in ["format", "state", "index", "ipam", "projectcalico.org"] {
        let bench = with_twenty_records();
        bench.change().write_out().expect("written out");
        fs::remove_file(bench.file("journal")).expect("removed");
        for name in ["format", "state", "index", "ipam", "projectcalico.org"] {
            if name != left {
                let path = bench.file(name);
                if path.is_dir() {
                    fs::remove_dir_all(path).expect("removed");
                } else {
                    fs::remove_file(path).expect("removed");
                }
            }
        }
        for (access, if_absent) in [
            (Access::Change, IfAbsent::Create),
            (Access::Change, IfAbsent::None),
            (Access::Read, IfAbsent::None),
        ] {
            match open(&bench, access, if_absent) {
                Err(Error::Damaged { path, problem }) => {
                    assert_eq!(path, bench.file("journal"));
                    assert!(problem.contains(&format!("`{left}` is there")), "{problem}");
                }
                other => panic!("{left}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_reader_changes_nothing_at_all() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let mut store = bench.change();
    assign(&mut store, "10.0.0.0/29", "late");
    drop(store);
    fs::remove_file(bench.file("index")).expect("removed");
    fs::remove_file(bench.file("state")).expect("removed");
    let mut torn = bench.journal_bytes();
    let tail = bench.journal().tail();
    torn[tail..tail + 100].fill(b'x');
    bench.put_journal(&torn);
    let before = snapshot(&bench.path());
    bench.everything_now();
    let mut reader = bench.reader();
    run_in_place(reader.make_durable()).expect("is durable");
    run_in_place(reader.settle());
    drop(reader);
    assert_eq!(snapshot(&bench.path()), before);
}

#[test]
fn fields_of_others_survive_a_commit_and_a_cut() {
    let bench = Bench::new();
    let mut store = bench.change();
    let text = r#"{"apiVersion":"projectcalico.org/v3","kind":"IPPool","metadata":{"name":"a","finalizers":["x"]},
        "spec":{"cidr":"10.0.0.0/8","natOutgoing":true},"extra":{"deep":[1,2]}}"#;
    let pool: IpPool = serde_json::from_str(text).expect("a pool");
    put(&mut store, &Key::Pool("a".to_owned()), pool.clone());
    let mut affinity = BlockAffinity::default();
    affinity.extra.insert("note".to_owned(), "kept".into());
    let key = Key::Affinity(owner(&"n".repeat(300)), cidr("10.0.0.0/29"));
    put(&mut store, &key, affinity.clone());
    for _ in 0..2 {
        let mut found: IpPool = get(&mut store, &Key::Pool("a".to_owned())).expect("the pool").into();
        assert_eq!(found.metadata.resource_version.take().as_deref(), Some("1"));
        assert_eq!(found, pool);
        let listed = ask(&mut store, Want::AllAffinities).objects();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].key, key, "a long owner comes back whole");
        assert_eq!(listed[0].clone().into::<BlockAffinity>(), affinity);
        store.write_out().expect("written out");
    }
}
