//! A load of calls: several at once, each runtime with its own containers, at random.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use super::ledger::{Known, Ledger};
use crate::choices::Choices;
use crate::support::cni::Network;

/// How many make calls at once.
const RUNTIMES: usize = 4;
/// How many containers each has.
const CONTAINERS: usize = 12;
/// How many calls each makes once the power is gone.
const CALLS_IN_VAIN: usize = 2;

/// The network on the host of a container: two hosts share the store.
pub(super) fn of_container(network: &Network, container: &str) -> Network {
    let last = container.bytes().last().unwrap_or_default();
    network.on(if last.is_multiple_of(2) { "node-1" } else { "node-2" })
}

/// Makes calls at random until so many have been answered; then does something while more are being made.
pub(super) fn run(
    network: &Network,
    ledger: &mut Ledger,
    choices: &mut Choices,
    answers: usize,
    in_the_middle: impl FnOnce(),
) {
    let over = AtomicBool::new(false);
    let (answered, heard) = mpsc::channel();
    let shares: Vec<(Ledger, u64)> = (0..RUNTIMES)
        .map(|runtime| {
            let mut share = Ledger::default();
            (0..CONTAINERS).for_each(|n| share.know(&name(runtime, n), ledger));
            (share, u64::try_from(choices.pick(1 << 30)).expect("small"))
        })
        .collect();
    let learned: Vec<Ledger> = thread::scope(|scope| {
        let (over, mut runtimes) = (&over, Vec::new());
        for (runtime, (mut share, seed)) in shares.into_iter().enumerate() {
            let answered = answered.clone();
            runtimes.push(scope.spawn(move || {
                let mut choices = Choices::seeded(seed);
                let mut in_vain = 0;
                while in_vain < CALLS_IN_VAIN {
                    let is_over = over.load(Ordering::SeqCst);
                    in_vain += usize::from(is_over);
                    let container = name(runtime, choices.pick(CONTAINERS));
                    let verb = verb(&share.of(&container), &mut choices);
                    let call = of_container(network, &container).call(verb, &container);
                    let answer = if verb == "DEL" { call.variable("CNI_NETNS", "") } else { call }.run();
                    if !over.load(Ordering::SeqCst) {
                        assert!(answer.is_success(), "{verb} {container}: {answer:?}");
                    } else if !answer.is_success() {
                        answer.clone().refused();
                    }
                    share.note(verb, &container, &answer);
                    let _ = answered.send(());
                }
                share
            }));
        }
        // Gone with the runtimes, so that the wait for their answers ends should one of them panic.
        drop(answered);
        let _ = heard.iter().take(answers).count();
        over.store(true, Ordering::SeqCst);
        in_the_middle();
        runtimes.into_iter().map(|runtime| runtime.join().expect("a runtime does not panic")).collect()
    });
    for share in learned {
        ledger.merge(share);
    }
}

fn name(runtime: usize, n: usize) -> String {
    format!("r{runtime}-c{n}")
}

/// Mostly what changes something; now and then the same again.
fn verb(known: &Known, choices: &mut Choices) -> &'static str {
    let again = choices.pick(6) == 0;
    match known {
        Known::Has(_) if again => "ADD",
        Known::Nothing if !again => "ADD",
        Known::Perhaps(_) if choices.pick(2) == 0 => "ADD",
        _ => "DEL",
    }
}
