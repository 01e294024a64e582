//! A disk that fails or is full, once or from then on, at every system call that could notice: a call that is answered
//! with success has done its work, one that is not has lost nothing, and the next one works.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disturbed::{Effect, Scenario, Stage, both_families, small_blocks};
use crate::support::cni::{Network, program, skip};
use crate::support::store::{Lab, View, write_out};
use crate::support::strace::{SystemCall, strace, troubled};

/// What writes, makes, moves, removes or flushes something.
const WRITING: [&str; 13] = [
    "pwrite64",
    "write",
    "fdatasync",
    "fsync",
    "sync_file_range",
    "ftruncate",
    "fallocate",
    "openat",
    "openat2",
    "mkdirat",
    "renameat",
    "renameat2",
    "unlinkat",
];

/// What looks.
const READING: [&str; 8] =
    ["openat", "openat2", "pread64", "read", "getdents64", "statx", "newfstatat", "fstatfs"];

/// How the disk fails.
struct Fault {
    at: SystemCall,
    /// What else fails from then on.
    later: Vec<SystemCall>,
    error: &'static str,
}

impl Fault {
    fn options(&self) -> Vec<String> {
        let what = format!("error={}", self.error);
        if self.later.is_empty() {
            return self.at.inject(&what).to_vec();
        }
        let at_and_later = std::iter::once(&self.at).chain(&self.later);
        at_and_later.flat_map(|call| call.inject_from_then_on(&what)).collect()
    }
}

/// Troubles the call of a scenario at each of its system calls of these names: once each, and from there on.
fn survives_every_fault(scenario: Scenario, names: &[&str], errors: &[&'static str]) {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let stage = Stage::set(&strace, scenario);
    let of_names = |call: &&SystemCall| names.contains(&call.name.as_str());
    // What the program's start reads is the kernel's, and no disk.
    let is_store = |call: &&SystemCall| !call.line.contains("/proc/");
    let points: Vec<SystemCall> = stage.undisturbed.iter().filter(of_names).cloned().collect();
    let mut faults = Vec::new();
    for (n, at) in points.iter().enumerate().filter(|(_, at)| is_store(at)) {
        for error in errors {
            // The first of each name that comes after it; from that one on, all of the name fail.
            let mut later: Vec<SystemCall> = Vec::new();
            for call in points.iter().skip(n + 1) {
                if call.name != at.name && later.iter().all(|known| known.name != call.name) {
                    later.push(call.clone());
                }
            }
            faults.push(Fault { at: at.clone(), later: Vec::new(), error });
            faults.push(Fault { at: at.clone(), later, error });
        }
    }
    assert!(faults.len() > 8, "{points:?}");
    stage.try_all(&strace, &faults, Fault::options, |fault, answer| {
        assert!(answer.status.code().is_some(), "{}: {answer:?}", fault.at.line);
        if !answer.is_success() && !answer.stdout.is_empty() && answer.printed_addresses().is_none() {
            answer.clone().refused();
        }
    });
}

fn holds_three(network: &Network, _: &Path) {
    for n in 0..3 {
        network.add(&format!("held{n}")).succeeded();
    }
}

fn adds(cuts: bool) -> Scenario {
    Scenario {
        network: both_families,
        before: Some(holds_three),
        call: |network| network.call("ADD", "c"),
        effect: Effect::Gives("c"),
        cuts,
    }
}

fn deletes(cuts: bool) -> Scenario {
    Scenario {
        network: small_blocks,
        before: Some(|network, store| {
            holds_three(network, store);
            network.add("d").succeeded();
        }),
        call: |network| network.call("DEL", "d"),
        effect: Effect::Frees(&["d"]),
        cuts,
    }
}

#[test]
fn add_on_a_failing_disk() {
    survives_every_fault(adds(false), &WRITING, &["EIO", "ENOSPC"]);
}

#[test]
fn add_that_writes_the_journal_out_to_a_failing_disk() {
    survives_every_fault(adds(true), &WRITING, &["EIO", "ENOSPC"]);
}

#[test]
fn del_on_a_failing_disk() {
    survives_every_fault(deletes(false), &WRITING, &["EIO", "ENOSPC", "EROFS"]);
}

#[test]
fn del_that_writes_the_journal_out_to_a_failing_disk() {
    survives_every_fault(deletes(true), &WRITING, &["EIO", "ENOSPC"]);
}

#[test]
fn first_add_on_a_failing_disk() {
    let scenario = Scenario { before: None, ..adds(false) };
    survives_every_fault(scenario, &WRITING, &["EIO", "ENOSPC"]);
}

#[test]
fn add_where_the_store_cannot_be_read() {
    survives_every_fault(adds(false), &READING, &["EIO", "EACCES"]);
    survives_every_fault(Scenario { before: Some(written_out), ..adds(false) }, &READING, &["EIO", "EACCES"]);
}

#[test]
fn del_where_the_store_cannot_be_read() {
    survives_every_fault(deletes(false), &READING, &["EIO", "EACCES"]);
    survives_every_fault(
        Scenario { before: Some(written_out), ..deletes(false) },
        &READING,
        &["EIO", "EACCES"],
    );
}

#[test]
fn add_that_writes_the_journal_out_where_the_store_cannot_be_read() {
    survives_every_fault(adds(true), &READING, &["EIO"]);
}

/// Four containers, one of them `d`, and everything in its file.
fn written_out(network: &Network, store: &Path) {
    holds_three(network, store);
    network.add("d").succeeded();
    write_out(network, store);
}

#[test]
fn a_flush_that_fails_is_an_error_and_takes_the_commit_back() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::new();
    let network = both_families(&lab.store());
    holds_three(&network, &lab.store());
    let before = View::of(&lab.store()).sound().held;
    for name in ["fdatasync", "pwrite64"] {
        // The second `pwrite64` is the record; the first says in the lock who holds it.
        let number = if name == "fdatasync" { 1 } else { 2 };
        for verb in ["ADD", "DEL"] {
            let container = if verb == "ADD" { "c" } else { "held1" };
            let fault = ["-e".to_owned(), format!("inject={name}:error=EIO:when={number}")];
            let refusal = troubled(&strace, network.call(verb, container), &fault).refused();
            assert_eq!(refusal.code, 100, "{refusal:?}");
            refusal.says(&["journal", "hint:"]);
            assert_eq!(View::of(&lab.store()).sound().held, before, "{verb} after a failed {name}");
        }
    }
    network.add("c").succeeded();
    network.del("held1").succeeded();
}

