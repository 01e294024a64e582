//! One address, two owners: never.

use std::fs;

use serde_json::json;

use super::{Field, as_pod, asking, exits, shows};
use crate::support::cni::{Answer, Call, all_different, at_once};
use crate::support::store::copy_tree;

/// F04.
#[test]
fn hosts_that_reach_for_the_same_blocks_at_once_all_get_one_of_their_own() {
    let field = Field::new();
    field.pool("p1", "10.62.0.0/27", 30);
    for round in 1..=4 {
        let call = |n| {
            let id = format!("r{round}-n{n}");
            as_pod(field.on(&format!("n{n}")).call("ADD", &id), &id)
        };
        let calls: Vec<Call> = (1..=8).map(call).collect();
        all_different(at_once(&calls).into_iter().map(Answer::address));
    }
    let view = field.view();
    assert_eq!((view.held.len(), view.blocks.len()), (32, 8));
    for node in 1..=8 {
        assert_eq!(view.blocks_of(&format!("n{node}")), 1, "n{node}");
    }
    shows(&field.cli(&["ipam", "show", "--show-blocks"]), &["32 (100%)"]);
}

/// F06: what was lost is seen, and can be put back before the next allocation does harm.
#[test]
fn what_a_restored_backup_does_not_know_is_found_and_can_be_registered_again() {
    let field = Field::new();
    field.pool("p1", "10.62.2.0/28", 28);
    let mut given = field.fill("b", 3, "n1");
    let snapshot = field.lab.path().join("snapshot");
    copy_tree(&field.lab.store(), &snapshot);
    for n in 4..=6 {
        given.push(field.add(&format!("b{n}"), "n1").address().to_string());
    }
    fs::remove_dir_all(field.lab.store()).expect("the test's own");
    copy_tree(&snapshot, &field.lab.store());

    let workload = |(n, ip): (usize, &String)| json!({ "containerID": format!("b{}", n + 1), "ips": [ip] });
    let alive = field.inventory(&given.iter().enumerate().map(workload).collect());
    let check = ["ipam", "check", "--show-problem-ips", "--inventory", alive.as_str()];
    let found = exits(field.cli(&check), 1);
    for lost in &given[3..] {
        shows(&found, &[&format!("{lost} in use but not allocated")]);
    }
    assert_eq!(found.stdout.matches("in use but not allocated").count(), 3, "{}", found.stdout);

    for (n, lost) in given.iter().enumerate().skip(3) {
        let id = format!("b{}", n + 1);
        let again = asking(field.on("n1").call("ADD", &id), &id, &format!(";IP={lost}")).run();
        assert_eq!(again.address().to_string(), *lost);
    }
    exits(field.cli(&check), 0);
    // All the others, and none of these, are free for newcomers.
    let fresh = field.fill("fresh", 10, "n1");
    assert!(fresh.iter().all(|address| !given.contains(address)), "{fresh:?} {given:?}");
    field.add("none", "n1").refused();
}

/// F07: with a cool-down, no address comes back at once while another is free, and none at all before its time.
#[test]
fn an_address_cools_down_before_it_is_given_again() {
    let field = Field::new();
    field.pool("p1", "10.62.3.0/30", 30);
    field.configure(&["--ip-cooldown-seconds=1200"]);
    let given = field.fill("j", 4, "n1");
    field.del("j2", "n1");
    let refusal = field.add("late", "n1").refused();
    assert_eq!(refusal.code, 101);
    let shown = field.cli(&["ipam", "show", "--ip", &given[1]]);
    shows(&exits(shown, 1), &["cooldown"]);
    field.configure(&["--ip-cooldown-seconds=0"]);
    assert_eq!(field.add("late", "n1").address().to_string(), given[1]);
}
