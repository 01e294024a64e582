//! What people who run plugins of this kind have met: each report, from outside, with the outcome that is right.
//!
//! | report | tested in |
//! | --- | --- |
//! | F01 an ADD is killed half-way, then DEL | `leaks`; at every system call in `plugin::kill` |
//! | F02 DEL when the namespace is gone | `leaks` |
//! | F03 one family is short | `leaks`; with gateways in `plugin::blocks` |
//! | F04 many hosts reach for one block | `owners`; with deletions in `plugin::together` |
//! | F05 DEL of the old sandbox after ADD of the new one | `plugin::blocks` (a successor of the same name) |
//! | F06 the store is restored from a backup | `owners` |
//! | F07 an address is reused at once | `plugin::blocks` (freed last, given last), `owners` with a cool-down |
//! | F08 the same address in another spelling | `cleaning`; each spelling in `cli::check` and `cli::liveness` |
//! | F09 a report that is out of date | `cleaning`, `cli::release` |
//! | F10 blocks of hosts that are gone | `blocks`, `cli::delete` (a node gives up its blocks) |
//! | F11 a pending claim | `cluster::field` on etcd, `engine::tables::field` (row 57) |
//! | F12 the limit on blocks | `blocks`, `plugin::blocks` |
//! | F13 borrowing, and strictness later | `plugin::blocks` (a loan stays valid), `cli::show` (each borrowed address) |
//! | F14 six causes of a refusal | `blocks`, `plugin::causes` |
//! | F15 a pool added when all others are full | `blocks`, counted in `plugin::counts` |
//! | F16 room in a second block | `cluster::field` on etcd, `engine::tables::field` |
//! | F17 a disabled pool | `pools`, `cli::patch` |
//! | F18 a deleted pool | `pools`, `cli::delete` |
//! | F19 another block size | `pools` |
//! | F20 a pool that begins with zero bytes | `spelling` |
//! | F21 a requested address in another spelling | `spelling` |
//! | F22 tiny blocks, first and last address | `spelling`, `engine::tables::field` |
//! | F23 DEL of what never was | `contract` |
//! | F24 ADD repeated | `contract` |
//! | F25 standard output | `contract`, `plugin::refusals` (a log that cannot be written) |
//! | F26 bad input | `contract` |
//! | F27 the host's name is not the node's | `identity`, `plugin::surroundings` |
//! | F28 a line end in the node's name | `identity`, `plugin::surroundings` |
//! | F29 unusual container IDs | `plugin::together` (IDs of any length and look) |
//! | F30 reboots | `plugin::surroundings` (what an earlier boot left), `gc` |
//! | F31 a full disk, a record cut short | `plugin::faults` (on a full disk), `plugin::damage`; `durability` for `check` |
//! | F32 locks left, held, hung | `plugin::refusals` (a held lock), `plugin::surroundings` (a busy lock) |
//! | F33 an answer that was lost | `cluster::field` on etcd, `etcd::lost`, `engine::tables::release` |
//! | F34 a hundred pods at once | `plugin::together` (a hundred containers) |
//! | F35 forty hosts at once | `cluster::field` on etcd; with sixteen in `plugin::together` |
//! | F36 to F38 virtual machines | by annotations in `plugin::machines` |
//! | F39 numbers of a huge pool | `admin`, `cli::show` |
//! | F40 changing one setting | `cli::configure`, `admin` |
//! | F41 releasing by address | `cli::release` (one address is freed unless its owner is alive) |
//! | F42 the requested address is taken | `plugin::causes` (a requested address that is taken) |
//! | F43 reservations bind families and blocks | `plugin::causes` (reserved addresses are not given) |
//! | F44 a very large reservation | `plugin::causes` (is passed over at once) |

mod admin;
mod blocks;
mod cleaning;
mod contract;
mod durability;
mod gc;
mod identity;
mod leaks;
mod owners;
mod pools;
mod spelling;

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::support::cni::{Answer, Call, Network};
use crate::support::store::{Lab, View};

