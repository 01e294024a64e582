//! What the callers share: store, networks, who is alive with which address, and the counts of what was done.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::choices::Choices;
use crate::support::cni::{Answer, Call, Network};
use crate::support::store::Lab;

/// How many networks there are.
pub(super) const NETWORKS: usize = 2;
/// The nodes whose names the calls bear.
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The columns of a line.
pub(super) const HEADER: &str = "      s      ADD      DEL   killed  refused   others  settings  alive   ADD ms  p99 ms   / bare  ADD kB  store kB";
/// ADDs after every round that are compared with as many calls that do nothing.
const COMPARED: usize = 8;

/// All that the callers share.
pub(super) struct Yard {
    store: PathBuf,
    scratch: PathBuf,
    networks: Vec<Network>,
    alive: Mutex<BTreeMap<IpAddr, String>>,
    tally: Mutex<Tally>,
}

/// What was done since the start, and how long ADDs took since the last line: amid everything else, and one by one, each
/// beside a VERSION, which meets the same machine and does nothing.
#[derive(Debug, Default)]
struct Tally {
    counts: BTreeMap<&'static str, usize>,
    adds: Vec<Duration>,
    compared: Vec<f64>,
    peak: u64,
    bytes: u64,
}

impl Yard {
    pub(super) fn new(lab: &Lab) -> Self {
        let pools =
            json!([{ "cidr": "10.99.0.0/25", "blockSize": 28 }, { "cidr": "fd99::/118", "blockSize": 122 }]);
        let dual = Network::new("dual", &lab.store(), &pools);
        let four = Network::new("four", &lab.store(), &json!([{ "cidr": "10.99.0.0/25", "blockSize": 28 }]));
        Self {
            store: lab.store(),
            scratch: lab.path().to_owned(),
            networks: vec![dual, four],
            alive: Mutex::default(),
            tally: Mutex::default(),
        }
    }

    /// A network as one of the nodes has it.
    pub(super) fn network(&self, network: usize, node: usize) -> Network {
        self.networks[network].on(NODES[node])
    }

    pub(super) fn nodes() -> usize {
        NODES.len()
    }

    /// Makes a call, and counts it.
    pub(super) fn make(&self, kind: &'static str, call: &Call) -> Answer {
        let began = Instant::now();
        let answer = call.run();
        let mut tally = self.tally.lock().expect("nobody panicked");
        *tally.counts.entry(kind).or_default() += 1;
        if kind == "ADD" && answer.is_success() {
            tally.adds.push(began.elapsed());
        }
        answer
    }

    /// An ADD that may be refused, for a reason that is one here.
    pub(super) fn refused(&self, answer: Answer) {
        let refusal = answer.refused();
        // No address, strictness, the limit, a disabled pool, a requested one that another has or that is reserved.
        assert!([101, 102, 103, 105, 107, 109].contains(&refusal.code), "{refusal:?}");
        *self.tally.lock().expect("nobody panicked").counts.entry("refused").or_default() += 1;
    }

    /// Notes that a pod lives with its addresses, which nobody else may have.
    pub(super) fn comes(&self, id: &str, addresses: &[IpAddr]) {
        let mut alive = self.alive.lock().expect("nobody panicked");
        for address in addresses {
            let before = alive.insert(*address, id.to_owned());
            assert!(
                before.as_deref().is_none_or(|other| other == id),
                "{address} of {before:?} was given to {id}"
            );
        }
    }

    /// Notes that a pod is about to die: from now on others may have its addresses.
    pub(super) fn goes(&self, addresses: &[IpAddr]) {
        let mut alive = self.alive.lock().expect("nobody panicked");
        for address in addresses {
            alive.remove(address);
        }
    }

    /// The command line on the store.
    pub(super) fn cli(&self, words: &[&str]) -> Answer {
        self.cli_with(words, "")
    }

    fn cli_with(&self, words: &[&str], stdin: &str) -> Answer {
        let store = OsString::from(format!("--datastore=file://{}", self.store.display()));
        let words: Vec<OsString> = [store].into_iter().chain(words.iter().map(OsString::from)).collect();
        Call::typed(&words, stdin).run()
    }

