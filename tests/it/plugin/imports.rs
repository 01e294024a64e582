//! host-local's leases: none is missed, whatever its record looks like and whenever it appears.

mod beside;

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::host_local::{network, records};
use crate::support::cni::{Network, all_different, skip};
use crate::support::netns::Namespace;
use crate::support::store::{Lab, View};
use crate::support::strace::{SystemCall, record, strace};

/// host-local's directory, and the store, which the dialect puts there.
struct Site {
    lab: Lab,
}

impl Site {
    fn new() -> Self {
        Self { lab: Lab::in_memory() }
    }

    fn directory(&self) -> PathBuf {
        self.lab.path().join("networks")
    }

    fn network(&self, ranges: &Value) -> Network {
        network("host-affine", "old", &self.directory(), ranges).with("nodename", "node-1")
    }

    fn subnet(&self, subnet: &str) -> Network {
        self.network(&json!([[{ "subnet": subnet }]]))
    }

    fn path(&self, address: &str) -> PathBuf {
        self.directory().join("old").join(address)
    }

    fn write(&self, address: &str, text: &str) {
        fs::create_dir_all(self.directory().join("old")).expect("a directory");
        fs::write(self.path(address), text).expect("a record");
    }

    fn lease(&self, address: &str, container: &str) {
        self.write(address, &format!("{container}\r\neth0"));
    }

