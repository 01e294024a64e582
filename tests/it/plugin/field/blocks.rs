//! Blocks: limits, hosts that are gone, and what a refusal says.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::json;

use super::{Field, exits, shows};

/// F10: the ownership of blocks ends with the host.
#[test]
fn the_empty_block_of_a_host_that_is_gone_serves_another_and_what_it_left_is_named() {
    let field = Field::new();
    field.configure(&["--strictaffinity=true"]);
    field.pool("p1", "10.64.0.0/29", 30);
    for node in ["n1", "n2", "n3"] {
        field.node(node, &json!({}));
    }
    let block: IpAddr = field.add("a1", "n1").address();
    field.add("b1", "n2").succeeded();
    field.del("a1", "n1");
    field.cli(&["delete", "node", "n1", "--yes"]).succeeded();
    let given = field.add("c1", "n3").address();
    let view = field.view();
    assert_eq!((view.blocks_of("n1"), view.blocks_of("n3")), (0, 1));
    assert!(view.blocks.iter().any(|b| b.cidr.contains_address(block) && b.cidr.contains_address(given)));
    // A host that leaves addresses behind.
    field.cli(&["delete", "node", "n2", "--yes"]).succeeded();
    let alive = field.inventory(&json!([{ "containerID": "c1" }]));
    let found = exits(field.cli(&["ipam", "check", "--show-problem-ips", "--inventory", &alive]), 1);
    shows(&found, &["n2: 1 address", "fieldnet.b1"]);
    // A host that nobody deleted, and of which there never was a record, is seen as well.
    let field = Field::new();
    field.pool("p1", "10.64.0.0/29", 30);
    field.node("n2", &json!({}));
    field.add("a1", "n1").succeeded();
    let found = field.cli(&["ipam", "check"]);
    shows(&found, &["n1: 1 address, 1 block; there is no Node of that name"]);
}

/// F12: a limit binds new blocks only, and says so.
#[test]
fn a_limit_that_is_reached_is_named_raised_and_lowered_again_without_revoking_anything() {
    let field = Field::new();
    field.configure(&["--strictaffinity=true", "--max-blocks-per-host=1"]);
    field.pool("p1", "10.64.2.0/27", 30);
    field.fill("m", 4, "n1");
    let refusal = field.add("m5", "n1").refused();
    assert_eq!(refusal.code, 103);
    refusal.says(&["maxBlocksPerHost", "1", "n1"]);
    field.del("m2", "n1");
    field.add("m6", "n1").succeeded();
    assert_eq!(field.view().blocks_of("n1"), 1);
    field.configure(&["--max-blocks-per-host=2"]);
    field.add("m7", "n1").succeeded();
    assert_eq!(field.view().blocks_of("n1"), 2);
    field.configure(&["--max-blocks-per-host=1"]);
    for id in ["m8", "m9", "m10"] {
        field.add(id, "n1").succeeded();
    }
    assert_eq!(field.view().blocks_of("n1"), 2);
    assert_eq!(field.add("m11", "n1").refused().code, 103);
    shows(&field.cli(&["ipam", "show", "--show-configuration"]), &["MaxBlocksPerHost             | 1 "]);
    field.del("m7", "n1");
    field.add("m12", "n1").succeeded();
}

/// F14, all in one store, whose pools come one after the other.
#[test]
fn each_cause_of_a_refusal_has_a_code_and_names_what_would_have_to_change() {
    let field = Field::new();
    let mut seen = Vec::new();
    let mut refused = |id: &str, node: &str, words: &[&str]| {
        let refusal = field.add(id, node).refused();
        refusal.says(words);
        refusal.says(&[node]);
        seen.push((refusal.code, format!("{}\n{}", refusal.msg, refusal.details)));
    };
    refused("q1", "n1", &["no pool"]);
    field
        .apply("IPPool", "a", &json!({ "cidr": "10.65.0.0/30", "blockSize": 30, "disabled": true }))
        .succeeded();
    refused("q2", "n1", &["10.65.0.0/30", "disabled"]);
    let selecting = json!({ "cidr": "10.65.0.4/30", "blockSize": 30, "nodeSelector": "zone == 'x'" });
    field.apply("IPPool", "b", &selecting).succeeded();
    field.node("n1", &json!({ "zone": "y" }));
    refused("q3", "n1", &["10.65.0.4/30", "zone == 'x'"]);
    field.pool("c", "10.65.0.8/30", 30);
    field.fill("w", 4, "n1");
    refused("q4", "n1", &["10.65.0.8/30"]);
    field.del("w1", "n1");
    field.configure(&["--strictaffinity=true"]);
    refused("q5", "n2", &["strict", "n1 (1)"]);
    field.add("w5", "n1").succeeded();
    field.pool("d", "10.65.0.16/28", 30);
    field.configure(&["--max-blocks-per-host=1"]);
    refused("q6", "n1", &["maxBlocksPerHost", "1"]);
    let codes: Vec<u64> = seen.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [104, 105, 106, 101, 102, 103]);
    assert_eq!(seen.iter().map(|(_, text)| text).collect::<BTreeSet<_>>().len(), 6);
    assert_eq!(field.count().0, 4);
}

/// F15. What it costs is counted in `plugin::counts`: not a file more for each block that others have.
#[test]
fn a_pool_that_comes_when_hundreds_of_blocks_are_taken_serves_the_next_call() {
    let field = Field::new();
    field.pool("one", "10.65.64.0/24", 30);
    for n in 0..64 {
        field.add(&format!("z{n}"), &format!("n{n}")).succeeded();
    }
    field.pool("two", "10.65.96.0/22", 30);
    let given = field.add("new", "new").address().to_string();
    assert!(given.starts_with("10.65.9"), "{given}");
    assert_eq!(field.view().blocks_of("new"), 1);
}
