//! People carve networks out of a pool while pods come and go in it, and processes die at every moment: nothing ever
//! overlaps, and nothing is carved for nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use host_affine::api::milo::{IpAllocation, IpAllocationStatus, NAMESPACE, allocation_of_claim};
use host_affine::datastore::file::{Access, IfAbsent};
use host_affine::datastore::{
    Answer as Read, Carved, CarvedFor, Collection, Datastore as _, Entry, Key, ProjectName, Want,
    run_in_place,
};
use host_affine::net::Cidr;
use serde_json::{Value, json};

use super::disturbed::come_close_to_a_cut;
use crate::support::cni::{Answer, Call, Network, skip};
use crate::support::store::{Lab, View, copy_tree, header_of, open};
use crate::support::strace::{self, SystemCall, strace};
use crate::support::tally::tell;

const POOL: &str = "10.203.0.0/24";
const PROJECT: &str = "shop";
/// How many trials are made at once.
const WORKERS: usize = 3;

fn network(store: &Path) -> Network {
    let pools = json!([{ "cidr": POOL, "blockSize": 29, "name": "pods" }]);
    Network::new("pods", store, &pools).unflushed()
}

/// The command line, on the store of the network, which it does not flush either.
fn typed(store: &Path, args: &[&str], stdin: &Value) -> Call {
    let conf = store.with_extension("conf");
    if !conf.exists() {
        fs::write(&conf, network(store).conf.to_string()).expect("a configuration");
    }
    let conf = conf.display().to_string();
    Call::typed(&[&["--conf", &conf, "--project", PROJECT], args].concat(), stdin.to_string())
}

fn allocation(name: &str, length: u8) -> Value {
    json!({
        "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPAllocation",
        "metadata": { "name": name, "annotations": { "ipam.miloapis.com/prefix-length": length.to_string() } },
        "spec": { "ipFamily": "IPv4", "poolRef": { "name": "pods" } },
    })
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPClaim", "metadata": { "name": name },
        "spec": {
            "ipFamily": "IPv4", "prefixLength": 28, "poolRef": { "name": "pods" }, "reclaimPolicy": "Retain",
        },
    })
}

fn apply(store: &Path, resource: &Value) -> Call {
    typed(store, &["apply", "-f", "-", "-o", "json"], resource)
}

fn delete(store: &Path, kind: &str, name: &str) -> Call {
    typed(store, &["delete", kind, name, "--ignore-not-found"], &Value::Null)
}

/// The CIDR that an answer names.
fn cidr_of(answer: &Answer) -> Option<Cidr> {
    let shown: Value = serde_json::from_str(&answer.stdout).ok()?;
    shown.pointer("/status/allocatedCIDR")?.as_str()?.parse().ok()
}

/// What is carved out, by the names of allocations.
type Owned = BTreeMap<String, Cidr>;

/// Reads a store. Nothing in it overlaps, everything lies in the pool, and what is carved and who owns it are one to one.
#[track_caller]
fn sound(store: &Path) -> (View, Owned) {
    let view = View::of(store).sound();
    let mut opened = open(store, Access::Read, IfAbsent::None).expect("a store");
    let wants =
        [Want::All(Collection::Carved), Want::All(Collection::Allocations), Want::All(Collection::Claims)];
    let answers = run_in_place(opened.read(&wants)).expect("it is read");
    let entries: Vec<Entry> = answers.into_iter().flat_map(Read::objects).collect();
    let mut taken: Vec<Cidr> = view.blocks.iter().map(|block| block.cidr).collect();
    let (mut carved, mut owned, mut claims) = (BTreeMap::new(), Owned::new(), BTreeSet::new());
    for entry in entries {
        match entry.key.clone() {
            Key::Carved(cidr) => {
                taken.push(cidr);
                carved.insert(cidr, entry.into::<Carved>().owner);
            }
            Key::Allocation(name) => {
                let status = IpAllocationStatus::of(&entry.into::<IpAllocation>()).expect("a status");
                owned.insert(name.name, status.allocated_cidr.expect("a CIDR"));
            }
            Key::Claim(name) => drop(claims.insert(name)),
            other => panic!("{other} was not asked for"),
        }
    }
    taken.sort();
    let pool: Cidr = POOL.parse().expect("a CIDR");
    assert!(taken.iter().all(|cidr| pool.contains(*cidr)), "{taken:?}");
    for pair in taken.windows(2) {
        assert!(!pair[0].overlaps(pair[1]), "{} overlaps {}", pair[0], pair[1]);
    }
    let of_claim: BTreeMap<String, &ProjectName> =
        claims.iter().map(|claim| (allocation_of_claim(NAMESPACE, &claim.name), claim)).collect();
    for (name, cidr) in &owned {
        let whose = match of_claim.get(name) {
            Some(claim) => CarvedFor::Claim((*claim).clone()),
            None => CarvedFor::Allocation(ProjectName { project: PROJECT.into(), name: name.clone() }),
        };
        assert_eq!(carved.remove(cidr), Some(whose), "{name} has {cidr}");
    }
    assert!(carved.is_empty(), "carved for nobody: {carved:?}");
    assert!(of_claim.keys().all(|name| owned.contains_key(name)), "claims without an allocation");
    (view, owned)
}

