//! Prepared stores, and what several clients do to them at once.

mod administration;
mod blocks;
mod collections;
mod handles;
mod machines;

use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Key, Object, run_in_place};
use host_affine::ipam::{Emptiness, Ipam, PoolAsked, walk};
use host_affine::net::{Cidr, Family};

use super::act::Act;
use super::build::{Ask, any, exactly, ip, pool, put_pool, strict};

/// A prepared store, and clients that act on it one thing after the other.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) state: Memory,
    pub(crate) clients: Vec<Vec<Act>>,
    pub(crate) room: Room,
    /// Containers of which a collection knows nothing that hold addresses from the start.
    pub(crate) stale: Vec<&'static str>,
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

impl Scenario {
    /// The containers that a host has, or gets.
    pub(crate) fn containers_of(&self, host: &str) -> Vec<&str> {
        let acts = self.clients.iter().flatten();
        let asked = acts.filter_map(Act::added).filter(|ask| ask.host.name.as_str() == host);
        asked.map(|ask| ask.attachment.container_id.as_str()).chain(self.stale.iter().copied()).collect()
    }

    /// The range of a pool that it starts with.
    pub(crate) fn range_of(&self, pool: &str) -> Cidr {
        let entries = self.state.entries().filter(|entry| entry.key == Key::Pool(pool.to_owned()));
        let ranges = entries.filter_map(|entry| match entry.object {
            Object::Pool(pool) => Some(pool.spec.cidr),
            _ => None,
        });
        ranges.last().expect("a pool")
    }

    fn ruled(self) -> Self {
        Self { room: Room::Ruled, ..self }
    }

    fn scarce(self) -> Self {
        Self { room: Room::Scarce, ..self }
    }
}

pub(crate) use administration::{of_nodes, of_pools};
pub(crate) use blocks::{last_address, of_blocks};
pub(crate) use collections::of_collections;
pub(crate) use handles::of_handles;
pub(crate) use machines::of_machines;

fn scenario(name: &'static str, state: Memory, clients: &[&[Act]]) -> Scenario {
    let clients = clients.iter().map(|acts| acts.to_vec()).collect();
    Scenario { name, state, clients, room: Room::Plenty, stale: Vec::new() }
}

/// A store after some undisturbed requests.
fn after(store: Memory, acts: &[Act]) -> Memory {
    let mut ipam = Ipam::new(store);
    for act in acts {
        run_in_place(act.perform(&mut ipam)).unwrap_or_else(|refusal| panic!("{act:?}: {}", refusal.text));
    }
    ipam.into_store()
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

/// What only guards keep apart: stores that merely look at guards cannot.
pub(crate) fn of_guards() -> Vec<Scenario> {
    let own_pool = |host: &str, id: &str, range: &str, block| {
        let asked = PoolAsked { pool: pool(range, range, block), name_given: false, block_size_given: false };
        Act::Add(Ask { pools: vec![asked], ..Ask::new(host, id) })
    };
    let gateway = Ask { gateways: Some(vec![ip("10.0.0.2")]), ..Ask::new("a", "x") };
    let direct = Ask::new("b", "y").wanting([exactly("10.0.0.2")]);
    let in_use = after(with_pool("10.0.0.0/28", 30), &[add("a", "1")]);
    let mut all = vec![
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
    all.extend(administration::of_pools_and_new_blocks());
    all.into_iter().map(Scenario::ruled).collect()
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
            acts.push(match pick(16) {
                0 => Act::Gc { host, keep: Vec::new() },
                1 => Act::GiveUp { host, required: [Emptiness::Required, Emptiness::NotRequired][pick(2)] },
                2..=5 => Act::Del(ask),
                _ => Act::Add(ask),
            });
        }
        clients.push(acts);
    }
    Scenario { name: "many clients", state, clients, room: Room::Ruled, stale: Vec::new() }
}
