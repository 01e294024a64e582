//! Random histories: the engine over a store, beside a reference without blocks.
//!
//! `HOST_AFFINE_MODEL_OPERATIONS=1000000` lets that many operations happen instead of some thousands.
//! `HOST_AFFINE_SEED=s` repeats the history that a failing run named.

mod carving;
mod endings;
mod judge_add;
mod operation;
mod people;
mod settings;
mod snapshot;
pub(crate) mod subject;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use host_affine::clock::Timestamp;
use host_affine::datastore::memory::Memory;
use host_affine::ipam::{Host, Ipam};
use host_affine::net::{Cidr, Family};

use super::build::{SECOND, START, name};
use super::reference::{Reference, Traits};
use super::sim::Kind;
use super::{option, report};
use operation::{HOSTS, NETWORKS, Operation, ZONES, address_at, operation};
use snapshot::Snapshot;
use subject::{Files, Lost, Shared, Subject, finish};

/// Operations of one history, on average.
const LENGTH: usize = 120;
/// Histories, where nothing else is asked for.
const HISTORIES: usize = 120;
/// Histories that failed once are tried first: a seed a line, and what it found.
const FAILED_ONCE: &str = include_str!("../../../proptest-regressions/engine/model/mod.txt");

#[test]
fn whatever_happens_the_engine_agrees_with_a_reference_without_blocks() {
    happen(1, |_| Memory::new());
}

#[test]
fn whatever_happens_to_files_that_are_closed_and_opened_the_engine_agrees_with_the_reference() {
    happen(4, |_| Files::new());
}

#[test]
fn whatever_happens_to_a_store_of_many_machines_that_applies_in_order_the_engine_agrees_with_the_reference() {
    happen(2, |seed| Shared::new(Kind::InOrder, false, seed));
}

#[test]
fn whatever_happens_to_a_store_that_loses_answers_the_engine_agrees_with_the_reference() {
    happen(2, |seed| Shared::new(Kind::Atomic, true, seed));
}

