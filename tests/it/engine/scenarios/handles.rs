//! One handle, on which several act.

use super::super::act::Act;
use super::super::build::Ask;
use super::{Scenario, add, after, del, scenario, with_pool};

/// Who starts while who ends, under one handle.
pub(crate) fn of_handles() -> Vec<Scenario> {
    let second = |host: &str, id: &str| Ask::new(host, id).on("eth1");
    let held = after(with_pool("10.0.0.0/28", 30), &[add("a", "x")]);
    let one_block = after(with_pool("10.0.0.0/28", 30), &[add("a", "1")]);
    let full =
        after(with_pool("10.0.0.0/28", 30), &[add("a", "x"), add("a", "1"), add("a", "2"), add("a", "3")]);
    vec![
        scenario(
            "a container ends before its start is done",
            with_pool("10.0.0.0/28", 30),
            &[&[add("a", "x")], &[del("a", "x")]],
        ),
        scenario(
            "a container ends before its start is done, in a block that exists",
            one_block.clone(),
            &[&[add("a", "x")], &[del("a", "x")]],
        ),
        scenario(
            "a start that is repeated meets the end of the container",
            held.clone(),
            &[&[add("a", "x")], &[del("a", "x")]],
        ),
        scenario(
            "one interface of a container starts while another ends",
            held.clone(),
            &[&[Act::Add(second("a", "x"))], &[del("a", "x")]],
        ),
        scenario(
            "one interface starts in a new block while another ends",
            full,
            &[&[Act::Add(second("a", "x"))], &[del("a", "x")]],
        ),
        scenario(
            "two interfaces of a container start",
            one_block.clone(),
            &[&[add("a", "x")], &[Act::Add(second("a", "x"))]],
        ),
        scenario(
            "a start is repeated after whatever answer",
            one_block,
            &[&[add("a", "x"), add("a", "x")], &[add("a", "y")]],
        ),
        scenario(
            "one handle gets addresses on two hosts",
            with_pool("10.0.0.0/28", 30),
            &[&[add("a", "x")], &[Act::Add(second("b", "x"))]],
        ),
        scenario(
            "one handle gets an address on another host while it gives up its own",
            held.clone(),
            &[&[del("a", "x")], &[Act::Add(second("b", "x"))]],
        ),
        scenario(
            "both addresses of one handle are given up, each on its host",
            after(held.clone(), &[Act::Add(second("b", "x"))]),
            &[&[del("a", "x")], &[Act::Del(second("b", "x"))]],
        ),
        scenario("a container ends twice", held, &[&[del("a", "x")], &[del("a", "x"), add("a", "y")]]),
    ]
}
