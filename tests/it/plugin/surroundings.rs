//! What a call finds around it: masks, closed descriptors, a lock that is busy, a disk that may only be read, an earlier
//! boot, another name of the host.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::cni::{Call, Network, all_different, program, skip};
use crate::support::store::{Lab, View, write_out};
use crate::support::strace::{strace, troubled};

fn network(lab: &Lab) -> Network {
    Network::new("pods", &lab.store(), &json!([{ "cidr": "10.208.0.0/24", "blockSize": 28 }]))
}

/// Under a shell that does something first.
fn after(script: &str, call: Call) -> Call {
    call.under(&["/bin/sh".to_owned(), "-c".to_owned(), format!("{script}; exec \"$@\""), "sh".to_owned()])
}

fn modes_below(path: &Path, found: &mut Vec<(PathBuf, u32)>) {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    found.push((path.to_owned(), metadata.permissions().mode() & 0o7777));
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            modes_below(&entry.expect("an entry").path(), found);
        }
    }
}

#[test]
fn whatever_the_mask_the_store_is_its_owners_alone() {
    for mask in ["000", "022", "777"] {
        let lab = Lab::in_memory();
        let network = network(&lab);
        after(&format!("umask {mask}"), network.call("ADD", "first")).run().succeeded();
        // Until the journal is written out, which makes the rest.
        for n in 0..90 {
            after(&format!("umask {mask}"), network.call("ADD", &format!("c{n}"))).run().succeeded();
        }
        assert!(lab.store().join("ipam/blocks").exists(), "the journal was written out");
        let mut found = Vec::new();
        modes_below(&lab.store(), &mut found);
        for (path, mode) in found {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{} under umask {mask}: {mode:o}", path.display());
        }
        let mut call = network.with("log_file_path", lab.path().join("a.log").display().to_string());
        call = call.with("log_level", "info");
        after(&format!("umask {mask}"), call.call("ADD", "logged")).run().succeeded();
        let log = fs::metadata(lab.path().join("a.log")).expect("a log");
        assert_eq!(log.permissions().mode() & 0o7777, 0o600, "the log under umask {mask}");
    }
}

#[test]
fn with_its_descriptors_closed_a_call_writes_no_answer_into_the_store() {
    let lab = Lab::in_memory();
    let network = network(&lab);
    network.add("first").succeeded();
    for closed in ["exec >&-", "exec 2>&-", "exec >&- 2>&-", "exec <&- >&- 2>&-"] {
        for verb in ["ADD", "DEL", "ADD", "STATUS"] {
            after(closed, network.with("log_level", "debug").call(verb, "c")).run();
            View::of(&lab.store()).sound();
        }
        network.del("c").succeeded();
    }
    write_out(&network, &lab.store());
    let view = View::of(&lab.store()).sound();
    assert_eq!(view.held.len(), 1);
}

#[test]
fn a_busy_lock_is_waited_for() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let network = network(&lab).with("lock_timeout_seconds", 20);
    network.add("first").succeeded();
    // Somebody else has it the first three times.
    let busy = ["-e", "inject=flock:error=EAGAIN:when=1..3"].map(str::to_owned);
    let given = troubled(&strace, network.call("ADD", "c"), &busy).address();
    assert_eq!(View::of(&lab.store()).sound().of_container("c"), [given]);
    troubled(&strace, network.call("DEL", "c"), &busy).succeeded();
    assert!(View::of(&lab.store()).sound().of_container("c").is_empty());
}

#[test]
fn a_file_system_without_locks_on_directories_is_locked_by_the_file() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let network = network(&lab);
    network.add("first").succeeded();
    for error in ["EBADF", "EINVAL", "EOPNOTSUPP", "ENOLCK"] {
        let option = ["-e".to_owned(), format!("inject=flock:error={error}:when=1")];
        let answer = troubled(&strace, network.call("ADD", "c"), &option);
        let view = View::of(&lab.store()).sound();
        if answer.is_success() {
            assert_eq!(view.of_container("c"), answer.addresses());
        } else {
            answer.refused().says(&["lock"]);
            assert!(view.of_container("c").is_empty());
        }
        network.del("c").succeeded();
    }
}

#[test]
fn an_old_kernel_or_sandbox_that_does_not_know_a_call_is_served_as_well() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let network = network(&lab);
    for (n, error) in ["ENOSYS", "EPERM"].iter().enumerate() {
        let option = ["-e".to_owned(), format!("inject=openat2:error={error}")];
        for m in 0..3 {
            let call = network.call("ADD", &format!("c{n}-{m}"));
            troubled(&strace, call, &option).succeeded();
        }
        troubled(&strace, network.call("DEL", &format!("c{n}-0")), &option).succeeded();
    }
    assert_eq!(View::of(&lab.store()).sound().held.len(), 4);
}

