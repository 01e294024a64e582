//! What a call costs, in things that can be counted: flushes, files opened, system calls, memory.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::support::cni::{Network, is_release_build, plugin, program, skip};
use crate::support::store::{Lab, View, write_out};
use crate::support::strace::{SystemCall, record, strace, troubled};

/// What makes data durable.
const FLUSHES: [&str; 6] = ["fdatasync", "fsync", "sync_file_range", "syncfs", "sync", "msync"];
/// The bar for a steady ADD of the static build, from `exec` to exit.
const SYSTEM_CALLS_MAX: usize = 80;
/// The bar for the peak memory of an ADD of the static build, in KiB.
const MEMORY_KIB_MAX: u64 = 3 * 1024;

/// Three hosts with several blocks each, and everything in its file.
fn three_hosts(lab: &Lab) -> Network {
    let pools = json!([{ "cidr": "10.203.0.0/20", "blockSize": 28 }]);
    let network = Network::new("pods", &lab.store(), &pools);
    for node in ["node-1", "node-2", "node-3"] {
        for n in 0..40 {
            network.unflushed().on(node).add(&format!("{node}-{n}")).succeeded();
        }
    }
    write_out(&network, &lab.store());
    network
}

fn flushes(calls: &[SystemCall]) -> Vec<&str> {
    calls.iter().map(|call| call.name.as_str()).filter(|name| FLUSHES.contains(name)).collect()
}

/// The files of blocks that were opened, or tried.
fn block_files(calls: &[SystemCall]) -> Vec<String> {
    let opened = calls.iter().filter(|call| call.name.starts_with("open"));
    let named = opened.filter_map(|call| call.line.split('"').nth(1)?.split_once("ipam/blocks/"));
    named.map(|(_, name)| name.trim_end_matches(".json").to_owned()).filter(|name| !name.is_empty()).collect()
}

fn files_of_node_1(lab: &Lab) -> Vec<String> {
    let view = View::of(&lab.store());
    let own =
        view.blocks.iter().filter(|b| b.affinity.as_ref().is_some_and(|a| a.to_string() == "host:node-1"));
    own.map(|block| block.cidr.to_string().replace('/', "-")).collect()
}

#[test]
fn a_steady_add_and_a_del_flush_once_and_open_no_block_of_another_host() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::new();
    let network = three_hosts(&lab);
    // The first opens the block's file, the second finds the block's change in the journal.
    let mut opened = 0;
    for container in ["c", "d"] {
        for verb in ["ADD", "DEL"] {
            let (answer, calls) = record(&strace, network.call(verb, container), lab.path());
            answer.succeeded();
            assert_eq!(flushes(&calls), ["fdatasync"], "{verb} {container}");
            let (own, files) = (files_of_node_1(&lab), block_files(&calls));
            assert!(files.iter().all(|file| own.contains(file)), "{verb} opened {files:?}, own are {own:?}");
            assert!(files.len() <= 1, "{verb} opened {files:?}");
            opened += files.len();
        }
    }
    assert!(opened > 0, "the test sees no block file at all");
}

#[test]
fn a_steady_add_makes_few_system_calls() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::new();
    let network = three_hosts(&lab);
    let mut counts = Vec::new();
    for container in ["c", "d"] {
        let (answer, calls) = record(&strace, network.call("ADD", container), lab.path());
        answer.succeeded();
        counts.push(calls.len());
    }
    say(&format!("system calls of an ADD after a cut, and of the next: {counts:?}"));
    // Runtimes run it as root; others are asked by the kernel who they are once for each file.
    if is_release_build() && nix::unistd::geteuid().is_root() {
        assert!(counts.iter().all(|count| *count <= SYSTEM_CALLS_MAX), "{counts:?}");
    }
}

/// A variable that only GNU's C library looks at.
const GNU_ONLY: &[u8] = b"GLIBC_TUNABLES";

