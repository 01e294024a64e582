//! A disk that fails or is full, once or from then on, at every system call that could notice: a call that is answered
//! with success has done its work, one that is not has lost nothing, and the next one works.

use std::path::Path;

use super::disturbed::{Effect, Scenario, Stage, both_families, small_blocks};
use crate::support::cni::{Network, skip};
use crate::support::strace::{SystemCall, strace};

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
            network.add("c").succeeded();
        }),
        call: |network| network.call("DEL", "c"),
        effect: Effect::Frees(&["c"]),
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
fn add_and_del_where_the_store_cannot_be_read() {
    survives_every_fault(adds(false), &READING, &["EIO", "EACCES"]);
    survives_every_fault(deletes(false), &READING, &["EIO", "EACCES"]);
}
