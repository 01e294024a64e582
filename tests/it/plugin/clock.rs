//! A clock that is set back, by seconds and by decades, between calls: nothing is given twice, nothing is lost, and no
//! number comes again. The calls are whole ones, with everything but the time as the machine has it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;

use host_affine::clock::{Clock, Timestamp};
use host_affine::cni::run::{World, run};
use host_affine::datastore::file::{Access, IfAbsent};
use host_affine::netlink::Rtnetlink;
use host_affine::workload::NoWorkloads;
use serde_json::{Value, json};

use crate::support::cni::Network;
use crate::support::store::{Lab, View, open};

/// A clock that goes where it is set.
struct Set(Cell<u64>);

impl Clock for Set {
    fn now(&self) -> Timestamp {
        self.0.set(self.0.get() + 1_000);
        Timestamp::from_nanos(self.0.get())
    }
}

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_790_000_000 * SECOND;

struct Bed {
    lab: Lab,
    network: Network,
    clock: Set,
}

impl Bed {
    fn new(pools: &Value) -> Self {
        let lab = Lab::in_memory();
        let network = Network::new("pods", &lab.store(), pools).unflushed();
        Self { lab, network, clock: Set(Cell::new(START)) }
    }

    /// A call; the addresses that it prints.
    fn call(&self, verb: &str, container: &str) -> Vec<IpAddr> {
        let variables = BTreeMap::from([
            ("CNI_COMMAND", verb),
            ("CNI_CONTAINERID", container),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", "/run/netns/none"),
            ("CNI_PATH", "/nonexistent"),
        ]);
        let world = World {
            variables: &|name| variables.get(name).map(OsString::from),
            called_as: "host-affine",
            clock: &self.clock,
            links: &Rtnetlink,
            workloads: &NoWorkloads,
        };
        let mut printed = Vec::new();
        let served = run(&world, &mut self.network.conf.to_string().as_bytes(), &mut printed);
        let text = String::from_utf8(printed).expect("text");
        assert_eq!(served, Some(true), "{verb} {container}: {text}");
        let result: Value =
            if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") };
        let ips = result["ips"].as_array().cloned().unwrap_or_default();
        let address = |ip: &Value| ip["address"].as_str()?.split_once('/')?.0.parse().ok();
        ips.iter().filter_map(address).collect()
    }

    fn set_to(&self, nanos: u64) {
        self.clock.0.set(nanos);
    }

    fn write_out(&self) {
        let mut store = open(&self.lab.store(), Access::Change, IfAbsent::None).expect("it is there");
        store.write_out().expect("written out");
    }

    /// The number of every block.
    fn numbers(&self) -> Vec<u64> {
        let view = View::of(&self.lab.store()).sound();
        view.blocks.iter().map(|block| block.sequence_number).collect()
    }
}

/// Where the clock goes: a little, a lot, to before it began, and far ahead and home again.
const JUMPS: [u64; 8] = [
    START - SECOND,
    START + 3_600 * SECOND,
    START - 30 * 365 * 86_400 * SECOND,
    0,
    START,
    START + 100 * 365 * 86_400 * SECOND,
    START - 1,
    1,
];

#[test]
fn blocks_that_come_and_go_under_a_jumping_clock_never_repeat_a_number() {
    let bed = Bed::new(&json!([{ "cidr": "10.214.0.0/28", "blockSize": 30 }]));
    let mut highest = 0;
    for (round, jump) in JUMPS.into_iter().cycle().take(24).enumerate() {
        bed.set_to(jump);
        // Enough for several blocks, all of which are given back but one.
        let given: Vec<IpAddr> = (0..6).flat_map(|n| bed.call("ADD", &format!("r{round}-{n}"))).collect();
        let view = View::of(&bed.lab.store()).sound();
        assert_eq!(view.held.keys().count(), given.len(), "{given:?}");
        let numbers = bed.numbers();
        let lowest = *numbers.iter().min().expect("blocks");
        if round % 3 == 0 {
            bed.write_out();
        }
        for n in 0..6 {
            assert_eq!(bed.call("ADD", &format!("r{round}-{n}")), [given[n]], "asked again");
            bed.call("DEL", &format!("r{round}-{n}"));
        }
        let view = View::of(&bed.lab.store()).sound();
        assert_eq!((view.held.len(), view.handles), (0, 0));
        if round % 2 == 0 {
            bed.write_out();
        }
        assert!(round == 0 || lowest > highest || view.blocks.len() <= 1, "{lowest} after {highest}");
        highest = highest.max(*bed.numbers().iter().max().expect("one is kept"));
    }
}

#[test]
fn what_is_held_stays_held_whatever_the_clock_says() {
    let bed = Bed::new(&json!([{ "cidr": "10.214.1.0/26", "blockSize": 29 }]));
    let mut held = BTreeMap::new();
    for (round, jump) in JUMPS.into_iter().cycle().take(16).enumerate() {
        bed.set_to(jump);
        let container = format!("c{round}");
        held.insert(container.clone(), bed.call("ADD", &container));
        if round % 4 == 3 {
            let gone = format!("c{}", round - 2);
            bed.call("DEL", &gone);
            held.remove(&gone);
            bed.write_out();
        }
        let view = View::of(&bed.lab.store()).sound();
        assert_eq!(view.held.len(), held.len());
        for (container, given) in &held {
            assert_eq!(view.of_container(container), *given);
        }
    }
}