    /// An administrator changes something, or looks.
    pub(super) fn administer(&self, choices: &mut Choices) {
        let reservation = r#"{"apiVersion":"projectcalico.org/v3","kind":"IPReservation","metadata":{"name":"r"},
            "spec":{"reservedCIDRs":["10.99.0.32/28","fd99::40/122"]}}"#;
        let disable = |disabled: bool| format!(r#"{{"spec":{{"disabled":{disabled}}}}}"#);
        let answer = match choices.pick(12) {
            0 => self.cli(&["ipam", "configure", "--strictaffinity=true", "--max-blocks-per-host=2"]),
            1 | 2 => self.cli(&["ipam", "configure", "--strictaffinity=false", "--max-blocks-per-host=20"]),
            3 => self.cli(&["ipam", "configure", "--ip-cooldown-seconds=1"]),
            4 => self.cli(&["ipam", "configure", "--ip-cooldown-seconds=0"]),
            5 => self.cli_with(&["apply", "-f", "-"], reservation),
            6 => self.cli(&["delete", "ipreservation", "r", "--ignore-not-found", "--yes"]),
            7 => self.cli(&["patch", "ippool", "10-99-0-0-25", "-p", &disable(true)]),
            8 | 9 => self.cli(&["patch", "ippool", "10-99-0-0-25", "-p", &disable(false)]),
            10 => self.cli(&["ipam", "check"]),
            _ => self.cli(&["ipam", "show", "--show-blocks"]),
        };
        // A pool is there from the first ADD on.
        assert!(answer.is_success() || answer.stderr.contains("does not exist"), "{answer:?}");
        *self.tally.lock().expect("nobody panicked").counts.entry("settings").or_default() += 1;
    }

    /// Puts back what would leave nothing to do, and what an audit would have to wait for.
    pub(super) fn calm(&self) {
        self.cli(&["ipam", "configure", "--ip-cooldown-seconds=0"]).succeeded();
        self.cli(&["patch", "ippool", "10-99-0-0-25", "-p", r#"{"spec":{"disabled":false}}"#]);
    }

    /// GC of a network, on each node: it leaves those of the others alone.
    pub(super) fn collect(&self, network: usize, valid: &[String]) {
        let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
        for node in 0..Self::nodes() {
            self.make("GC", &self.network(network, node).gc_call(&valid)).succeeded();
        }
    }

    /// What a call needs, and the store.
    pub(super) fn weigh(&self, lab: &Lab) {
        let compared: Vec<f64> = (0..COMPARED).map(|_| self.beside_nothing()).collect();
        let mut tally = self.tally.lock().expect("nobody panicked");
        tally.compared.extend(compared);
        tally.bytes = bytes_of(&lab.store());
        let (time, file) = (Path::new("/usr/bin/time"), self.scratch.join("peak"));
        if time.is_file() {
            let file = file.display().to_string();
            let under = [time.to_str().expect("text"), "-f", "%M", "-o", &file];
            // Refused or not: it has looked for an address.
            self.network(0, 0).call("ADD", "weighed").under(&under).run();
            self.network(0, 0).del("weighed").succeeded();
            let text = fs::read_to_string(file).unwrap_or_default();
            tally.peak = text.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
        }
    }

    /// How many times as long as a VERSION an ADD takes.
    fn beside_nothing(&self) -> f64 {
        let timed = |verb: &str| {
            let call = self.network(0, 0).call(verb, "compared");
            let began = Instant::now();
            call.run();
            began.elapsed().as_secs_f64()
        };
        let (bare, add) = (timed("VERSION"), timed("ADD"));
        self.network(0, 0).del("compared").succeeded();
        add / bare
    }

    /// A line of the table.
    pub(super) fn line(&self, since: Duration) -> String {
        let mut tally = self.tally.lock().expect("nobody panicked");
        let mut adds = std::mem::take(&mut tally.adds);
        adds.sort();
        let mut compared = std::mem::take(&mut tally.compared);
        compared.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            adds.get(adds.len() * percent / 100).map_or(0.0, |took| took.as_secs_f64() * 1e3)
        };
        let count = |kinds: &[&str]| kinds.iter().filter_map(|kind| tally.counts.get(kind)).sum::<usize>();
        format!(
            "{:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6} {:>8.2} {:>7.2} {:>8.2} {:>7} {:>9}",
            since.as_secs(),
            count(&["ADD"]),
            count(&["DEL"]),
            count(&["killed"]),
            count(&["refused"]),
            count(&["CHECK", "STATUS", "GC"]),
            count(&["settings"]),
            self.alive.lock().expect("nobody panicked").len(),
            at(50),
            at(99),
            compared.get(compared.len() / 2).copied().unwrap_or_default(),
            tally.peak,
            tally.bytes / 1024,
        )
    }
}

/// What the files of a directory take.
pub(super) fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a directory").map(|entry| entry.expect("an entry"));
    let bytes = |entry: fs::DirEntry| {
        let about = entry.metadata().expect("it is there");
        if about.is_dir() { bytes_of(&entry.path()) } else { about.len() }
    };
    entries.map(bytes).sum()
}