#[test]
fn an_add_needs_little_memory() {
    if !is_release_build() {
        return skip("only the static release build is held to its memory");
    }
    let Some(time) = program("time") else { return skip("GNU time is not installed") };
    let binary = fs::read(plugin()).expect("the plugin");
    if binary.windows(GNU_ONLY.len()).any(|bytes| bytes == GNU_ONLY) {
        return skip("the plugin is linked with GNU's C library, for want of the target for musl");
    }
    let lab = Lab::new();
    let network = three_hosts(&lab);
    // A shell between us and it: what a process had before its `exec` counts as its own.
    let file = lab.path().join("peak");
    let words = [time, PathBuf::from("-o"), file.clone(), PathBuf::from("-f"), PathBuf::from("%M")];
    let shell = ["/bin/sh", "-c", "\"$@\"; exit $?", "sh"].map(PathBuf::from);
    let under: Vec<PathBuf> = shell.into_iter().chain(words).collect();
    let one_peak = |n: usize| -> u64 {
        network.call("ADD", &format!("c{n}")).under(&under).run().succeeded();
        fs::read_to_string(&file).expect("a figure").trim().parse().expect("a number")
    };
    // How much of the program's file is mapped around what is used is the kernel's choice, so the least counts.
    let peak = (0..5).map(one_peak).min().expect("five figures");
    say(&format!("peak memory of an ADD: {peak} KiB"));
    assert!(peak <= MEMORY_KIB_MAX, "{peak} KiB");
}

#[test]
fn an_answer_that_rests_on_an_unflushed_commit_is_flushed_first() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::new();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.203.32.0/24" }]));
    network.add("first").succeeded();
    let kill = ["-e", "inject=fdatasync:signal=KILL:when=1"].map(str::to_owned);
    for verb in ["ADD", "DEL"] {
        let answer = troubled(&strace, network.call(verb, "c"), &kill);
        assert!(answer.was_killed() && answer.stdout.is_empty(), "{answer:?}");
        let is_held = !View::of(&lab.store()).sound().of_container("c").is_empty();
        assert_eq!(is_held, verb == "ADD", "it was committed before its flush");
        // A power cut now would take it back; so what is answered now has to be flushed now.
        let (answer, calls) = record(&strace, network.call(verb, "c"), lab.path());
        answer.succeeded();
        assert!(!flushes(&calls).is_empty(), "{verb} asked again answered without a flush");
        let answered = calls.iter().position(|call| call.line.starts_with("write(1,"));
        let flushed = calls.iter().position(|call| call.name == "fdatasync");
        assert!(answered.is_none() || flushed < answered, "{verb} was answered before its flush");
    }
}

#[test]
fn the_answer_is_printed_between_the_flush_and_the_rest() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::new();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.203.33.0/24" }]));
    network.add("first").succeeded();
    // Until one writes the journal out.
    for n in 0..200 {
        let (answer, calls) = record(&strace, network.call("ADD", &format!("c{n}")), lab.path());
        answer.succeeded();
        let place = |found: &dyn Fn(&SystemCall) -> bool| calls.iter().position(found);
        let record = place(&|call| call.line.starts_with("pwrite64(") && call.line.contains("HA02 "));
        let flush = place(&|call| call.name == "fdatasync");
        let print = place(&|call| call.line.starts_with("write(1,"));
        assert!(record.is_some() && record < flush && flush < print, "{record:?} {flush:?} {print:?}");
        let rename = place(&|call| call.name.starts_with("renameat"));
        if rename.is_some() {
            assert!(print < rename, "files are written when the answer is out");
            return;
        }
        network.del(&format!("c{n}")).succeeded();
    }
    panic!("400 commits, and the journal was not written out");
}

#[test]
fn what_a_call_costs_does_not_grow_with_the_number_of_blocks_that_others_have() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.204.0.0/16", "blockSize": 28 }]));
    network.add("own").succeeded();
    write_out(&network, &lab.store());
    let count = |container: &str| {
        let (answer, calls) = record(&strace, network.call("ADD", container), lab.path());
        answer.succeeded();
        calls.iter().filter(|call| !call.is_by_chance()).count()
    };
    let few = count("few");
    for n in 0..60 {
        network.unflushed().on(&format!("other-{n}")).add(&format!("o{n}")).succeeded();
    }
    write_out(&network, &lab.store());
    let many = count("many");
    assert!(many <= few + 2, "{few} system calls beside one host's block, {many} beside 61");
}

fn say(line: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().lock().write_all(format!("\n{line}\n").as_bytes());
}
