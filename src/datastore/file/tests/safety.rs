//! Who may write to a store, and what is followed.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode is set");
}

fn refused(bench: &Bench, path: &Path) -> String {
    for access in [Access::Read, Access::Change] {
        let opened = bench.try_open(access).map(|store| {
            let mut store = store.expect("exists");
            run_in_place(store.read(&everything()))
        });
        match opened {
            Err(Error::Unsafe { path: found, problem }) | Ok(Err(Error::Unsafe { path: found, problem })) => {
                assert_eq!(found, path);
                if access == Access::Change {
                    return problem;
                }
            }
            other => panic!("{} was taken: {other:?}", path.display()),
        }
    }
    unreachable!("both ways of access were tried")
}

#[test]
fn what_is_made_is_private_whatever_the_umask() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    let mut seen = 0;
    let mut folders = vec![bench.path()];
    while let Some(folder) = folders.pop() {
        let mode = fs::metadata(&folder).expect("metadata").mode() & 0o7777;
        assert_eq!(mode, 0o700, "{}", folder.display());
        for entry in fs::read_dir(&folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let mode = fs::metadata(&path).expect("metadata").mode() & 0o7777;
                assert_eq!(mode, 0o600, "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 8, "{seen}");
}

/// The test above, in processes with other umasks.
#[test]
fn neither_a_wide_nor_a_narrow_umask_changes_a_mode() {
    let test = "datastore::file::tests::safety::what_is_made_is_private_whatever_the_umask";
    for umask in ["000", "077", "0177"] {
        let status = std::process::Command::new("sh")
            .arg("-c")
            .arg(format!("umask {umask}; exec \"$0\" --exact {test}"))
            .arg(std::env::current_exe().expect("the test binary"))
            .stdout(std::process::Stdio::null())
            .status()
            .expect("the test runs");
        // A mask of the owner's own bits also hits the directory that the test makes for itself.
        let not_testable = umask == "0177" && !nix::unistd::geteuid().is_root();
        assert!(status.success() || not_testable, "umask {umask}");
    }
}

#[test]
fn what_others_may_write_to_is_refused_by_name() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    for name in ["journal", "lock", "state", "index", "ipam/blocks/10.0.0.0-29.json"] {
        for mode in [0o620, 0o602] {
            set_mode(&bench.file(name), mode);
            assert!(refused(&bench, &bench.file(name)).contains("others may write"), "{name}");
        }
        set_mode(&bench.file(name), 0o644);
    }
    bench.everything_now();
    set_mode(&bench.path(), 0o770);
    refused(&bench, &bench.path());
    set_mode(&bench.path(), 0o1777);
    bench.everything_now();
}

#[test]
fn a_strangers_file_is_refused_by_name() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    for name in ["journal", "ipam/blocks/10.0.0.0-29.json", ""] {
        let path = if name.is_empty() { bench.path() } else { bench.file(name) };
        std::os::unix::fs::chown(&path, Some(4711), None).expect("given away");
        assert!(refused(&bench, &path).contains("user 4711"), "{name}");
        std::os::unix::fs::chown(&path, Some(0), None).expect("taken back");
    }
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let bench = with_twenty_records();
    bench.change().write_out().expect("written out");
    for name in ["journal", "state", "index", "lock", "ipam/blocks/10.0.0.0-29.json", "ipam", "ipam/blocks"] {
        let (path, elsewhere) = (bench.file(name), bench.folder.path().join("elsewhere"));
        fs::rename(&path, &elsewhere).expect("moved away");
        symlink(&elsewhere, &path).expect("linked");
        let found = match bench.try_open(Access::Read).map(|store| {
            let mut store = store.expect("exists");
            run_in_place(store.read(&everything()))
        }) {
            Err(Error::Unsafe { path, .. }) | Ok(Err(Error::Unsafe { path, .. })) => path,
            other => panic!("{name} was followed: {other:?}"),
        };
        assert!(found.starts_with(&path), "{name}: {}", found.display());
        fs::remove_file(&path).expect("the link goes");
        fs::rename(&elsewhere, &path).expect("moved back");
    }
    let elsewhere = bench.folder.path().join("elsewhere");
    fs::rename(bench.path(), &elsewhere).expect("moved away");
    symlink(&elsewhere, bench.path()).expect("linked");
    refused(&bench, &bench.path());
    let options = Options { path: bench.path().join(""), ..bench.options() };
    let with_slash = FileStore::open(&options, Access::Read, IfAbsent::None);
    assert!(matches!(with_slash, Err(Error::Unsafe { .. })));
}

#[test]
fn something_else_in_place_of_a_file_is_refused_by_name() {
    for name in ["journal", "lock"] {
        let bench = Bench::new();
        fs::create_dir_all(bench.file(name)).expect("a directory");
        set_mode(&bench.path(), 0o700);
        match bench.try_open(Access::Change) {
            Err(Error::Unsafe { path, problem }) => {
                assert_eq!(path, bench.file(name));
                assert!(problem.contains("host-local network"), "{problem}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    // Whoever opens a FIFO must not wait for the other end.
    let bench = with_twenty_records();
    fs::remove_file(bench.file("journal")).expect("removed");
    nix::unistd::mkfifo(&bench.file("journal"), nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    refused(&bench, &bench.file("journal"));
}
