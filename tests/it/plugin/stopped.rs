//! A call that is stopped in the middle while it has the lock: others wait, then say who has it; when it goes on, or is
//! killed, all of them do.

use std::io::{BufRead as _, BufReader};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::cni::{Network, Running, skip};
use crate::support::store::{Lab, View};
use crate::support::strace::strace;

/// Starts an ADD that stops behind its record and before its flush, and waits until it has.
fn stopped_add(network: &Network, strace: &str, container: &str) -> Running {
    let under = [strace, "-D", "-e", "trace=pwrite64", "-e", "inject=pwrite64:signal=STOP:when=2"];
    let mut running = network.call("ADD", container).under(&under).start();
    let lines = BufReader::new(running.stderr()).lines().map_while(Result::ok);
    let mut said = lines.skip_while(|line| !line.contains("--- SIGSTOP"));
    assert!(said.next().is_some(), "it was never stopped");
    running
}

#[test]
fn whoever_waits_in_vain_says_for_whom_and_everybody_goes_on_once_it_does() {
    let strace = match strace() {
        Ok(strace) => strace.display().to_string(),
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let pools = json!([{ "cidr": "10.213.0.0/24", "blockSize": 28 }]);
    let network = Network::new("pods", &lab.store(), &pools).with("lock_timeout_seconds", 1);
    let held = network.add("held").addresses();

    let stopped = stopped_add(&network, &strace, "stopped");
    let holder = format!("process {} (ADD, container stopped)", stopped.pid());
    for refusal in [network.add("c").refused(), network.del("held").refused(), network.add("held").refused()]
    {
        assert_eq!(refusal.code, 11, "{refusal:?}");
        refusal.says(&["within 1 s", &holder, &lab.store().display().to_string(), "nothing was changed"]);
    }
    assert_eq!(network.call("STATUS", "").run().refused().code, 50);
    // One that waits long enough is served when the stopped one goes on.
    let waiting = network.with("lock_timeout_seconds", 60).call("ADD", "waiting").start();
    stopped.signal(Signal::SIGCONT);
    let given = stopped.finish().addresses();
    let later = waiting.finish().addresses();
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.of_container("stopped"), view.of_container("waiting")), (given, later));
    assert_eq!((view.of_container("held"), view.held.len()), (held, 3));
}

#[test]
fn a_stopped_call_that_is_killed_lets_the_others_in() {
    let strace = match strace() {
        Ok(strace) => strace.display().to_string(),
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.213.1.0/24", "blockSize": 28 }]));
    network.add("first").succeeded();
    for round in 0..5 {
        let stopped = stopped_add(&network, &strace, "stopped");
        let waiting: Vec<Running> =
            (0..4).map(|n| network.call("ADD", &format!("w{round}-{n}")).start()).collect();
        stopped.signal(Signal::SIGKILL);
        assert!(stopped.finish().was_killed());
        for running in waiting {
            running.finish().succeeded();
        }
        let view = View::of(&lab.store()).sound();
        assert_eq!(view.held.len(), 4 * (round + 1) + 2, "its record was whole, so it counts");
        network.del("stopped").succeeded();
    }
}