/// What somebody at work has in the end.
#[derive(Default)]
struct Shift {
    has: BTreeMap<String, Option<Cidr>>,
    refused: usize,
}

/// Someone carves networks of mixed sizes, and gives back one for every three.
fn carver(store: &Path, number: usize) -> Shift {
    let mut shift = Shift::default();
    for turn in 0..24usize {
        let length = [30, 32, 28, 31, 29, 27][(turn + number) % 6];
        let name = format!("a{number}-{turn}");
        let answer = apply(store, &allocation(&name, length)).run();
        if answer.is_success() {
            let cidr = cidr_of(&answer).expect("the CIDR is said");
            assert_eq!(cidr.prefix(), length);
            shift.has.insert(name, Some(cidr));
        } else {
            assert_eq!(answer.status.code(), Some(2), "{answer:?}");
            assert!(answer.stderr.contains("pool `pods` is exhausted"), "{answer:?}");
            shift.refused += 1;
        }
        if turn % 3 == 2
            && let Some((name, _)) = shift.has.pop_first()
        {
            delete(store, "ipallocation", &name).run().succeeded();
        }
    }
    shift
}

/// A host starts pods, and ends one for every three.
fn host(store: &Path, number: usize) -> Shift {
    let network = network(store).on(&format!("node-{number}"));
    let mut shift = Shift::default();
    for turn in 0..36 {
        let name = format!("p{number}-{turn}");
        let answer = network.add(&name);
        if answer.is_success() {
            shift.has.insert(name, Some(Cidr::single(answer.address())));
        } else {
            assert_eq!(answer.refused().code, 101);
            shift.refused += 1;
        }
        if turn % 3 == 2
            && let Some((name, _)) = shift.has.pop_first()
        {
            network.del(&name).succeeded();
        }
    }
    shift
}

#[test]
fn pods_and_people_fill_a_pool_at_once_and_never_meet() {
    const EACH: usize = 8;
    let lab = Lab::in_memory();
    let store = lab.store();
    network(&store).add("first").succeeded();
    network(&store).del("first").succeeded();
    typed(&store, &["get", "ippools"], &Value::Null).run().succeeded();
    let (people, hosts): (Vec<Shift>, Vec<Shift>) = thread::scope(|scope| {
        let store = &store;
        let people: Vec<_> = (0..EACH).map(|number| scope.spawn(move || carver(store, number))).collect();
        let hosts: Vec<_> = (0..EACH).map(|number| scope.spawn(move || host(store, number))).collect();
        let ended = |at_work: thread::ScopedJoinHandle<'_, Shift>| at_work.join().expect("all went well");
        (people.into_iter().map(ended).collect(), hosts.into_iter().map(ended).collect())
    });
    let refused = |shifts: &[Shift]| shifts.iter().map(|shift| shift.refused).sum::<usize>();
    assert!(refused(&people) > 0 && refused(&hosts) > 0, "the pool was never full");

    // What each was told is what there is.
    let (view, owned) = sound(&store);
    let told = |shifts: &[Shift]| -> BTreeMap<String, Option<Cidr>> {
        shifts.iter().flat_map(|shift| shift.has.clone()).collect()
    };
    assert_eq!(told(&people), owned.iter().map(|(name, cidr)| (name.clone(), Some(*cidr))).collect());
    let held: BTreeMap<_, _> = view
        .held
        .iter()
        .map(|(address, holder)| (holder.container.clone(), Some(Cidr::single(*address))))
        .collect();
    assert_eq!(told(&hosts), held);

    // When everything is given back, the pool is as it was.
    for name in owned.keys() {
        delete(&store, "ipallocation", name).run().succeeded();
    }
    for (number, shift) in hosts.iter().enumerate() {
        let network = network(&store).on(&format!("node-{number}"));
        shift.has.keys().for_each(|name| drop(network.del(name).succeeded()));
    }
    for number in 0..EACH {
        delete(&store, "node", &format!("node-{number}")).run().succeeded();
    }
    let (view, owned) = sound(&store);
    assert_eq!((view.blocks.len(), view.handles, owned.len()), (0, 0, 0));
    let pool = typed(&store, &["get", "ippools.ipam.miloapis.com", "pods", "-o", "json"], &Value::Null).run();
    let status = serde_json::from_str::<Value>(&pool.succeeded().stdout).expect("JSON")["status"].clone();
    assert_eq!((&status["largestFreePrefix"], &status["capacity"]["allocated"]), (&json!(24), &json!(0)));
}

