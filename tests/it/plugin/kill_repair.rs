//! `ipam check --repair`, killed before every system call: what it was to mend is mended or not, what is held stays
//! held, and the next repair does the rest.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::json;

use crate::support::cni::{Call, Network, skip};
use crate::support::store::{Lab, View, copy_tree, write_out};
use crate::support::strace::{self, SystemCall, strace};
use crate::support::tally::tell;

const CONTAINERS: usize = 5;

fn network(store: &Path) -> Network {
    Network::new("pods", store, &json!([{ "cidr": "10.218.0.0/26", "blockSize": 29, "name": "pods" }]))
}

fn check(store: &Path, args: &[&str]) -> Call {
    let url = format!("file://{}", store.display());
    Call::typed(&[&["--datastore", url.as_str(), "ipam", "check"], args].concat(), "")
}

/// Two hosts, everything written out but the last calls; and then something befalls the files.
fn damaged(store: &Path, befall: impl Fn(&Path)) -> View {
    let network = network(store);
    for n in 0..CONTAINERS {
        network.on(["node-1", "node-2"][n % 2]).add(&format!("c{n}")).succeeded();
    }
    write_out(&network, store);
    network.add("late").succeeded();
    network.del("c2").succeeded();
    let view = View::of(store).sound();
    befall(store);
    view
}

fn survives_every_kill(befall: impl Fn(&Path)) {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let template = lab.path().join("template");
    let before = damaged(&template, befall);
    let undisturbed = lab.path().join("undisturbed");
    copy_tree(&template, &undisturbed);
    let (answer, calls) = strace::record(&strace, check(&undisturbed, &["--repair", "--yes"]), lab.path());
    assert!(answer.stdout.contains("Repaired: "), "there was nothing to mend: {answer:?}");
    answer.succeeded();
    // Between two of these it changes nothing.
    let changing =
        ["pwrite64", "write", "fdatasync", "fsync", "renameat", "unlinkat", "mkdirat", "ftruncate", "flock"];
    let is_changing = |call: &SystemCall| changing.contains(&call.name.as_str());
    let points: Vec<SystemCall> = calls.into_iter().filter(is_changing).collect();
    assert!(points.len() > 6, "{points:?}");
    for (n, point) in points.iter().enumerate() {
        let store = lab.path().join(format!("trial-{n}"));
        copy_tree(&template, &store);
        let killed =
            strace::troubled(&strace, check(&store, &["--repair", "--yes"]), &point.inject("signal=KILL"));
        let spared = point.is_by_chance() && killed.is_success();
        assert!(killed.was_killed() || spared, "not killed at {}: {killed:?}", point.line);
        assert_eq!(View::of(&store).held, before.held, "killed at {}", point.line);
        // A call that comes between finds what it needs.
        let network = network(&store);
        let held = before.of_container("c1");
        assert_eq!(network.on("node-2").add("c1").addresses(), held, "killed at {}", point.line);
        let given = network.add("new").address();
        assert!(!before.held.contains_key(&given), "killed at {}: {given} was given twice", point.line);
        check(&store, &["--repair", "--yes"]).run().succeeded();
        check(&store, &[]).run().succeeded();
        let mut containers: Vec<String> = (0..CONTAINERS).map(|n| format!("c{n}")).collect();
        containers.extend(["late", "new"].map(str::to_owned));
        for container in &containers {
            network.del(container).succeeded();
        }
        assert_eq!(View::of(&store).sound().held.len(), 0, "killed at {}", point.line);
        fs::remove_dir_all(&store).expect("a copy");
    }
    let name = thread::current().name().unwrap_or("a test").to_owned();
    tell(&format!("COUNT {} kills at a system call: {name}", points.len()));
}

#[test]
fn a_repair_of_a_lost_index_and_of_the_lists_of_room() {
    survives_every_kill(|store| {
        fs::remove_file(store.join("index")).expect("it is there");
        fs::remove_dir_all(store.join("ipam/room")).expect("it is there");
    });
}

#[test]
fn a_repair_of_a_damaged_state() {
    survives_every_kill(|store| fs::write(store.join("state"), "{").expect("ours"));
}
