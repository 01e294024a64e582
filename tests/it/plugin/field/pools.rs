//! Pools that are disabled, deleted, and cut anew.

use std::net::IpAddr;

use serde_json::json;

use super::{Field, exits};
use crate::support::cni::all_different;

fn is_in(address: IpAddr, cidr: &str) -> bool {
    cidr.parse::<host_affine::net::Cidr>().expect(cidr).contains_address(address)
}

/// F17: whether a pool gives is asked at each ADD, and not when a block is claimed.
#[test]
fn a_disabled_pool_gives_nothing_more_though_a_host_has_room_in_a_block_of_it() {
    let field = Field::new();
    field.pool("old", "10.66.0.0/28", 28);
    field.add("e1", "n1").succeeded();
    field.pool("new", "10.66.0.16/28", 28);
    field.cli(&["patch", "ippool", "old", "-p", r#"{"spec":{"disabled":true}}"#]).succeeded();
    assert!(is_in(field.add("e2", "n1").address(), "10.66.0.16/28"));
    field.del("e1", "n1");
    assert!(is_in(field.add("e3", "n1").address(), "10.66.0.16/28"));
    let view = field.view();
    assert_eq!(
        (view.blocks_of("n1"), view.blocks.len()),
        (1, 1),
        "the empty block went with its last address"
    );
    // Its sibling: an address of a disabled pool, asked for by name or number.
    let asked = field.on("n1").with("ipv4_pools", json!(["old"])).add("e4").refused();
    assert_eq!(asked.code, 105);
}

/// F18.
#[test]
fn a_pool_goes_by_force_only_while_it_holds_addresses_and_takes_its_blocks_along_in_the_end() {
    let field = Field::new();
    field.pool("gone", "10.66.1.0/28", 28);
    field.add("u1", "n1").succeeded();
    let refused = exits(field.cli(&["delete", "ippool", "gone", "--yes"]), 2);
    assert!(refused.stderr.contains("it holds 1 address in 1 block"), "{refused:?}");
    field.pool("next", "10.66.1.16/28", 28);
    field.cli(&["delete", "ippool", "gone", "--force", "--yes"]).succeeded();
    assert!(is_in(field.add("u2", "n1").address(), "10.66.1.16/28"));
    // The pod goes on, and its runtime may ask again.
    assert!(is_in(field.add("u1", "n1").address(), "10.66.1.0/28"));
    field.del("u1", "n1");
    let view = field.view();
    assert_eq!((view.blocks.len(), view.blocks_of("n1")), (1, 1));
    exits(field.cli(&["ipam", "check"]), 0);
    // Without force, once nothing is in use, though the host still has the block.
    field.del("u2", "n1");
    assert_eq!(field.view().blocks_of("n1"), 1);
    field.cli(&["delete", "ippool", "next", "--yes"]).succeeded();
    assert_eq!(field.view().blocks.len(), 0);
}

/// F19. Refusing a second pool over blocks that exist would be right as well; going around them serves at once, and
/// gives up nothing: a slot of the new size is used when it overlaps no block, whatever size that has.
#[test]
fn blocks_of_a_new_size_go_around_the_old_ones() {
    let field = Field::new();
    field.pool("p1", "10.66.2.0/25", 29);
    let old: Vec<IpAddr> = (1..=4).map(|n| field.add(&format!("v{n}"), &format!("n{n}")).address()).collect();
    let in_place = field.apply("IPPool", "p1", &json!({ "cidr": "10.66.2.0/25", "blockSize": 27 }));
    assert!(exits(in_place, 2).stderr.contains("blockSize"));
    exits(field.cli(&["delete", "ippool", "p1", "--yes"]), 2);
    field.cli(&["delete", "ippool", "p1", "--force", "--yes"]).succeeded();
    let again = field.apply("IPPool", "p1", &json!({ "cidr": "10.66.2.0/25", "blockSize": 27 }));
    let mut given = old.clone();
    if again.is_success() {
        for n in 0..60 {
            let answer = field.add(&format!("w{n}"), &format!("m{}", n % 3));
            if answer.is_success() {
                given.push(answer.address());
            } else {
                assert_eq!(answer.refused().code, 101);
            }
        }
    } else {
        assert!(again.stderr.contains("10.66.2."), "the blocks in the way are listed: {}", again.stderr);
    }
    all_different(given);
    for n in 1..=4 {
        field.del(&format!("v{n}"), &format!("n{n}"));
    }
    field.view();
}
