//! Pods come and go through the plugin for as long as asked, with kills, restarts, exhaustion and changed settings, and
//! the store is audited as it goes.
//!
//! By itself the test does so for a moment. `HOST_AFFINE_SOAK_SECONDS=1800` goes on for half an hour, on a disk, and prints a
//! table; `HOST_AFFINE_SOAK_SEED` repeats the decisions of a run, though not its timing.

mod pods;
mod yard;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use pods::Worker;
use yard::{NETWORKS, Yard};

use crate::choices::Choices;
use crate::support::cni::is_release_build;
use crate::support::store::{Lab, View};

/// Callers at once.
const WORKERS: usize = 4;
/// Lines of the table.
const LINES: u32 = 12;
/// More than a store of these pools ever needs: files of at most 28 blocks, and a journal before it is written out.
const BYTES_MAX: u64 = 1 << 20;

#[test]
fn whatever_comes_and_goes_nothing_is_given_twice_lost_or_left_behind() {
    let seconds: Option<u64> = option("HOST_AFFINE_SOAK_SECONDS");
    let seed = option("HOST_AFFINE_SOAK_SEED").unwrap_or(1);
    let lab = if seconds.is_some() { Lab::new() } else { Lab::in_memory() };
    let yard = Yard::new(&lab);
    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(number, seed)).collect();
    let mut choices = Choices::seeded(seed + 99);
    let steps = if seconds.is_some() { 400 } else { 40 };
    let lasts = seconds.map(Duration::from_secs);
    let began = Instant::now();
    let mut line = 0;
    if lasts.is_some() {
        say(&format!("soak, seed {seed}\n{}", yard::HEADER));
    }
    for round in 1.. {
        thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| (0..steps).for_each(|_| worker.step(&yard)));
            }
        });
        yard.calm();
        audit(&lab, &workers);
        collect(&yard, &lab, &mut workers, &mut choices, round);
        yard.weigh(&lab);
        let Some(lasts) = lasts else {
            if round == if is_release_build() { 4 } else { 2 } {
                break;
            }
            continue;
        };
        let is_over = began.elapsed() >= lasts;
        if is_over || began.elapsed() >= lasts * line / LINES {
            line += 1;
            say(&yard.line(began.elapsed()));
        }
        if is_over {
            break;
        }
    }
    for worker in &mut workers {
        worker.end_all(&yard);
    }
    yard.calm();
    audit(&lab, &workers);
    assert_eq!(View::of(&lab.store()).held.len(), 0);
    assert_eq!(yard.cli(&["ipam", "check"]).status.code(), Some(0));
}

/// The store holds what the workers know, no more and no less, and agrees with itself.
fn audit(lab: &Lab, workers: &[Worker]) {
    let expected: BTreeMap<IpAddr, String> = workers.iter().flat_map(Worker::held).collect();
    let held = View::of(&lab.store()).sound().held;
    let found: BTreeMap<IpAddr, String> =
        held.into_iter().map(|(at, holder)| (at, holder.container)).collect();
    assert_eq!(found, expected);
    let bytes = yard::bytes_of(&lab.store());
    assert!(bytes < BYTES_MAX, "the store has grown to {bytes} bytes");
}

/// A runtime forgets some of its pods, or all of a network with a reboot, and says which are left.
fn collect(yard: &Yard, lab: &Lab, workers: &mut [Worker], choices: &mut Choices, round: usize) {
    let network = choices.pick(NETWORKS);
    let reboots = round.is_multiple_of(8);
    for worker in workers.iter_mut() {
        worker.forget(network, yard, |choices| reboots || choices.pick(4) == 0);
    }
    let valid: Vec<String> = workers.iter().flat_map(|worker| worker.of_network(network)).collect();
    yard.collect(network, &valid);
    audit(lab, workers);
}

fn option<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Says it at once, also of a test that passes.
fn say(text: &str) {
    let _ = io::stdout().lock().write_all(format!("\n{text}").as_bytes());
}
