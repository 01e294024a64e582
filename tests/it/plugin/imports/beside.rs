//! host-local and the plugin serve one network at the same time, from the same ranges.
//!
//! ```sh
//! HOST_AFFINE_IMPORT_RECORDS=20000 cargo test --test it beside_host_local
//! ```
//!
//! does so with 20,000 records; without it there are a few hundred.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use serde_json::{Value, json};

use super::super::host_local::{host_local, network, records};
use super::Site;
use crate::support::cni::{Network, skip};

/// Calls of each caller.
const ROUNDS: usize = 24;
/// Begin of the names of host-local's containers.
const THEIRS: &str = "theirs";

/// Two configurations of one network name.
struct Scale {
    records: usize,
    ranges: [Value; 2],
    first: [u32; 2],
}

impl Scale {
    fn chosen() -> Self {
        let records = std::env::var("HOST_AFFINE_IMPORT_RECORDS").ok().filter(|text| !text.is_empty());
        let bases = [0x0ad6_0000_u32, 0x0ad7_0000];
        let (records, prefix) = match records {
            Some(text) => (text.parse().expect("HOST_AFFINE_IMPORT_RECORDS is a number"), 16),
            None => (240, 24),
        };
        let range =
            |base: u32| json!([[{ "subnet": format!("{}/{prefix}", IpAddr::from(base.to_be_bytes())) }]]);
        Self { records, ranges: bases.map(range), first: bases.map(|base| base + 2) }
    }
}

/// Live addresses, and who has them. An address is entered after its ADD and removed before its DEL.
type Live = Mutex<BTreeMap<IpAddr, String>>;

/// Adds and deletes: at most a few containers live at once.
fn serve(program: Option<&Path>, networks: &[Network; 2], stem: &str, live: &Live) {
    let call = |verb: &str, round: usize| {
        let call = networks[round % 2].call(verb, &format!("{stem}{round}"));
        program.map_or(call.clone(), |program| call.program(program)).run()
    };
    for round in 0..ROUNDS {
        for given in call("ADD", round).addresses() {
            let before = live.lock().expect("no panic").insert(given, format!("{stem}{round}"));
            assert_eq!(before, None, "{given} was given twice, now to {stem}{round}");
        }
        if let Some(old) = round.checked_sub(5).filter(|old| old % 3 != 0) {
            let id = format!("{stem}{old}");
            live.lock().expect("no panic").retain(|_, holder| *holder != id);
            call("DEL", old).succeeded();
        }
    }
}

#[test]
fn beside_host_local_no_address_is_given_twice() {
    let Some(program) = host_local() else { return skip("host-local is not installed") };
    let scale = Scale::chosen();
    let site = Site::new();
    let mut before = BTreeMap::new();
    for number in 0..scale.records {
        let offset = u32::try_from(number / 2).expect("few");
        let address = IpAddr::from((scale.first[number % 2] + offset).to_be_bytes());
        site.lease(&address.to_string(), &format!("old{number}"));
        before.insert(address, format!("old{number}"));
    }
    let live: Live = Mutex::new(before.clone());
    let ours = [0, 1].map(|number| site.network(&scale.ranges[number]));
    let theirs = [0, 1].map(|number| network("host-local", "old", &site.directory(), &scale.ranges[number]));
    thread::scope(|scope| {
        scope.spawn(|| serve(Some(&program), &theirs, THEIRS, &live));
        for stem in ["a", "b"] {
            let (ours, live) = (&ours, &live);
            scope.spawn(move || serve(None, ours, stem, live));
        }
    });
    for network in &ours {
        network.add("last").succeeded();
        network.del("last").succeeded();
    }
    let (view, recorded) = (site.view(), records(&site.directory(), "old"));
    for (address, container) in live.into_inner().expect("no panic") {
        assert_eq!(recorded.get(&address), Some(&container), "{address}");
        // The store is not told of host-local's DEL, and keeps an imported lease that host-local gives again.
        let held = view.held.get(&address).map(|held| held.container.as_str());
        let is_theirs = container.starts_with(THEIRS) && held.is_none_or(|held| held.starts_with(THEIRS));
        assert!(held == Some(container.as_str()) || is_theirs, "{address}: {held:?}, not {container}");
    }
}
