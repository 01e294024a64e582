//! Blocks that change hands, and their last addresses.

use super::super::act::Act;
use super::super::build::{Ask, exactly, pool, put_node, put_pool, strict};
use super::{Scenario, add, after, del, rival, scenario, with_pool};

/// The last address, and who gets it.
pub(crate) fn last_address() -> Vec<Scenario> {
    let full_but_one = after(with_pool("10.0.0.0/30", 30), &[add("a", "1"), add("a", "2"), add("a", "3")]);
    let mut strict_rivals = with_pool("10.0.0.0/28", 30);
    strict(&mut strict_rivals);
    vec![
        scenario(
            "one address is left, in a block of one of both",
            full_but_one.clone(),
            &[&[add("a", "x")], &[add("b", "y")]],
        )
        .scarce(),
        scenario(
            "one address is left for two containers of its host",
            full_but_one.clone(),
            &[&[add("a", "x")], &[add("a", "y")]],
        )
        .scarce(),
        scenario(
            "an address is freed while two other hosts' containers look for one",
            full_but_one,
            &[&[add("b", "x"), add("b", "y")], &[del("a", "2")]],
        )
        .scarce(),
        scenario(
            "two strict hosts begin at the same block",
            strict_rivals,
            &[&[add("a", "x")], &[add(&rival("a", 4), "y")]],
        ),
        scenario(
            "one container wants the last address by name, another any",
            after(with_pool("10.0.0.0/30", 30), &[add("a", "1"), add("a", "2"), add("a", "3")]),
            &[&[Act::Add(Ask::new("b", "x").wanting([exactly("10.0.0.3")]))], &[add("a", "y")]],
        )
        .scarce(),
        scenario(
            "two containers want the same address, which no block has",
            with_pool("10.0.0.0/28", 30),
            &[
                &[Act::Add(Ask::new("a", "x").wanting([exactly("10.0.0.6")]))],
                &[Act::Add(Ask::new("b", "y").wanting([exactly("10.0.0.6")]))],
            ],
        )
        .ruled(),
        scenario(
            "an address is wanted by name where another host claims its first block",
            with_pool("10.0.0.0/30", 30),
            &[&[Act::Add(Ask::new("a", "x").wanting([exactly("10.0.0.0")]))], &[add("b", "y")]],
        )
        .ruled(),
    ]
}

/// Blocks that are given back, taken over or wanted by two.
pub(crate) fn of_blocks() -> Vec<Scenario> {
    // `a` has two blocks, the second with one address of `x`.
    let filled = [add("a", "1"), add("a", "2"), add("a", "3"), add("a", "4"), add("a", "x")];
    let second_block = after(with_pool("10.0.0.0/29", 30), &filled);
    let mut only_one = with_pool("10.0.0.0/30", 30);
    strict(&mut only_one);
    let emptied = after(only_one, &[add("b", "1"), del("b", "1")]);
    let mut dual = with_pool("10.0.0.0/28", 30);
    put_pool(&mut dual, pool("p6", "fd00::/127", 127));
    let dual = after(dual, &[Act::Add(Ask::new("c", "1").dual())]);
    let mut strict_and_full = after(with_pool("10.0.0.0/29", 30), &filled);
    strict(&mut strict_and_full);
    let mut emptied_by_another = with_pool("10.0.0.0/30", 30);
    strict(&mut emptied_by_another);
    let emptied_by_another = after(emptied_by_another, &[add("c", "1"), del("c", "1")]);
    let mut left_pool = after(with_pool("10.0.0.0/29", 30), &[add("a", "1"), del("a", "1")]);
    let mut elsewhere = pool("p", "10.0.0.0/29", 30);
    elsewhere.spec.node_selector = Some("zone == 'x'".into());
    put_pool(&mut left_pool, elsewhere);
    put_pool(&mut left_pool, pool("q", "10.0.1.0/29", 30));
    put_node(&mut left_pool, "b", &[("zone", "x")]);
    let late = |host: &str, id: &str| Act::Add(Ask::new(host, id).after(3600));
    vec![
        scenario(
            "a block is given back while its host assigns",
            second_block.clone(),
            &[&[add("a", "y")], &[del("a", "x")]],
        ),
        scenario(
            "a block is given back while another host borrows",
            second_block,
            &[&[add("b", "y")], &[del("a", "x")]],
        ),
        scenario(
            "an empty block is taken over while its owner comes back",
            emptied,
            &[&[late("a", "x")], &[late("b", "y")]],
        )
        .ruled(),
        scenario(
            "two containers want the last address of the second family",
            dual,
            &[&[Act::Add(Ask::new("a", "x").dual())], &[Act::Add(Ask::new("b", "y").dual())]],
        )
        .scarce(),
        scenario(
            "a block is given back while another host looks for one to claim",
            strict_and_full,
            &[&[add("b", "y")], &[del("a", "x")]],
        )
        .ruled(),
        scenario(
            "two hosts take over the block that a third has left",
            emptied_by_another,
            &[&[late("a", "x")], &[late("b", "y")]],
        )
        .ruled(),
        scenario(
            "two hosts meet an empty store",
            with_pool("10.0.0.0/28", 30),
            &[&[add("a", "x")], &[add("b", "y")]],
        ),
        scenario(
            "two containers start on a host without blocks",
            with_pool("10.0.0.0/28", 30),
            &[&[add("a", "x")], &[add("a", "y")]],
        ),
        scenario(
            "a host leaves a pool that no longer selects it while another borrows there",
            left_pool,
            &[&[add("a", "x")], &[add("b", "y")]],
        ),
    ]
}
