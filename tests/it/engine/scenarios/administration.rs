//! Nodes and pools that go, and blocks that are given up, while containers start.

use host_affine::datastore::memory::Memory;
use host_affine::ipam::{Emptiness, Force};

use super::super::act::Act;
use super::super::build::{Ask, exactly, pool, put_node, put_pool};
use super::{Scenario, add, after, del, scenario, with_pool};

/// A host goes while it is at work.
pub(crate) fn of_nodes() -> Vec<Scenario> {
    let empty = || with_pool("10.0.0.0/28", 30);
    let with_one = || after(empty(), &[add("a", "1")]);
    let idle = || after(empty(), &[add("a", "1"), del("a", "1")]);
    let give_up = |required| Act::GiveUp { host: "a", required };
    let mut node = with_one();
    put_node(&mut node, "a", &[]);
    let first = |state: &Memory| {
        let blocks = state.entries().filter_map(|entry| match entry.key {
            host_affine::datastore::Key::Block(cidr) => Some(cidr),
            _ => None,
        });
        blocks.last().expect("a block")
    };
    let one_block = |required| Act::GiveUpBlock { block: first(&with_one()), required };
    vec![
        scenario(
            "a node is deleted while a container starts on it",
            node,
            &[&[add("a", "x")], &[Act::RemoveNode { host: "a" }]],
        ),
        scenario(
            "a host's blocks are given up while it claims its first",
            empty(),
            &[&[add("a", "x")], &[give_up(Emptiness::NotRequired)]],
        ),
        scenario(
            "a host's blocks are given up while it assigns from one",
            with_one(),
            &[&[add("a", "x")], &[give_up(Emptiness::NotRequired)]],
        ),
        scenario(
            "a host's blocks are given up while the last address of one is freed",
            with_one(),
            &[&[del("a", "1")], &[give_up(Emptiness::NotRequired)]],
        ),
        scenario(
            "a host's empty block is given up while it assigns from it",
            idle(),
            &[&[add("a", "x")], &[give_up(Emptiness::Required)]],
        ),
        scenario(
            "a host's empty block is given up while another borrows from it",
            after(with_pool("10.0.0.0/30", 30), &[add("a", "1"), del("a", "1")]),
            &[&[add("b", "x")], &[give_up(Emptiness::NotRequired)]],
        ),
        scenario(
            "a block is given up that another gives up with all of its host",
            with_one(),
            &[&[one_block(Emptiness::NotRequired)], &[give_up(Emptiness::NotRequired)]],
        ),
        scenario(
            "a block is given up if it is empty while its last container ends",
            with_one(),
            &[&[one_block(Emptiness::Required)], &[del("a", "1")]],
        ),
    ]
}

/// A pool goes while its blocks are used.
pub(crate) fn of_pools() -> Vec<Scenario> {
    let idle = after(two_pools(), &[add("a", "1"), del("a", "1")]);
    let in_use = after(two_pools(), &[add("a", "1")]);
    let all = [
        scenario(
            "a pool is deleted while its last container ends",
            in_use.clone(),
            &[&[del("a", "1")], &[remove(Force::No)]],
        ),
        scenario(
            "a pool is deleted by force while its last container ends",
            in_use,
            &[&[del("a", "1")], &[remove(Force::Yes)]],
        ),
        scenario("a pool is deleted twice", idle, &[&[remove(Force::No)], &[remove(Force::No)]]),
    ];
    all.map(Scenario::ruled).into()
}

/// A pool goes while a block of it is made, or may be.
pub(super) fn of_pools_and_new_blocks() -> [Scenario; 5] {
    let direct = || Act::Add(Ask::new("b", "y").wanting([exactly("10.0.0.1")]));
    let idle = after(two_pools(), &[add("a", "1"), del("a", "1")]);
    let in_use = after(two_pools(), &[add("a", "1")]);
    [
        scenario(
            "a pool is deleted while a host claims its first block there",
            two_pools(),
            &[&[add("a", "x")], &[remove(Force::No)]],
        ),
        scenario(
            "a pool is deleted while its empty block is used again",
            idle.clone(),
            &[&[add("a", "x")], &[remove(Force::No)]],
        ),
        scenario(
            "a pool is deleted while an address of it is asked for",
            idle,
            &[&[direct()], &[remove(Force::No)]],
        ),
        scenario(
            "a pool is deleted by force while another container starts",
            in_use.clone(),
            &[&[add("a", "x")], &[remove(Force::Yes)]],
        ),
        scenario(
            "a pool is deleted by force while an address of it is asked for",
            in_use,
            &[&[direct()], &[remove(Force::Yes)]],
        ),
    ]
}

/// Another pool is left, so that hosts can claim afterwards.
fn two_pools() -> Memory {
    let mut state = with_pool("10.0.0.0/29", 30);
    put_pool(&mut state, pool("q", "10.0.1.0/29", 30));
    state
}

fn remove(force: Force) -> Act {
    Act::RemovePool { name: "p", force }
}
