//! Prepared stores, and what several clients do to them at once.

use host_affine::datastore::memory::Memory;
use host_affine::datastore::run_in_place;
use host_affine::ipam::{Ipam, PoolAsked, walk};
use host_affine::net::Family;

use super::build::{Ask, any, exactly, ip, pool, put_pool, strict};

/// What a client does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Asks for addresses.
    Add(Ask),
    /// Ends an attachment.
    Del(Ask),
}

/// A prepared store, and clients that act on it one thing after the other.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) state: Memory,
    pub(crate) clients: Vec<Vec<Act>>,
    pub(crate) room: Room,
}

/// What may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Nothing; a newcomer gets an address too.
    Plenty,
    /// What finds every address taken.
    Scarce,
    /// Anything: rules besides the number of addresses count.
    Ruled,
}

fn scenario(name: &'static str, state: Memory, clients: &[&[Act]]) -> Scenario {
    Scenario { name, state, clients: clients.iter().map(|acts| acts.to_vec()).collect(), room: Room::Plenty }
}

/// A store after some undisturbed requests.
fn after(mut store: Memory, acts: &[Act]) -> Memory {
    for act in acts {
        let mut ipam = Ipam::new(store);
        match act {
            Act::Add(ask) => drop(run_in_place(ask.of(&mut ipam)).expect("room")),
            Act::Del(ask) => drop(run_in_place(ask.end(&mut ipam)).expect("released")),
        }
        store = ipam.into_store();
    }
    store
}

fn with_pool(range: &str, block: u8) -> Memory {
    let mut store = Memory::new();
    put_pool(&mut store, pool("p", range, block));
    store
}

fn add(host: &str, id: &str) -> Act {
    Act::Add(Ask::new(host, id))
}

fn del(host: &str, id: &str) -> Act {
    Act::Del(Ask::new(host, id))
}

/// A host that begins at the same block as another, in a pool of that many blocks.
fn rival(of: &str, blocks: u128) -> String {
    let begins_there = |name: &String| name != of && walk::start(name, blocks) == walk::start(of, blocks);
    ('a'..='z').map(String::from).find(begins_there).expect("26 hosts at few blocks")
}

/// Two clients; small enough for every order.
pub(crate) fn of_two() -> Vec<Scenario> {
    let mut all = one_handle();
    all.extend([
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
    ]);
    all.extend(last_address());
    all.extend(blocks_that_change_hands());
    all
}

fn last_address() -> Vec<Scenario> {
    let full_but_one = after(with_pool("10.0.0.0/30", 30), &[add("a", "1"), add("a", "2"), add("a", "3")]);
    let mut strict_rivals = with_pool("10.0.0.0/28", 30);
    strict(&mut strict_rivals);
    vec![
        Scenario {
            room: Room::Scarce,
            ..scenario(
                "one address is left, in a block of one of both",
                full_but_one.clone(),
                &[&[add("a", "x")], &[add("b", "y")]],
            )
        },
        Scenario {
            room: Room::Scarce,
            ..scenario(
                "one address is left for two containers of its host",
                full_but_one.clone(),
                &[&[add("a", "x")], &[add("a", "y")]],
            )
        },
        Scenario {
            room: Room::Scarce,
            ..scenario(
                "an address is freed while two other hosts' containers look for one",
                full_but_one,
                &[&[add("b", "x"), add("b", "y")], &[del("a", "2")]],
            )
        },
        scenario(
            "two strict hosts begin at the same block",
            strict_rivals,
            &[&[add("a", "x")], &[add(&rival("a", 4), "y")]],
        ),
    ]
}

fn one_handle() -> Vec<Scenario> {
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
    ]
}

fn blocks_that_change_hands() -> Vec<Scenario> {
    // `a` has two blocks, the second with one address of `x`.
    let filled = [add("a", "1"), add("a", "2"), add("a", "3"), add("a", "4"), add("a", "x")];
    let second_block = after(with_pool("10.0.0.0/29", 30), &filled);
    let mut only_one = with_pool("10.0.0.0/30", 30);
    strict(&mut only_one);
    let emptied = after(only_one, &[add("b", "1"), del("b", "1")]);
    let mut dual = with_pool("10.0.0.0/28", 30);
    put_pool(&mut dual, pool("p6", "fd00::/127", 127));
    let dual = after(dual, &[Act::Add(Ask::new("c", "1").dual())]);
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
        Scenario {
            room: Room::Ruled,
            ..scenario(
                "an empty block is taken over while its owner comes back",
                emptied,
                &[&[late("a", "x")], &[late("b", "y")]],
            )
        },
        Scenario {
            room: Room::Scarce,
            ..scenario(
                "two containers want the last address of the second family",
                dual,
                &[&[Act::Add(Ask::new("a", "x").dual())], &[Act::Add(Ask::new("b", "y").dual())]],
            )
        },
    ]
}

/// What only guards keep apart: stores that merely look at guards cannot.
pub(crate) fn of_guards() -> Vec<Scenario> {
    let own_pool = |host: &str, id: &str, range: &str, block| {
        let asked = PoolAsked { pool: pool(range, range, block), name_given: false, block_size_given: false };
        Act::Add(Ask { pools: vec![asked], ..Ask::new(host, id) })
    };
    let gateway = Ask { gateways: Some(vec![ip("10.0.0.2")]), ..Ask::new("a", "x") };
    let direct = Ask::new("b", "y").wanting([exactly("10.0.0.2")]);
    let in_use = after(with_pool("10.0.0.0/28", 30), &[add("a", "1")]);
    let all = [
        scenario(
            "two networks bring pools that overlap",
            Memory::new(),
            &[&[own_pool("a", "x", "10.0.0.0/29", 29)], &[own_pool("b", "y", "10.0.0.4/30", 30)]],
        ),
        scenario(
            "a gateway is kept back while a container asks for it",
            in_use,
            &[&[Act::Add(gateway.clone())], &[Act::Add(direct.clone())]],
        ),
        scenario(
            "a gateway is kept back in a new block",
            with_pool("10.0.0.0/28", 30),
            &[&[Act::Add(gateway)], &[Act::Add(direct)]],
        ),
    ];
    all.map(|scenario| Scenario { room: Room::Ruled, ..scenario }).into()
}

/// Many clients on few addresses, as a seed decides.
pub(crate) fn of_many(pick: &mut impl FnMut(usize) -> usize) -> Scenario {
    let mut state = with_pool("10.0.0.0/27", 30);
    put_pool(&mut state, pool("p6", "fd00::/125", 127));
    if pick(3) == 0 {
        strict(&mut state);
    }
    let mut clients = Vec::new();
    for _ in 0..3 + pick(4) {
        let host = ["a", "b", "c"][pick(3)];
        let mut acts = Vec::new();
        for turn in (0..4).take(1 + pick(4)) {
            // Few names, so that clients of one host meet at one container.
            let ask = Ask::new(host, &format!("{host}{}", pick(4))).after(70 * turn);
            let ask = match pick(4) {
                0 => ask.dual(),
                1 => ask.on("eth1"),
                2 => ask.wanting([any(Family::V6)]),
                _ => ask,
            };
            acts.push(if pick(3) == 0 { Act::Del(ask) } else { Act::Add(ask) });
        }
        clients.push(acts);
    }
    Scenario { name: "many clients", state, clients, room: Room::Ruled }
}