    fn view(&self) -> View {
        View::of(&self.directory()).sound()
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// As after `cp -a`, or with a clock that was set back.
fn make_old(path: &Path) {
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::open(path).expect("it is there").set_modified(old).expect("a time");
}

/// Fills a network and checks that the addresses are among those that were free.
fn fill(network: &Network, stem: &str, taken: &[&str]) -> usize {
    let mut given = Vec::new();
    loop {
        let answer = network.add(&format!("{stem}{}", given.len()));
        if !answer.is_success() {
            assert_eq!(answer.refused().code, 101);
            break;
        }
        given.push(answer.address());
    }
    let given = all_different(given);
    assert!(taken.iter().all(|taken| !given.contains(&address(taken))), "{given:?}");
    given.len()
}

#[test]
fn every_range_of_a_name_is_imported() {
    let site = Site::new();
    site.lease("10.212.0.5", "old-v4");
    site.lease("10.213.0.5", "old-net");
    site.lease("fd10:212::5", "old-v6");
    let (v4, v6) = (site.subnet("10.212.0.0/28"), site.subnet("fd10:212::/124"));
    let other = site.subnet("10.213.0.0/28");
    v4.add("new1").succeeded();
    let refused = v6.call("ADD", "new2").variable("CNI_ARGS", "IP=fd10:212::5").run().refused();
    refused.says(&["old-v6"]);
    assert_eq!(v4.add("old-v4").address(), address("10.212.0.5"));
    assert_eq!(fill(&other, "c", &["10.213.0.5"]), 12);
    assert_eq!(other.add("old-net").address(), address("10.213.0.5"));
    assert_eq!(v6.add("old-v6").address(), address("fd10:212::5"));
}

#[test]
fn old_times_hide_no_record() {
    let site = Site::new();
    let network = site.subnet("10.212.1.0/28");
    site.lease("10.212.1.2", "first");
    network.add("a").succeeded();
    site.lease("10.212.1.5", "late");
    for path in [site.path("10.212.1.5"), site.directory().join("old")] {
        make_old(&path);
    }
    assert_eq!(fill(&network, "b", &["10.212.1.2", "10.212.1.5"]), 10);
    assert_eq!(site.view().held[&address("10.212.1.5")].container, "late");
}

/// The stamp says that nothing changed: the claim of the address keeps it all the same.
#[test]
fn stamp_that_misleads_gives_no_address_twice() {
    let site = Site::new();
    let network = site.subnet("10.212.2.0/28");
    site.lease("10.212.2.2", "first");
    network.add("a").succeeded();
    for number in 5..10 {
        site.lease(&format!("10.212.2.{number}"), &format!("late{number}"));
    }
    site.write("10.212.2.12", "");
    let folder = fs::metadata(site.directory().join("old")).expect("a directory");
    let stamp = File::open(site.path(".host-affine")).expect("a stamp");
    let changed = {
        use std::os::unix::fs::MetadataExt as _;
        let since = Duration::new(
            folder.ctime().try_into().expect("now"),
            folder.ctime_nsec().try_into().expect("a part of a second"),
        );
        SystemTime::UNIX_EPOCH + since
    };
    stamp.set_modified(changed).expect("a time");
    // 16, without network, gateway and broadcast, `first`, `a`, five late ones and the one of somebody.
    assert_eq!(fill(&network, "b", &["10.212.2.5", "10.212.2.9", "10.212.2.12"]), 5);
    assert_eq!(site.view().held[&address("10.212.2.7")].container, "late7");
}

#[test]
fn empty_record_is_somebodys_until_it_goes() {
    let site = Site::new();
    let network = site.subnet("10.212.3.0/28");
    site.write("10.212.3.5", "");
    site.write("10.212.3.6", "");
    network.add("a").succeeded();
    let asked = network.call("ADD", "b").variable("CNI_ARGS", "IP=10.212.3.5").run().refused();
    asked.says(&["10.212.3.5", "host-local"]);
    let given = fill(&network, "c", &["10.212.3.5", "10.212.3.6"]);
    assert_eq!(given, 10);
    site.lease("10.212.3.5", "slow");
    fs::remove_file(site.path("10.212.3.6")).expect("a record");
    assert_eq!(network.add("last").address(), address("10.212.3.6"));
    network.add("too-many").refused();
    assert_eq!(site.view().held[&address("10.212.3.5")].container, "slow");
    assert_eq!(network.add("slow").address(), address("10.212.3.5"));
}

/// An address that was freed without a DEL of the network is usable although its record remains.
#[test]
fn released_lease_is_not_imported_again() {
    let site = Site::new();
    let network = site.subnet("10.212.4.0/30");
    site.lease("10.212.4.2", "old");
    network.add("a").refused();
    let store = format!("--datastore=file://{}", site.directory().display());
    let words = [&store, "ipam", "release", "--ip=10.212.4.2", "--force", "--yes"];
    crate::support::cni::Call::typed(&words, "").run().succeeded();
    site.write("unrelated", "");
    assert_eq!(network.add("a").address(), address("10.212.4.2"));
    assert_eq!(records(&site.directory(), "old")[&address("10.212.4.2")], "a");
}

#[test]
fn gc_removes_the_records_of_what_it_frees() {
    let site = Site::new();
    let network = site.subnet("10.212.5.0/28");
    site.lease("10.212.5.5", "gone");
    site.lease("10.212.5.6", "alive");
    network.add("new").succeeded();
    network.with_top("cniVersion", "1.1.0").gc_call(&["alive"]).run().succeeded();
    let left: Vec<String> = records(&site.directory(), "old").into_values().collect();
    assert_eq!(left, ["alive"]);
    assert_eq!(site.view().held.len(), 1);
}

/// A call in a boot that began after everything that there is.
fn after_a_boot(site: &Site, network: &Network, container: &str) -> crate::support::cni::Answer {
    let stat = site.lab.path().join("stat");
    fs::write(&stat, "cpu  1 2 3\nbtime 99999999999\n").expect("a file");
    let bind = format!("mount --bind {} /proc/stat && exec \"$@\"", stat.display());
    let call = network.call("ADD", container);
    call.under(&["/usr/bin/unshare", "-m", "/bin/sh", "-c", &bind, "sh"]).run()
}

#[test]
fn records_of_earlier_boots_are_dead_if_unused() {
    let site = Site::new();
    let network = site.subnet("10.212.6.0/24");
    let alive = match Namespace::new("alive") {
        Ok(alive) => alive,
        Err(reason) => return skip(&reason),
    };
    alive.ip(&["addr", "add", "10.212.6.77/32", "dev", "lo"]);
    for number in 2..255 {
        site.lease(&format!("10.212.6.{number}"), &format!("old{number}"));
    }
    let answer = after_a_boot(&site, &network, "new");
    if !answer.is_success() && answer.stdout.is_empty() {
        return skip("no mount namespace can be made here");
    }
    let given = answer.address();
    assert_ne!(given, address("10.212.6.77"));
    let left = records(&site.directory(), "old");
    let expected = [(given, "new".to_owned()), (address("10.212.6.77"), "old77".to_owned())];
    assert_eq!(left, expected.into());
    assert_eq!(site.view().held.len(), 2);
}

#[test]
fn records_of_this_boot_are_alive_though_unused() {
    let site = Site::new();
    let network = site.subnet("10.212.7.0/28");
    for number in 2..15 {
        site.lease(&format!("10.212.7.{number}"), &format!("old{number}"));
        // As `cp -a` makes it: the time at which the file was made here is of this boot.
        make_old(&site.path(&format!("10.212.7.{number}")));
    }
    assert_eq!(network.add("new").refused().code, 101);
    assert_eq!(records(&site.directory(), "old").len(), 13);
}

/// System calls of an ADD and a DEL on host-local's files, by the number of records.
fn calls_with(strace: &Path, count: usize) -> (usize, usize) {
    let site = Site::new();
    let network = site.subnet("10.212.64.0/18");
    for number in 0..count {
        site.lease(&format!("10.212.{}.{}", 64 + number / 200, 2 + number % 200), &format!("old{number}"));
    }
    for number in 0..3 {
        network.add(&format!("new{number}")).succeeded();
    }
    let mut counts = [0, 0];
    for (place, verb) in ["ADD", "DEL"].into_iter().enumerate() {
        let (answer, calls) = record(strace, network.call(verb, "counted"), site.lab.path());
        answer.succeeded();
        // A checkpoint of the store may write the name of the directory.
        let names = |call: &&SystemCall| call.line.contains("networks/old") && call.name != "pwrite64";
        counts[place] = calls.iter().filter(names).count();
    }
    assert!(!site.view().held.values().any(|holder| holder.container == "counted"));
    assert_eq!(site.view().held.len(), count + 3);
    (counts[0], counts[1])
}

#[test]
fn add_and_del_cost_the_same_beside_many_records() {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let (few, many) = (calls_with(&strace, 5), calls_with(&strace, 1_500));
    assert_eq!(few, many);
    assert!(few.0 > 0 && few.0 <= 12 && few.1 > 0 && few.1 <= 12, "{few:?}");
}