/// Lets random histories happen, each from a seed of its own: one in `part` of as many as are asked for.
fn happen<D: Subject>(part: usize, store: impl Fn(u64) -> D) {
    let operations = option("HOST_AFFINE_MODEL_OPERATIONS").and_then(|all| usize::try_from(all).ok());
    let histories = operations.map_or(HISTORIES, |all| all.div_ceil(LENGTH)) / part;
    let failed_once = FAILED_ONCE.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let seeds: Vec<u64> = match option("HOST_AFFINE_SEED") {
        Some(seed) => vec![seed],
        None => failed_once.chain(random_seeds().take(histories)).collect(),
    };
    for seed in seeds {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let config = ProptestConfig {
            cases: 1,
            max_shrink_iters: 1500,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let history = prop::collection::vec(operation(), 1..2 * LENGTH);
        let outcome = TestRunner::new_with_rng(config, rng).run(&history, |history| {
            let ran = catch_unwind(AssertUnwindSafe(|| keeps_its_promises(store(seed), &history)));
            ran.map_err(|failure| {
                let text = failure.downcast_ref::<String>().cloned();
                let text = text.or_else(|| failure.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                TestCaseError::fail(text.unwrap_or_default())
            })
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, history)) => {
                for operation in &history {
                    report(&format!("    {operation:?}"));
                }
                panic!("{why}; repeat it with HOST_AFFINE_SEED={seed}");
            }
            Err(aborted) => panic!("{aborted}; repeat it with HOST_AFFINE_SEED={seed}"),
        }
    }
}

/// Other seeds in every run.
fn random_seeds() -> impl Iterator<Item = u64> {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    std::iter::repeat_with(|| RandomState::new().build_hasher().finish())
}

/// Lets a history happen to the engine over an empty store, and to the reference, and compares the two after each step.
fn keeps_its_promises<D: Subject>(store: D, history: &[Operation]) {
    let mut machine = Machine::new(store);
    for operation in history {
        machine.step(operation);
    }
}

/// The engine, and the reference beside it.
struct Machine<D> {
    ipam: Ipam<D>,
    reference: Reference,
    before: Snapshot,
    steps: u32,
    /// Blocks of which the store has lost whether they have room: it may pass them over until they are written again.
    unlisted: BTreeSet<Cidr>,
}

impl<D: Subject> Machine<D> {
    fn new(store: D) -> Self {
        let mut reference = Reference::default();
        (reference.cap, reference.auto_allocate) = (20, true);
        reference.store = Traits { one_kernel: store.is_one_kernel(), atomic: store.is_atomic() };
        reference.now = Timestamp::from_nanos(START);
        for host in HOSTS {
            reference.boots.insert(host.into(), "boot-0".into());
        }
        let mut machine = Self {
            ipam: Ipam::new(store),
            reference,
            before: Snapshot::default(),
            steps: 0,
            unlisted: BTreeSet::new(),
        };
        machine.put_pool(0, false, None);
        machine.put_pool(3, false, None);
        machine
    }

    fn host(&self, host: &str) -> Host {
        Host { boot: self.reference.boots.get(host).cloned(), ..Host::named(name(host)) }
    }

    /// A host boots again; on a store of one kernel all of them do, since they run on it.
    fn boot(&mut self, host: &str) {
        let one_kernel = self.reference.store.one_kernel;
        let boot = format!("boot-{}", self.steps);
        for other in HOSTS.into_iter().filter(|other| one_kernel || *other == host) {
            self.reference.boots.insert(other.into(), boot.clone());
        }
    }

    fn step(&mut self, operation: &Operation) {
        self.steps += 1;
        match operation {
            Operation::Add { attachment, wants } => self.add(*attachment, wants),
            Operation::Del(attached) => self.del(*attached),
            Operation::DelHandle(attached) => self.del_handle(*attached),
            Operation::Gc { network, keep } => self.gc(NETWORKS[*network], *keep),
            Operation::Configure { strict, cap, cooldown, auto_allocate } => {
                self.configure(*strict, *cap, *cooldown, *auto_allocate);
            }
            Operation::PutPool { which, disabled, zone } => self.put_pool(*which, *disabled, *zone),
            Operation::Reserve { which, on } => self.reserve(*which, *on),
            Operation::Label { host, zone } => self.label(HOSTS[*host], ZONES[*zone]),
            Operation::Boot { host } => self.boot(HOSTS[*host]),
            Operation::Free { address, read } => self.free(address_at(*address), *read),
            Operation::GiveUp { host, empty_only } => self.give_up(HOSTS[*host], *empty_only),
            Operation::GiveUpBlock { address, empty_only } => self.give_up_block(*address, *empty_only),
            Operation::RemovePool { which, force } => self.remove_pool(*which, *force),
            Operation::Carve(asked) => self.carve(*asked),
            Operation::GiveBackCarve { name } => self.give_back_carve(*name),
            Operation::Reopen(between) => {
                if self.ipam.store_mut().reopen(*between) == Lost::WhichBlocksHaveRoom {
                    self.unlisted = self.before.blocks.keys().copied().collect();
                }
            }
            Operation::Wait { seconds } => {
                let now = self.reference.now.as_nanos() + seconds * SECOND;
                self.reference.now = Timestamp::from_nanos(now);
            }
        }
        self.reference.look_at_cooling();
        let after = Snapshot::of(self.ipam.store_mut());
        after.check(&self.reference, &self.before);
        for host in HOSTS {
            self.check_cap(&after, host);
        }
        if self.steps.is_multiple_of(8) {
            self.check_usage();
        }
        for cidr in self.before.blocks.keys().filter(|cidr| !after.blocks.contains_key(cidr)) {
            self.reference.forget(*cidr);
        }
        let is_as_it_was = |cidr: &Cidr| match (self.before.blocks.get(cidr), after.blocks.get(cidr)) {
            (Some((before, _)), Some((now, _))) => before == now,
            _ => false,
        };
        self.unlisted.retain(is_as_it_was);
        self.before = after;
    }

    /// A host never gets a further block when it has as many as it may.
    fn check_cap(&self, after: &Snapshot, host: &str) {
        for family in Family::BOTH {
            let (had, has) = (self.before.blocks_of(host, family).len(), after.blocks_of(host, family).len());
            assert!(
                has <= had.max(self.reference.cap),
                "{host} has {has} blocks, and may have {}",
                self.reference.cap
            );
        }
    }

    fn check_usage(&mut self) {
        let usage = finish(self.ipam.usage(self.reference.now)).expect("counts");
        for orphan in usage.orphans {
            assert!(
                !self.reference.pools.values().any(|pool| pool.range.contains(orphan.cidr)),
                "{orphan:?}"
            );
        }
        for pool in usage.pools {
            assert_eq!(pool.capacity, pool.in_use + pool.reserved + pool.carved + pool.free, "{pool:?}");
            // What has cooled is counted as in use until its block is written again.
            let unreserved = || {
                snapshot::addresses_of(pool.cidr).filter(|address| {
                    !self.reference.is_reserved(*address) && !self.reference.is_carved(*address)
                })
            };
            let surely = unreserved().filter(|address| self.reference.is_surely_free(*address)).count();
            let perhaps = unreserved().filter(|address| self.reference.is_perhaps_free(*address)).count();
            let free = usize::try_from(pool.free).expect("a small pool");
            assert!((surely..=perhaps).contains(&free), "{pool:?}, {surely} to {perhaps} usable");
        }
    }
}