/// A store that pods and people use, each through the executable.
struct Field {
    lab: Lab,
}

impl Field {
    fn new() -> Self {
        Self { lab: Lab::in_memory() }
    }

    /// A network in routed addressing, in which a pool is a set of addresses: all of them can be had.
    fn on(&self, node: &str) -> Network {
        Network::of(&json!({
            "cniVersion": "1.0.0", "name": "fieldnet", "type": "calico", "nodename": node,
            "ipam": { "type": "host-affine", "datastore": { "type": "file", "path": self.lab.store() } },
        }))
    }

    /// ADD of a pod of the container's name.
    fn add(&self, id: &str, node: &str) -> Answer {
        as_pod(self.on(node).call("ADD", id), id).run()
    }

    /// The same, with an address of either family.
    fn add_both(&self, id: &str, node: &str) -> Answer {
        as_pod(self.on(node).with("assign_ipv6", "true").call("ADD", id), id).run()
    }

    fn del(&self, id: &str, node: &str) {
        assert_eq!(self.on(node).del(id).succeeded().stdout, "");
    }

    /// Containers `STEM1` to `STEMn`, all of which get an address.
    fn fill(&self, stem: &str, count: usize, node: &str) -> Vec<String> {
        (1..=count).map(|n| self.add(&format!("{stem}{n}"), node).address().to_string()).collect()
    }

    /// The command line on this store.
    fn cli(&self, words: &[&str]) -> Answer {
        self.cli_with(words, "")
    }

    fn cli_with(&self, words: &[&str], stdin: &str) -> Answer {
        let store = OsString::from(format!("--datastore=file://{}", self.lab.store().display()));
        let all: Vec<OsString> = [store].into_iter().chain(words.iter().map(OsString::from)).collect();
        Call::typed(&all, stdin).run()
    }

    fn apply(&self, kind: &str, name: &str, spec: &Value) -> Answer {
        let metadata = json!({ "name": name });
        self.apply_with(kind, &metadata, spec)
    }

    fn apply_with(&self, kind: &str, metadata: &Value, spec: &Value) -> Answer {
        let object = json!({
            "apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": metadata, "spec": spec,
        });
        self.cli_with(&["apply", "-f", "-"], &object.to_string())
    }

    fn pool(&self, name: &str, cidr: &str, block_size: u8) {
        self.apply("IPPool", name, &json!({ "cidr": cidr, "blockSize": block_size })).succeeded();
    }

    fn node(&self, name: &str, labels: &Value) {
        self.apply_with("Node", &json!({ "name": name, "labels": labels }), &json!({})).succeeded();
    }

    fn configure(&self, options: &[&str]) {
        self.cli(&[&["ipam", "configure"], options].concat()).succeeded();
    }

    /// What is alive, in a file.
    fn inventory(&self, workloads: &Value) -> String {
        self.file("inventory.json", &json!({ "workloads": workloads }).to_string())
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.lab.path().join(name);
        std::fs::write(&path, content).expect("a file of the test's own");
        path.display().to_string()
    }

    fn view(&self) -> View {
        View::of(&self.lab.store()).sound()
    }

    /// How many addresses are in use, and handles there are.
    fn count(&self) -> (usize, usize) {
        let view = self.view();
        (view.held.len(), view.handles)
    }
}

/// A call with the arguments that runtimes pass of a pod.
fn as_pod(call: Call, pod: &str) -> Call {
    asking(call, pod, "")
}

/// The same, and more arguments.
fn asking(call: Call, pod: &str, more: &str) -> Call {
    call.variable("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod}{more}"))
}

/// A command line must end with this status.
#[track_caller]
fn exits(answer: Answer, code: i32) -> Answer {
    assert_eq!(answer.status.code(), Some(code), "{}{}", answer.stdout, answer.stderr);
    answer
}

/// What a command line printed must have all of these.
#[track_caller]
fn shows(answer: &Answer, words: &[&str]) {
    for word in words {
        assert!(answer.stdout.contains(word), "{word:?} is not in: {}{}", answer.stdout, answer.stderr);
    }
}