/// A file system of its own, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, size: &str) -> Result<Self, String> {
        std::fs::create_dir(&at).expect("a directory");
        let mount = program("mount").ok_or("`mount` is not installed")?;
        let options = format!("size={size},mode=0700");
        let output = Command::new(mount).args(["-t", "tmpfs", "-o", &options, "none"]).arg(&at).output();
        match output {
            Ok(output) if output.status.success() => Ok(Self(at)),
            _ => Err("no file system can be mounted here".to_owned()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let umount = program("umount").expect("where there is `mount`");
        let _ = Command::new(umount).arg(&self.0).status();
    }
}

#[test]
fn on_a_full_disk_an_add_is_refused_in_time_and_every_del_works() {
    let lab = Lab::new();
    let disk = match SmallDisk::mount(lab.store(), "512k") {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let network = small_blocks(&disk.0);
    let add = |n: usize| network.add(&format!("c{n}"));
    add(0).succeeded();
    let mut ballast = File::create(disk.0.join("ballast")).expect("a file");
    while ballast.write_all(&[1; 512]).is_ok() {}
    let mut given = 1;
    let refusal = loop {
        let answer = add(given);
        if !answer.is_success() {
            break answer.refused();
        }
        given += 1;
        assert!(given < 250, "it was never full");
    };
    assert_eq!(refusal.code, 100, "{refusal:?}");
    refusal.says(&[&disk.0.display().to_string(), "free space"]);
    assert_eq!(View::of(&disk.0).sound().held.len(), given, "what was refused changed nothing");
    add(given).refused();
    assert!(add(0).succeeded().printed_addresses().is_some(), "what it has it is told");

    for n in 0..given / 2 {
        network.del(&format!("c{n}")).succeeded();
    }
    assert_eq!(View::of(&disk.0).sound().held.len(), given - given / 2);
    std::fs::remove_file(disk.0.join("ballast")).expect("it is there");
    drop(ballast);
    for n in 0..given / 2 {
        add(n).succeeded();
    }
    let view = View::of(&disk.0).sound();
    assert_eq!((view.held.len(), view.handles), (given, given));
    for n in 0..given {
        network.del(&format!("c{n}")).succeeded();
    }
    assert_eq!(View::of(&disk.0).sound().held.len(), 0);
}

#[test]
fn on_a_disk_that_may_only_be_read_what_looks_works_and_what_changes_says_why_not() {
    let lab = Lab::new();
    let disk = match SmallDisk::mount(lab.store(), "1m") {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let network = small_blocks(&disk.0);
    let result = network.add("c").result();
    let remount = |how: &str| {
        let mount = program("mount").expect("it was used before");
        let status = Command::new(mount).args(["-o", how]).arg(&disk.0).status().expect("it runs");
        assert!(status.success());
    };
    remount("remount,ro");
    network.call("CHECK", "c").previous(&result).run().succeeded();
    network.call("STATUS", "").run().succeeded();
    let view = View::of(&disk.0).sound();
    for refusal in
        [network.add("d").refused(), network.del("c").refused(), network.gc_call(&[]).run().refused()]
    {
        assert_eq!(refusal.code, 100, "{refusal:?}");
        refusal.says(&[&disk.0.display().to_string(), "ead-only", "writable"]);
    }
    remount("remount,rw");
    assert_eq!(View::of(&disk.0).sound().held, view.held);
    network.add("d").succeeded();
    network.del("c").succeeded();
}