#[test]
fn renamed_host_frees_what_it_gave_before() {
    let lab = Lab::in_memory();
    let network = network(&lab);
    let given = network.on("before").add("c").address();
    network.on("before").add("d").succeeded();
    // The name says whose an attachment is, so that hosts which share a store may use one container ID.
    assert_ne!(network.on("after").add("c").address(), given);
    network.on("yet-another").gc_call(&[]).run().succeeded();
    assert_eq!(View::of(&lab.store()).sound().held.len(), 3);
    network.on("after").del("c").succeeded();
    network.on("yet-another").del("c").succeeded();
    network.on("yet-another").del("d").succeeded();
    assert_eq!(View::of(&lab.store()).sound().held.len(), 0);
}

#[test]
fn a_node_name_from_a_file_is_trimmed_and_an_empty_one_is_refused() {
    let lab = Lab::in_memory();
    let file = lab.path().join("nodename");
    fs::write(&file, "kw3 \r\n").expect("a file");
    let mut network = network(&lab);
    network.add("by-hand").succeeded();
    network.conf["ipam"].as_object_mut().expect("an object").remove("nodename");
    let network = network.with("nodename_file", file.display().to_string());
    network.add("a").succeeded();
    network.add("b").succeeded();
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.blocks_of("kw3"), view.blocks_of("node-1"), view.blocks.len()), (1, 1, 2));
    for text in ["", " \n", "two words\n", "../up\n"] {
        fs::write(&file, text).expect("a file");
        network.add("c").refused().says(&[&file.display().to_string()]);
        network.del("a").succeeded();
    }
    assert_eq!(View::of(&lab.store()).sound().held.len(), 2);
}

/// Runs a call as if the machine had been booted anew, in a mount namespace of its own.
fn in_boot(boot: u32, scratch: &Path, call: Call) -> Call {
    let id = scratch.join(format!("boot-{boot}"));
    fs::write(&id, format!("0000000{boot}-aaaa-bbbb-cccc-000000000000\n")).expect("a file");
    let unshare = program("unshare").expect("it was looked for");
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    let words = [unshare, "--mount".into(), "/bin/sh".into(), "-c".into(), script.into(), id];
    call.under(&words)
}

fn boots_can_be_played(lab: &Lab) -> Result<(), &'static str> {
    if program("unshare").is_none() {
        return Err("unshare is not installed");
    }
    let version = in_boot(0, lab.path(), network(lab).call("VERSION", "")).run();
    version.is_success().then_some(()).ok_or("no mount namespace can be made here")
}

#[test]
fn what_an_earlier_boot_left_is_used_again_before_anything_is_refused() {
    let lab = Lab::in_memory();
    if let Err(reason) = boots_can_be_played(&lab) {
        return skip(reason);
    }
    // Five usable addresses.
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.208.1.0/29", "blockSize": 29 }]));
    for boot in 1..=4 {
        let calls = |verb: &str| -> Vec<Call> {
            let call = |n| in_boot(boot, lab.path(), network.call(verb, &format!("b{boot}-{n}")));
            (0..5).map(call).collect()
        };
        let given: Vec<_> = calls("ADD").iter().map(|call| call.run().address()).collect();
        assert_eq!(all_different(given).len(), 5);
        // Of this boot nothing is taken back, however short addresses are.
        let late = in_boot(boot, lab.path(), network.call("ADD", "late")).run().refused();
        assert_eq!(late.code, 101);
        let view = View::of(&lab.store()).sound();
        assert_eq!((view.held.len(), view.handles), (5, 5), "boot {boot}");
        assert!(view.held.values().all(|holder| holder.container.starts_with(&format!("b{boot}-"))));
    }
}

#[test]
fn what_is_asked_again_after_a_boot_belongs_to_the_new_boot() {
    let lab = Lab::in_memory();
    if let Err(reason) = boots_can_be_played(&lab) {
        return skip(reason);
    }
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.208.2.0/29", "blockSize": 29 }]));
    let old: Vec<_> = (0..5)
        .map(|n| in_boot(1, lab.path(), network.call("ADD", &format!("c{n}"))).run().address())
        .collect();
    // The runtime brings two of them back.
    for n in [1, 3] {
        let again = in_boot(2, lab.path(), network.call("ADD", &format!("c{n}"))).run().address();
        assert_eq!(again, old[n]);
    }
    let new: Vec<_> = (0..3)
        .map(|n| in_boot(2, lab.path(), network.call("ADD", &format!("new{n}"))).run().address())
        .collect();
    assert!(new.iter().all(|address| *address != old[1] && *address != old[3]), "{old:?} {new:?}");
    in_boot(2, lab.path(), network.call("ADD", "late")).run().refused();
    // A DEL of one that died with the old boot takes nothing from its successor.
    for n in [0, 2, 4] {
        network.del(&format!("c{n}")).succeeded();
    }
    assert_eq!(View::of(&lab.store()).sound().held.len(), 5);
}
