//! A network that `host-local` served until now: one word of its configuration changes, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::main_plugins::{Scene, addresses_of};
use crate::support::cni::{Call, Network, all_different, skip};
use crate::support::store::{Lab, View};

/// The real one, as it is packaged.
pub(super) fn host_local() -> Option<PathBuf> {
    ["/usr/lib/cni/host-local", "/opt/cni/bin/host-local"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

/// A network in host-local's words; `kind` is the word that changes.
pub(super) fn network(kind: &str, name: &str, directory: &Path, ranges: &Value) -> Network {
    Network::of(&json!({
        "cniVersion": "1.0.0",
        "name": name,
        "type": "bridge",
        "bridge": "affine0",
        "isGateway": true,
        "ipam": { "type": kind, "ranges": ranges, "dataDir": directory },
    }))
}

/// What host-local has recorded: one file for each address, with the container in its first line.
pub(super) fn records(directory: &Path, name: &str) -> BTreeMap<IpAddr, String> {
    let entries = fs::read_dir(directory.join(name)).expect("host-local's directory");
    let record = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let address = path.file_name()?.to_str()?.parse().ok()?;
        let text = fs::read_to_string(&path).expect("a record");
        Some((address, text.lines().next().unwrap_or_default().to_owned()))
    };
    entries.filter_map(record).collect()
}

/// A network of two families before and after, with real host-local: 12 containers are there when the word changes.
struct Switch {
    lab: Lab,
    before: Network,
    after: Network,
    live: BTreeMap<IpAddr, String>,
}

impl Switch {
    fn with(program: &Path, ranges: &Value) -> Self {
        let lab = Lab::new();
        let directory = lab.path().join("networks");
        let before = network("host-local", "old", &directory, ranges);
        let after = network("host-affine", "old", &directory, ranges).with("nodename", "node-1");
        for n in 0..12 {
            before.call("ADD", &format!("old{n}")).program(program).run().succeeded();
        }
        // Some are gone already, so that there are gaps.
        for n in [3, 7] {
            before.call("DEL", &format!("old{n}")).program(program).run().succeeded();
        }
        let live = records(&directory, "old");
        assert_eq!(live.len(), 10 * ranges.as_array().map_or(0, Vec::len), "{live:?}");
        Self { lab, before, after, live }
    }

    fn directory(&self) -> PathBuf {
        self.lab.path().join("networks")
    }

    fn view(&self) -> View {
        View::of(&self.directory()).sound()
    }
}

fn both_families() -> Value {
    json!([
        [{ "subnet": "10.211.0.0/24", "rangeStart": "10.211.0.10", "rangeEnd": "10.211.0.60" }],
        [{ "subnet": "fd10:211::/112" }],
    ])
}

#[test]
fn one_word_changes_and_no_live_address_is_given_again() {
    let Some(program) = host_local() else { return skip("host-local is not installed") };
    let switch = Switch::with(&program, &both_families());
    let families = 2;
    let given: Vec<IpAddr> = (0..20).flat_map(|n| switch.after.add(&format!("new{n}")).addresses()).collect();
    let given = all_different(given);
    assert_eq!(given.len(), 20 * families);
    assert!(given.iter().all(|address| !switch.live.contains_key(address)), "{given:?} {:?}", switch.live);
    let (first, last): (IpAddr, IpAddr) =
        ("10.211.0.10".parse().expect("an address"), "10.211.0.60".parse().expect("an address"));
    let v4: Vec<&IpAddr> = given.iter().filter(|address| address.is_ipv4()).collect();
    assert!(v4.iter().all(|address| (first..=last).contains(*address)), "{v4:?}");

    let view = switch.view();
    for (address, container) in &switch.live {
        assert_eq!(&view.held[address].container, container, "{address} was imported");
    }
    assert_eq!(view.held.len(), switch.live.len() + given.len());
}

#[test]
fn a_container_of_before_keeps_its_address_and_gives_it_back_to_both() {
    let Some(program) = host_local() else { return skip("host-local is not installed") };
    let switch = Switch::with(&program, &both_families());
    switch.after.add("new").succeeded();
    let old = switch.view().of_container("old5");
    let mut again = switch.after.add("old5").addresses();
    again.sort();
    assert_eq!(again, old, "asked again, it has what host-local gave it");

    switch.after.del("old5").succeeded();
    assert!(switch.view().of_container("old5").is_empty());
    let recorded = records(&switch.directory(), "old");
    assert!(old.iter().all(|address| !recorded.contains_key(address)), "host-local's record went too");
    let ours = recorded.values().filter(|container| *container == "new").count();
    assert_eq!(ours, old.len(), "what is given here is on record for host-local");
    assert_eq!(recorded.len() - ours, switch.live.len() - old.len(), "and no other");

    for n in 0..12 {
        switch.after.del(&format!("old{n}")).succeeded();
    }
    switch.after.del("new").succeeded();
    assert_eq!(switch.view().held.len(), 0);
    assert_eq!(records(&switch.directory(), "old").len(), 0);
}

/// host-local serves the network again, and knows what was given meanwhile.
#[test]
fn the_word_changes_back() {
    let Some(program) = host_local() else { return skip("host-local is not installed") };
    let ranges =
        json!([[{ "subnet": "10.211.5.0/24", "rangeStart": "10.211.5.20", "rangeEnd": "10.211.5.39" }]]);
    let switch = Switch::with(&program, &ranges);
    let ours: Vec<IpAddr> = (0..5).map(|n| switch.after.add(&format!("new{n}")).address()).collect();
    let back = |n: usize| switch.before.call("ADD", &format!("back{n}")).program(&program).run().address();
    let theirs: Vec<IpAddr> = (0..5).map(back).collect();
    all_different(ours.iter().chain(&theirs).chain(switch.live.keys()).copied());
    assert!(!switch.before.call("ADD", "full").program(&program).run().is_success());
    for n in 0..5 {
        switch.before.call("DEL", &format!("new{n}")).program(&program).run().succeeded();
    }
    let recorded = records(&switch.directory(), "old");
    assert!(ours.iter().all(|address| !recorded.contains_key(address)), "its DEL ends a container of ours");
}

#[test]
fn a_container_of_before_that_is_deleted_first_of_all_is_freed_for_both() {
    let Some(program) = host_local() else { return skip("host-local is not installed") };
    let switch = Switch::with(&program, &both_families());
    // No ADD has taken anything over yet, and there is no store.
    switch.after.del("old0").succeeded();
    assert!(records(&switch.directory(), "old").values().all(|container| container != "old0"));
    switch.after.add("new").succeeded();
    let view = switch.view();
    assert!(view.of_container("old0").is_empty());
    assert_eq!(view.held.len(), switch.live.len() - 2 + 2);
}

#[test]
fn what_host_local_gave_in_between_is_taken_over_as_well() {
    let Some(program) = host_local() else { return skip("host-local is not installed") };
    let switch = Switch::with(&program, &json!([[{ "subnet": "10.211.1.0/26" }]]));
    let first = switch.after.add("new0").address();
    // The word was changed back for a while.
    switch.after.del("new0").succeeded();
    let between = switch.before.call("ADD", "between").program(&program).run().address();
    let given: Vec<IpAddr> = (1..30).map(|n| switch.after.add(&format!("new{n}")).address()).collect();
    let given = all_different(given);
    assert!(!given.contains(&between) && given.iter().all(|address| !switch.live.contains_key(address)));
    assert_eq!(switch.view().held[&between].container, "between");
    assert!(given.contains(&first) || switch.view().held.len() == given.len() + 11);
}

#[test]
fn a_range_that_is_full_of_containers_of_before_is_refused_not_doubled() {
    let Some(program) = host_local() else { return skip("host-local is not installed") };
    let ranges =
        json!([[{ "subnet": "10.211.2.0/24", "rangeStart": "10.211.2.20", "rangeEnd": "10.211.2.31" }]]);
    let switch = Switch::with(&program, &ranges);
    let given = [switch.after.add("new0").address(), switch.after.add("new1").address()];
    all_different(given.into_iter().chain(switch.live.keys().copied()));
    let refusal = switch.after.add("new2").refused();
    assert_eq!(refusal.code, 101);
    refusal.says(&["10.211.2.0/24"]);
    switch.after.del("old4").succeeded();
    switch.after.add("new2").succeeded();
}

#[test]
fn under_a_bridge_the_containers_of_before_and_after_meet() {
    if host_local().is_none() {
        return skip("host-local is not installed");
    }
    let scene = match Scene::set("bridge") {
        Ok(scene) => scene,
        Err(reason) => return skip(&reason),
    };
    let directory = scene.lab.path().join("networks");
    let ranges = json!([[{ "subnet": "10.211.3.0/24" }], [{ "subnet": "fd10:211:3::/64" }]]);
    let before = network("host-local", "old", &directory, &ranges);
    let after = network("host-affine", "old", &directory, &ranges).with("nodename", "node-1");
    let old = scene.call(&before, "ADD", 0).run().result();
    let new = scene.call(&after, "ADD", 1).run().result();
    all_different(addresses_of(&old).into_iter().chain(addresses_of(&new)));
    scene.all_is_reached(&[old.clone(), new.clone()], true);

    let view = View::of(&directory).sound();
    let mut given = addresses_of(&old);
    given.sort();
    assert_eq!(view.of_container("container-0"), given);
    let call: Call = scene.call(&after, "CHECK", 0).previous(&old);
    call.run().succeeded();
    for (number, result) in [old, new].iter().enumerate() {
        scene.call(&after, "DEL", number).previous(result).run().succeeded();
    }
    assert_eq!(View::of(&directory).sound().held.len(), 0);
    assert_eq!(records(&directory, "old").len(), 0);
}

#[test]
fn a_record_of_host_locals_for_an_address_that_is_ours_takes_nothing_away_and_stops_nobody() {
    let Some(program) = host_local() else { return skip("host-local is not installed") };
    let switch = Switch::with(&program, &json!([[{ "subnet": "10.211.4.0/24" }]]));
    let ours = switch.after.add("new").address();
    // As when the word was changed back, and host-local, which does not know of ours, gave it once more.
    let record = switch.directory().join("old").join(ours.to_string());
    fs::write(&record, "intruder\r\neth0").expect("a record");
    for n in 0..3 {
        let other = switch.after.add(&format!("later{n}")).address();
        assert_ne!(other, ours);
    }
    assert_eq!(switch.view().held[&ours].container, "new");
    switch.after.del("intruder").succeeded();
    assert_eq!(switch.view().held[&ours].container, "new", "it is not the intruder's to give back");
    assert!(!record.exists());
    switch.after.del("new").succeeded();
    assert!(!switch.view().held.contains_key(&ours));
}
