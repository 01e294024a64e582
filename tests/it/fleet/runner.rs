//! A fleet at work: makes calls, keeps the model, and asks the oracle.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::kernel::Kernel;
use super::model::{Model, Scope};
use super::node::{Datastore, Node, Numbers, Plan};
use super::oracle::{self, Dead};
use crate::support::cni::{Answer, Call, Network};

/// Calls that a report shows.
const REPORTED: usize = 40;

/// Several nodes and their store.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) nodes: Vec<Node>,
    pub(super) kernels: Vec<Kernel>,
    pub(super) model: Model,
    pub(super) numbers: Numbers,
    pub(super) datastore: Datastore,
    /// How often each kind of call was made.
    pub(super) counts: BTreeMap<String, usize>,
    /// Refused ADDs among them.
    pub(super) refused: usize,
    recent: VecDeque<String>,
}

/// Arguments of a CNI call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) verb: &'a str,
    pub(super) network: &'a str,
    pub(super) id: &'a str,
    pub(super) netns: &'a str,
    pub(super) args: &'a str,
}

impl Fleet {
    /// Starts the nodes.
    ///
    /// # Errors
    /// When namespaces cannot be created here.
    pub(super) fn start(
        lab: &Path,
        plans: &[Plan],
        datastore: Datastore,
        scope: Scope,
    ) -> Result<Self, String> {
        let kernels = plans.iter().map(|plan| plan.kernel + 1).max().unwrap_or_default();
        let kernels: Vec<Kernel> = (0..kernels).map(|number| Kernel::new(lab, number)).collect();
        let mut numbers = Numbers::default();
        let mut nodes = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            let scratch = lab.join(format!("node-{number}"));
            nodes.push(Node::start(*plan, &scratch, &kernels[plan.kernel], &datastore, &mut numbers)?);
        }
        let model = Model::new(scope);
        let (counts, recent) = (BTreeMap::new(), VecDeque::new());
        let mut new = Self { nodes, kernels, model, numbers, datastore, counts, refused: 0, recent };
        new.note_networks();
        Ok(new)
    }

    /// How many processes of the plugin were started.
    pub(super) fn calls(&self) -> usize {
        self.counts.values().sum()
    }

    /// The last calls, oldest first.
    pub(super) fn report(&self) -> String {
        Vec::from(self.recent.clone()).join("\n")
    }

    pub(super) fn note(&mut self, line: String) {
        self.recent.push_back(line);
        if self.recent.len() > REPORTED {
            self.recent.pop_front();
        }
    }

    pub(super) fn note_networks(&mut self) {
        self.model.networks = self.nodes.iter().map(|node| node.site.network).collect();
    }

    /// A CNI call on a node.
    pub(super) fn cni(&mut self, node: usize, asked: Asked<'_>, previous: Option<&Value>) -> Answer {
        let call = self.call_of(node, asked, previous);
        self.make(node, asked.verb, &described(asked), move || call.run())
    }

    /// A CNI call that is killed after so many microseconds, unless it has ended before.
    pub(super) fn killed(&mut self, node: usize, asked: Asked<'_>, micros: u64) -> Answer {
        let call = self.call_of(node, asked, None);
        let line = format!("{} # killed after {micros} µs", described(asked));
        self.make(node, asked.verb, &line, move || run_and_kill(&call, micros))
    }

    fn call_of(&self, node: usize, asked: Asked<'_>, previous: Option<&Value>) -> Call {
        let network = Network::of(&self.nodes[node].conf(asked.network));
        let mut call = network.call(asked.verb, asked.id).variable("CNI_NETNS", asked.netns);
        if !asked.args.is_empty() {
            call = call.variable("CNI_ARGS", asked.args);
        }
        if let Some(previous) = previous {
            call = call.previous(previous);
        }
        call
    }

    /// CNI's GC with a list of containers.
    pub(super) fn collect(&mut self, node: usize, network: &str, valid: &[String]) -> Answer {
        let ids: Vec<&str> = valid.iter().map(String::as_str).collect();
        let call = Network::of(&self.nodes[node].conf(network)).gc_call(&ids);
        let line = format!("CNI_COMMAND=GC # network {network}, valid: {}", ids.join(" "));
        self.make(node, "GC", &line, move || call.run())
    }

    /// A command of the command line on a node, under a wrapper where one is given.
    pub(super) fn cli(&mut self, node: usize, words: &[&str], under: &[&str]) -> Answer {
        let (call, line) = self.typed(node, words, under);
        self.make(node, &words[..2].join(" "), &line, move || call.run())
    }

    /// A command that is killed.
    pub(super) fn killed_cli(&mut self, node: usize, words: &[&str], micros: u64) -> Answer {
        let (call, line) = self.typed(node, words, &[]);
        let line = format!("{line} # killed after {micros} µs");
        self.make(node, &words[..2].join(" "), &line, move || run_and_kill(&call, micros))
    }

    fn typed(&self, node: usize, words: &[&str], under: &[&str]) -> (Call, String) {
        let conf = self.nodes[node].conf_path().display().to_string();
        let words: Vec<&str> = ["--conf", conf.as_str()].into_iter().chain(words.iter().copied()).collect();
        let line = format!("{} host-affine {}", under.join(" "), words.join(" "));
        (Call::typed(&words, "").variable("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").under(under), line)
    }

    fn make(
        &mut self,
        node: usize,
        kind: &str,
        line: &str,
        run: impl FnOnce() -> Answer + Send + 'static,
    ) -> Answer {
        let answer = self.nodes[node].host.run(move |_| run());
        *self.counts.entry(kind.to_owned()).or_default() += 1;
        let site = &self.nodes[node].site;
        let said: String = answer.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let said: String = said.chars().take(160).collect();
        let at = format!("node {node} ({}, boot {})", site.node, site.boot.count);
        self.note(format!("{at}: {line} -> {:?} {said}", answer.status.code()));
        answer
    }

    /// Compares the store with the model.
    pub(super) fn audit(&mut self, dead: Dead) -> Result<(), String> {
        let (call, _) = self.typed(0, &["-o", "json", "get", "ipamblocks"], &[]);
        let answer = self.nodes[0].host.run(move |_| call.run());
        let view = oracle::view(&answer.stdout);
        // Exit code 1: there is no block.
        if !matches!(answer.status.code(), Some(0 | 1)) {
            return Err(format!("the store cannot be read: {answer:?}"));
        }
        self.model.compare(&view, dead)
    }

    /// Takes the answer of an ADD for a living container.
    pub(super) fn answered(&mut self, node: usize, nth: usize, answer: &Answer) -> Result<(), String> {
        let Node { site, living, .. } = &mut self.nodes[node];
        let container = &mut living[nth];
        let Some(addresses) = answer.printed_addresses().filter(|_| answer.is_success()) else {
            self.refused += 1;
            return Ok(());
        };
        let result: Value = serde_json::from_str(&answer.stdout).map_err(|error| error.to_string())?;
        container.results.insert(site.node.clone(), result);
        self.model.answered(&container.record(site), &addresses)
    }

    /// Checks why an ADD without wishes was refused.
    pub(super) fn refusal(&self, answer: &Answer) -> Result<(), String> {
        let error: Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
        match error["code"].as_u64() {
            Some(101) => self.model.is_exhausted(),
            _ => Err(format!("an ADD failed: {}{}", answer.stdout, answer.stderr)),
        }
    }

    /// Addresses of a living container under the present name of its node.
    pub(super) fn held(&self, node: usize, nth: usize) -> Vec<IpAddr> {
        self.model.held(self.nodes[node].living[nth].serial, &self.nodes[node].site)
    }
}

fn run_and_kill(call: &Call, micros: u64) -> Answer {
    let began = Instant::now();
    let running = call.start();
    while began.elapsed() < Duration::from_micros(micros) {
        std::thread::yield_now();
    }
    running.signal(Signal::SIGKILL);
    running.finish()
}

fn described(asked: Asked<'_>) -> String {
    let Asked { verb, network, id, netns, args } = asked;
    format!(
        "CNI_COMMAND={verb} CNI_CONTAINERID={id} CNI_NETNS={netns} CNI_IFNAME=eth0 CNI_ARGS='{args}' # network {network}"
    )
}
