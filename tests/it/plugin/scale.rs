//! Very many addresses, hosts and processes: what a call does stays the same, and none fails.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::choices::Choices;
use crate::support::cni::{Answer, Call, Network, all_different, at_once, plugin, skip};
use crate::support::filled::{Scale, make};
use crate::support::store::{Lab, View};
use crate::support::strace::{SystemCall, record, strace};
use crate::support::tally::tell;

const POOL: &str = "10.0.0.0/12";

/// A store of that size, and the network of its first host.
fn filled(lab: &Lab, addresses: usize, hosts: usize) -> Network {
    // Nearly full: at most 60 of 64.
    let blocks = addresses.div_ceil(60).max(hosts);
    let pool = POOL.parse().expect("a range");
    make(&lab.store(), &Scale { pool, blocks, blocks_per_host: blocks.div_ceil(hosts), addresses });
    Network::new("pods", &lab.store(), &json!([{ "cidr": POOL, "name": "pods" }])).on("node-0000")
}

/// The names of the system calls that do not depend on chance, and how often each is made.
fn made(calls: &[SystemCall]) -> Vec<(String, usize)> {
    let mut names: Vec<&str> =
        calls.iter().filter(|call| !call.is_by_chance()).map(|call| call.name.as_str()).collect();
    names.sort_unstable();
    names.chunk_by(|a, b| a == b).map(|same| (same[0].to_owned(), same.len())).collect()
}

fn sum(made: &[(String, usize)]) -> usize {
    made.iter().map(|(_, count)| count).sum()
}

#[test]
fn a_call_makes_the_same_system_calls_whatever_is_held_and_by_however_many_hosts() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let most =
        std::env::var("HOST_AFFINE_SCALE_HELD").map_or(100_000, |text| text.parse().expect("a number"));
    let mut first: Option<[Vec<(String, usize)>; 3]> = None;
    for (addresses, hosts) in [(10, 1), (1_000, 1), (most, 1), (1_000, 1_000), (most, 1_000)] {
        let lab = Lab::in_memory();
        let network = filled(&lab, addresses, hosts);
        let run = |verb: &str, container: &str| {
            let (answer, calls) = record(&strace, network.call(verb, container), lab.path());
            answer.succeeded();
            made(&calls)
        };
        // The first one finds everything written out, as after a cut.
        let calls = [run("ADD", "new"), run("ADD", "other"), run("DEL", "new")];
        let sums = calls.each_ref().map(|made| sum(made));
        tell(&format!(
            "{addresses} held by {hosts} hosts: {} system calls of an ADD after a cut, {} of an ADD, {} of a DEL",
            sums[0], sums[1], sums[2]
        ));
        let first = first.get_or_insert(calls.clone());
        for ((now, then), what) in calls.iter().zip(first.iter()).zip(["ADD after a cut", "ADD", "DEL"]) {
            // A longer list of blocks with room is read in one more piece, and no more than that.
            let more = sum(now).saturating_sub(sum(then));
            assert!(more <= 2, "{what} with {addresses} held by {hosts}: {now:?} instead of {then:?}");
        }
    }
}

#[test]
fn three_hundred_at_once_are_all_served() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.216.0.0/20" }]));
    let calls = |verb: &str| -> Vec<Call> {
        (0..300).map(|n| network.on(&format!("node-{}", n % 3)).call(verb, &format!("c{n}"))).collect()
    };
    let given = all_different(at_once(&calls("ADD")).into_iter().map(Answer::address));
    let view = View::of(&lab.store()).sound();
    assert_eq!(view.held.keys().copied().collect::<BTreeSet<IpAddr>>(), given);
    // Asked again, while others delete.
    let mixed: Vec<Call> = calls("ADD")
        .into_iter()
        .zip(calls("DEL"))
        .enumerate()
        .map(|(n, (add, del))| if n % 2 == 0 { add } else { del })
        .collect();
    for answer in at_once(&mixed) {
        answer.succeeded();
    }
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.held.len(), view.handles), (150, 150));
    assert!(view.held.keys().all(|address| given.contains(address)), "what was asked again is another");
}

#[test]
fn a_mixed_load_goes_on_while_people_look_at_it() {
    const RUNTIMES: usize = 6;
    const CALLS: usize = 60;
    let lab = Lab::in_memory();
    let pools = json!([{ "cidr": "10.217.0.0/22", "blockSize": 28 }, { "cidr": "fd02:217::/64" }]);
    let network = Network::new("pods", &lab.store(), &pools);
    network.add("first").succeeded();
    let done = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) || looks < 10 {
                for args in [&["ipam", "show", "--show-blocks", "-o", "json"][..], &["ipam", "check"]] {
                    let shown = look(&lab.store(), args);
                    if args[1] == "show" {
                        let shown: Value = serde_json::from_str(&shown).expect("JSON");
                        let pool = &shown["pools"][0];
                        let count = |key: &str| pool[key].as_u64().unwrap_or_else(|| panic!("{key}: {pool}"));
                        assert_eq!(
                            count("inUse") + count("free") + count("reserved"),
                            count("total"),
                            "{pool}"
                        );
                    }
                    looks += 1;
                }
            }
            looks
        });
        let runtimes: Vec<_> = (0..RUNTIMES)
            .map(|runtime| {
                let network = network.on(&format!("node-{}", runtime % 2));
                scope.spawn(move || runtime_of(&network, runtime, CALLS))
            })
            .collect();
        let served: usize =
            runtimes.into_iter().map(|runtime| runtime.join().expect("it does not panic")).sum();
        done.store(true, Ordering::Relaxed);
        assert!(looking.join().expect("it does not panic") >= 10);
        served
    });
    let view = View::of(&lab.store()).sound();
    assert_eq!(view.held.len(), 2 * (served + 1), "each has an address of each family");
}

/// Makes calls for a few containers of its own; how many have addresses in the end.
fn runtime_of(network: &Network, runtime: usize, calls: usize) -> usize {
    let mut choices = Choices::seeded(u64::try_from(runtime).expect("small"));
    let mut results: Vec<Option<Value>> = vec![None; 8];
    for _ in 0..calls {
        let n = choices.pick(results.len());
        let container = format!("r{runtime}-{n}");
        match (&results[n], choices.pick(3)) {
            (None, _) => results[n] = Some(network.add(&container).result()),
            (Some(result), 0 | 1) => {
                let check = network.call("CHECK", &container).variable("CNI_NETNS", "/run/netns/none");
                check.previous(result).run().succeeded();
            }
            (Some(_), _) => {
                network.del(&container).succeeded();
                results[n] = None;
            }
        }
    }
    results.into_iter().flatten().count()
}

/// What a person sees. It is always an answer, and never that something does not agree.
fn look(store: &Path, args: &[&str]) -> String {
    let mut command = Command::new(plugin());
    let url = format!("file://{}", store.display());
    let output = command.env_clear().arg("--datastore").arg(url).args(args).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}
