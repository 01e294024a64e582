//! `kill -9` before every system call: nothing that was answered is lost, nothing is given twice, and the next call
//! works.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use super::disturbed::{Effect, LEASES, Scenario, Stage, both_families, one_pool, small_blocks};
use crate::support::cni::{Answer, Call, Network, all_different, at_once, skip};
use crate::support::store::{Lab, View};
use crate::support::strace::{SystemCall, strace};
use crate::support::tally::tell;

/// Kills the call of a scenario before each of its system calls in turn.
fn survives_every_kill(scenario: Scenario) {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let stage = Stage::set(&strace, scenario);
    // The first is the `exec` itself, before which there is nobody to be killed.
    let points: Vec<SystemCall> = stage.undisturbed.iter().skip(1).cloned().collect();
    assert!(points.len() > 30, "{points:?}");
    stage.try_all(
        &strace,
        &points,
        |point| point.inject("signal=KILL").to_vec(),
        |point, answer| {
            let spared = point.is_by_chance() && answer.is_success();
            assert!(answer.was_killed() || spared, "not killed at {}: {answer:?}", point.line);
        },
    );
}

fn holds_three(network: &Network, _: &Path) {
    for n in 0..3 {
        network.add(&format!("held{n}")).succeeded();
    }
}

#[test]
fn first_add_on_no_store() {
    survives_every_kill(Scenario {
        network: both_families,
        before: None,
        call: |network| network.call("ADD", "c"),
        effect: Effect::Gives("c"),
        cuts: false,
    });
}

#[test]
fn add_in_a_block_with_room() {
    survives_every_kill(Scenario {
        network: one_pool,
        before: Some(holds_three),
        call: |network| network.call("ADD", "c"),
        effect: Effect::Gives("c"),
        cuts: false,
    });
}

#[test]
fn add_asked_again() {
    survives_every_kill(Scenario {
        network: both_families,
        before: Some(|network, _| {
            network.add("c").succeeded();
            network.add("held").succeeded();
        }),
        call: |network| network.call("ADD", "c"),
        effect: Effect::Gives("c"),
        cuts: false,
    });
}

#[test]
fn add_that_brings_the_second_family() {
    survives_every_kill(Scenario {
        network: both_families,
        before: Some(|network, _| {
            network.with("assign_ipv6", false).add("c").succeeded();
        }),
        call: |network| network.call("ADD", "c"),
        effect: Effect::Gives("c"),
        cuts: false,
    });
}

/// Fills whole blocks, up to the brim of the last one.
fn fills_blocks(network: &Network, store: &Path) {
    for n in 0.. {
        network.add(&format!("held{n}")).succeeded();
        let view = View::of(store);
        if n > 10
            && view.blocks.iter().all(|block| block.unallocated.iter().all(|&free| free < 2 || free == 7))
        {
            return;
        }
        assert!(n < 60, "no end of free addresses");
    }
}

#[test]
fn add_that_claims_a_block() {
    survives_every_kill(Scenario {
        network: small_blocks,
        before: Some(fills_blocks),
        call: |network| network.call("ADD", "c"),
        effect: Effect::Gives("c"),
        cuts: false,
    });
}

#[test]
fn del() {
    survives_every_kill(Scenario {
        network: both_families,
        before: Some(|network, store| {
            holds_three(network, store);
            network.add("c").succeeded();
        }),
        call: |network| network.call("DEL", "c"),
        effect: Effect::Frees(&["c"]),
        cuts: false,
    });
}

#[test]
fn del_of_nothing() {
    survives_every_kill(Scenario {
        network: one_pool,
        before: Some(holds_three),
        call: |network| network.call("DEL", "c"),
        effect: Effect::Frees(&["c"]),
        cuts: false,
    });
}

#[test]
fn del_that_makes_room_in_a_full_block() {
    survives_every_kill(Scenario {
        network: small_blocks,
        before: Some(fills_blocks),
        call: |network| network.call("DEL", "held3"),
        effect: Effect::Frees(&["held3"]),
        cuts: false,
    });
}

#[test]
fn del_that_empties_a_block_which_is_given_back() {
    survives_every_kill(Scenario {
        network: small_blocks,
        before: Some(|network, store| {
            fills_blocks(network, store);
            network.add("c").succeeded();
        }),
        call: |network| network.call("DEL", "c"),
        effect: Effect::Frees(&["c"]),
        cuts: false,
    });
}