/// A command that is killed, and the store that it meets.
struct Scenario {
    call: fn(&Path) -> Call,
    /// The allocation that it makes, or takes away.
    about: &'static str,
    /// What it leaves of it.
    leaves: Leaves,
    /// Whether it writes the journal out.
    cuts: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    It,
    Nothing,
}

/// A pool in which pods, an allocation and a claim are.
fn lived_in(store: &Path) {
    for n in 0..3 {
        network(store).add(&format!("held{n}")).succeeded();
    }
    apply(store, &allocation("there", 28)).run().succeeded();
    apply(store, &claim("kept")).run().succeeded();
}

/// Kills the command before each of its system calls in turn.
fn survives_every_kill(scenario: &Scenario) {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let template = lab.path().join("template");
    lived_in(&template);
    if scenario.cuts {
        come_close_to_a_cut(&network(&template), &template, lab.path(), &(scenario.call)(&template));
    }
    let (_, before) = sound(&template);
    let copy = |name: &str| -> PathBuf {
        let store = lab.path().join(name);
        copy_tree(&template, &store);
        store
    };
    let undisturbed = copy("undisturbed");
    let header = header_of(&undisturbed);
    let (answer, calls) = strace::record(&strace, (scenario.call)(&undisturbed), lab.path());
    answer.succeeded();
    assert_eq!(header != header_of(&undisturbed), scenario.cuts, "whether the journal is written out");
    // The first is the `exec` itself, before which there is nobody to be killed.
    let points: Vec<&SystemCall> = calls.iter().skip(1).collect();
    assert!(points.len() > 30, "{points:?}");
    let name = thread::current().name().unwrap_or("a test").to_owned();
    tell(&format!("COUNT {} kills at a system call: {name}", points.len()));
    let trial = |number: usize, point: &SystemCall| {
        let store = copy(&format!("trial-{number}"));
        let answer = strace::troubled(&strace, (scenario.call)(&store), &point.inject("signal=KILL"));
        let spared = point.is_by_chance() && answer.is_success();
        assert!(answer.was_killed() || spared, "not killed at {}: {answer:?}", point.line);
        holds(scenario, &store, &before, &answer);
        fs::remove_dir_all(&store).expect("it is a copy");
    };
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (points, trial) = (&points, &trial);
            scope.spawn(move || {
                for (number, point) in points.iter().enumerate().skip(worker).step_by(WORKERS) {
                    trial(number, point);
                }
            });
        }
    });
}

/// What was promised holds after the command: for a reader, for the next who carve, and for the same command again.
fn holds(scenario: &Scenario, store: &Path, before: &Owned, answer: &Answer) {
    let others = |owned: &Owned| -> Owned {
        owned
            .iter()
            .filter(|(name, _)| *name != scenario.about)
            .map(|(name, cidr)| (name.clone(), *cidr))
            .collect()
    };
    let (view, now) = sound(store);
    assert_eq!(others(&now), others(before));
    if answer.is_success() {
        assert_eq!(now.contains_key(scenario.about), scenario.leaves == Leaves::It);
    }
    let pod = network(store).add("bystander").address();
    assert!(!view.held.contains_key(&pod) && !now.values().any(|cidr| cidr.contains_address(pod)));
    let next = apply(store, &allocation("next", 30)).run().succeeded();
    assert!(cidr_of(&next).is_some());
    (scenario.call)(store).run().succeeded();
    let (_, after) = sound(store);
    assert_eq!(after.contains_key(scenario.about), scenario.leaves == Leaves::It);
    if let (Some(had), Some(has)) = (now.get(scenario.about), after.get(scenario.about)) {
        assert_eq!(had, has, "it keeps what it got");
    }
}

#[test]
fn an_apply_that_is_killed_carves_all_or_nothing() {
    let call = |store: &Path| apply(store, &allocation("killed", 27));
    survives_every_kill(&Scenario { call, about: "killed", leaves: Leaves::It, cuts: false });
}

#[test]
fn an_apply_that_is_killed_while_it_writes_the_journal_out_carves_all_or_nothing() {
    let call = |store: &Path| apply(store, &allocation("killed", 27));
    survives_every_kill(&Scenario { call, about: "killed", leaves: Leaves::It, cuts: true });
}

#[test]
fn a_deletion_that_is_killed_frees_all_or_nothing() {
    let call = |store: &Path| delete(store, "ipallocation", "there");
    survives_every_kill(&Scenario { call, about: "there", leaves: Leaves::Nothing, cuts: false });
}

#[test]
fn a_claim_whose_deletion_is_killed_leaves_what_it_retains() {
    let call = |store: &Path| delete(store, "ipclaim", "kept");
    survives_every_kill(&Scenario { call, about: "alloc-6d8685aa1a4a6211", leaves: Leaves::It, cuts: false });
}