#[test]
fn add_that_writes_the_journal_out() {
    survives_every_kill(Scenario {
        network: both_families,
        before: Some(holds_three),
        call: |network| network.call("ADD", "c"),
        effect: Effect::Gives("c"),
        cuts: true,
    });
}

#[test]
fn del_that_writes_the_journal_out() {
    survives_every_kill(Scenario {
        network: small_blocks,
        before: Some(|network, store| {
            fills_blocks(network, store);
            network.add("c").succeeded();
        }),
        call: |network| network.call("DEL", "c"),
        effect: Effect::Frees(&["c"]),
        cuts: true,
    });
}

#[test]
fn gc_of_several_blocks() {
    survives_every_kill(Scenario {
        network: small_blocks,
        before: Some(|network, _| {
            for id in ["a", "b", "keep0", "c", "keep1", "d", "e", "f", "g", "keep2", "h"] {
                network.add(id).succeeded();
            }
        }),
        call: |network| network.gc_call(&["keep0", "keep1", "keep2"]),
        effect: Effect::Frees(&["a", "b", "c", "d", "e", "f", "g", "h"]),
        cuts: false,
    });
}

#[test]
fn add_that_takes_over_from_host_local() {
    survives_every_kill(Scenario {
        network: |store| {
            Network::of(&json!({
                "cniVersion": "1.0.0",
                "name": "pods",
                "type": "bridge",
                "ipam": { "type": "host-affine", "subnet": "10.202.64.0/24", "dataDir": store, "nodename": "node-1" },
            }))
        },
        before: Some(|_, store| {
            let records = store.join("pods");
            fs::create_dir_all(&records).expect("a directory");
            fs::set_permissions(store, Permissions::from_mode(0o755)).expect("as host-local makes it");
            for (address, container) in LEASES {
                fs::write(records.join(address), format!("{container}\r\neth0")).expect("a record");
            }
        }),
        call: |network| network.call("ADD", "c"),
        effect: Effect::Imports("c"),
        cuts: false,
    });
}

#[test]
fn calls_that_are_killed_among_others_disturb_none() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let network = both_families(&lab.store());
    // Before the record, between it and its flush, before and behind the answer, while the lock is waited for.
    let points = ["pwrite64:2", "fdatasync:1", "write:1", "exit_group:1", "flock:2", "openat2:2", "close:4"];
    let call = |verb: &str, n: usize| {
        let call = network.call(verb, &format!("c{n}"));
        let Some(point) = points.get(n % 12) else { return call };
        let (name, number) = point.split_once(':').expect("a name and a number");
        let kill = format!("inject={name}:signal=KILL:when={number}");
        call.under(&[strace.display().to_string(), "-o".into(), "/dev/null".into(), "-e".into(), kill])
    };
    let mut killed = 0;
    for round in 0..8 {
        let calls: Vec<Call> = (0..36).map(|n| call("ADD", round * 36 + n)).collect();
        let answers = at_once(&calls);
        let of_adds = answers.iter().filter(|answer| answer.was_killed()).count();
        assert!(of_adds >= 15, "{answers:?}");
        killed += of_adds;
        let view = View::of(&lab.store()).sound();
        let given = all_different(answers.iter().filter_map(Answer::printed_addresses).flatten());
        assert!(given.iter().all(|address| view.held.contains_key(address)), "something answered is lost");
        for (n, answer) in answers.iter().enumerate() {
            if let Some(printed) = answer.printed_addresses() {
                assert_eq!(view.of_container(&format!("c{}", round * 36 + n)), printed);
            } else {
                assert!(answer.was_killed(), "{answer:?}");
            }
        }
        let calls: Vec<Call> = (0..36).map(|n| call("DEL", round * 36 + n)).collect();
        for (n, answer) in at_once(&calls).iter().enumerate() {
            assert!(answer.was_killed() || answer.is_success(), "{answer:?}");
            killed += usize::from(answer.was_killed());
            if answer.is_success() {
                assert!(View::of(&lab.store()).of_container(&format!("c{}", round * 36 + n)).is_empty());
            }
        }
        // What a runtime does for those that were killed.
        for n in 0..36 {
            network.del(&format!("c{}", round * 36 + n)).succeeded();
        }
        let view = View::of(&lab.store()).sound();
        assert_eq!((view.held.len(), view.handles), (0, 0));
    }
    tell(&format!("COUNT {killed} kills among other calls: at seven of its system calls"));
}
