//! Random histories: the engine over a store, beside a reference without blocks.
//!
//! `HOST_AFFINE_MODEL_OPERATIONS=1000000` runs that many operations instead of some thousands.

mod judge_add;
mod operation;
mod snapshot;

use std::collections::BTreeSet;

use proptest::prelude::*;

use host_affine::api::calico::{IpPool, IpPoolSpec, IpReservation, IpReservationSpec, IpamConfiguration};
use host_affine::api::calico::{IpamConfigurationSpec, Node, NodeSpec};
use host_affine::clock::Timestamp;
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Batch, Commit, Datastore, Key, Object, Want, run_in_place};
use host_affine::ipam::{Host, Ipam};

use super::build::{SECOND, START, cidr, name};
use super::option;
use super::reference::{Pool, Reference};
use operation::{Attached, HOSTS, NETWORKS, Operation, POOLS, RESERVATIONS, ZONES, operation};
use snapshot::Snapshot;

/// Operations of one history.
const LENGTH: usize = 120;
/// Histories, where nothing else is asked for.
const HISTORIES: u32 = 40;

fn config() -> ProptestConfig {
    let asked = option("HOST_AFFINE_MODEL_OPERATIONS").and_then(|all| u32::try_from(all).ok());
    let cases = asked.map_or(HISTORIES, |all| all / u32::try_from(LENGTH).expect("small") + 1);
    ProptestConfig { cases, max_shrink_iters: 1500, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_engine_agrees_with_a_reference_without_blocks(
        history in prop::collection::vec(operation(), 1..2 * LENGTH),
    ) {
        keeps_its_promises(Memory::new(), &history);
    }
}

/// Lets a history happen to the engine over an empty store, and to the reference, and compares the two after each step.
pub(crate) fn keeps_its_promises<D: Datastore>(store: D, history: &[Operation]) {
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
}

impl<D: Datastore> Machine<D> {
    fn new(store: D) -> Self {
        let mut reference = Reference::default();
        (reference.cap, reference.auto_allocate) = (20, true);
        reference.now = Timestamp::from_nanos(START);
        for host in HOSTS {
            reference.boots.insert(host.into(), "boot-0".into());
        }
        let mut machine = Self { ipam: Ipam::new(store), reference, before: Snapshot::default(), steps: 0 };
        machine.put_pool(0, false, None);
        machine.put_pool(3, false, None);
        machine
    }

    fn host(&self, host: &str) -> Host {
        Host { name: name(host), boot: self.reference.boots.get(host).cloned() }
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
            Operation::Boot { host } => {
                self.reference.boots.insert(HOSTS[*host].into(), format!("boot-{}", self.steps));
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
        self.before = after;
    }

    /// A host never gets a further block when it has as many as it may.
    fn check_cap(&self, after: &Snapshot, host: &str) {
        for family in host_affine::net::Family::BOTH {
            let (had, has) = (self.before.blocks_of(host, family).len(), after.blocks_of(host, family).len());
            assert!(
                has <= had.max(self.reference.cap),
                "{host} has {has} blocks, and may have {}",
                self.reference.cap
            );
        }
    }

    fn check_usage(&mut self) {
        let usage = run_in_place(self.ipam.usage(self.reference.now)).expect("counts");
        assert_eq!(usage.orphans, []);
        for pool in usage.pools {
            assert_eq!(pool.capacity, pool.in_use + pool.reserved + pool.free, "{pool:?}");
            // What has cooled is counted as in use until its block is written again.
            let unreserved =
                || snapshot::addresses_of(pool.cidr).filter(|address| !self.reference.is_reserved(*address));
            let surely = unreserved().filter(|address| self.reference.is_surely_free(*address)).count();
            let perhaps = unreserved().filter(|address| self.reference.is_perhaps_free(*address)).count();
            let free = usize::try_from(pool.free).expect("a small pool");
            assert!((surely..=perhaps).contains(&free), "{pool:?}, {surely} to {perhaps} usable");
        }
    }

    fn del(&mut self, attached: Attached) {
        let attachment = attached.name();
        let expected = self.reference.held_by(&attachment);
        let host = self.host(attached.host());
        let released = run_in_place(self.ipam.release(&attachment, &host, self.reference.now));
        let released: BTreeSet<_> = released.expect("a DEL succeeds").addresses.into_iter().collect();
        assert_eq!(released, expected);
        self.reference.release(&expected, false);
        self.check_given_back(&expected);
    }

    fn del_handle(&mut self, attached: Attached) {
        let handle = attached.name().handle().expect("a handle");
        let leases = &self.reference.leases;
        let meant =
            leases.iter().filter(|(_, lease)| lease.attachment.handle().ok().as_ref() == Some(&handle));
        let expected: BTreeSet<_> = meant.map(|(address, _)| *address).collect();
        let host = self.host(attached.host());
        let released = run_in_place(self.ipam.release_handle(&handle, &host, self.reference.now));
        let released: BTreeSet<_> = released.expect("a release succeeds").addresses.into_iter().collect();
        assert_eq!(released, expected);
        self.reference.release(&expected, false);
        self.check_given_back(&expected);
    }

    fn gc(&mut self, network: &str, keep: u32) {
        let valid = Attached::of_containers(keep).map(|kept| (kept.container_id, kept.ifname)).collect();
        let host = self.host(HOSTS[0]);
        let released = run_in_place(self.ipam.collect(network, &valid, &host, self.reference.now));
        let released: BTreeSet<_> = released.expect("a GC succeeds").addresses.into_iter().collect();
        let is_gone = |attachment: &host_affine::ipam::Attachment| {
            attachment.network == network
                && !valid.contains(&(attachment.container_id.clone(), attachment.ifname.clone()))
        };
        let leases = self.reference.leases.iter().filter(|(_, lease)| is_gone(&lease.attachment));
        let expected: BTreeSet<_> = leases.map(|(address, _)| *address).collect();
        assert_eq!(released, expected);
        // Attachments go one by one, so nobody here knows the order of the addresses.
        let cooldown = self.reference.cooldown;
        self.reference.release(&expected, false);
        if cooldown == 0 {
            self.reference.mix(&expected);
        }
        self.check_given_back(&expected);
    }

    /// A block that a release emptied is gone, unless it is its host's last one of a pool that serves the host.
    fn check_given_back(&mut self, released: &BTreeSet<std::net::IpAddr>) {
        let after = Snapshot::of(self.ipam.store_mut());
        for address in released {
            let Some(block) = after.block_of(*address).filter(|block| block.attributes.is_empty()) else {
                continue;
            };
            let owner = block.affinity.as_ref().expect("an empty block of nobody stays");
            let host = owner.name().as_str();
            assert!(self.reference.keeps_blocks_of(host, block.cidr), "{} stays with {host}", block.cidr);
            let pool = self.reference.pools.values().find(|pool| pool.range.contains(block.cidr));
            let range = pool.expect("blocks lie in pools").range;
            let of_pool =
                after.blocks_of(host, range.family()).iter().filter(|b| range.contains(b.cidr)).count();
            assert_eq!(of_pool, 1, "{} is empty, and {host} has others", block.cidr);
        }
    }

    fn configure(&mut self, strict: bool, cap: u8, cooldown: bool, auto_allocate: bool) {
        let seconds = if cooldown { 30 } else { 0 };
        let spec = IpamConfigurationSpec {
            strict_affinity: Some(strict),
            max_blocks_per_host: Some(cap.into()),
            auto_allocate_blocks: Some(auto_allocate),
            ip_cooldown_seconds: Some(seconds),
            ..IpamConfigurationSpec::default()
        };
        self.reference.strict = strict;
        self.reference.cap = if cap == 0 { 20 } else { cap.into() };
        self.reference.auto_allocate = auto_allocate;
        self.reference.cooldown = seconds.into();
        self.put(&Key::Configuration, Some(IpamConfiguration::new("default", spec).into()));
    }

    fn put_pool(&mut self, which: usize, disabled: bool, zone: Option<usize>) {
        let (name, range, block_prefix) = POOLS[which];
        let zone = zone.map(|zone| ZONES[zone].to_owned());
        let spec = IpPoolSpec {
            block_size: Some(block_prefix),
            disabled,
            node_selector: zone.as_ref().map(|zone| format!("zone == '{zone}'")),
            ..IpPoolSpec::new(cidr(range))
        };
        self.reference.pools.insert(name.into(), Pool { range: cidr(range), block_prefix, disabled, zone });
        self.put(&Key::Pool(name.into()), Some(IpPool::new(name, spec).into()));
    }

    fn reserve(&mut self, which: usize, on: bool) {
        let entry = RESERVATIONS[which];
        let name = format!("r{which}");
        let spec = IpReservationSpec { reserved_cidrs: vec![entry.into()], ..IpReservationSpec::default() };
        if on {
            self.reference.reservations.insert(name.clone(), cidr(entry));
        } else {
            self.reference.reservations.remove(&name);
        }
        let object = on.then(|| IpReservation::new(name.clone(), spec).into());
        self.put(&Key::Reservation(name), object);
    }

    fn label(&mut self, host: &str, zone: &str) {
        let mut node = Node::new(host, NodeSpec::default());
        node.metadata.labels.insert("zone".into(), zone.into());
        self.reference.zones.insert(host.into(), zone.into());
        self.put(&Key::Node(name(host)), Some(node.into()));
    }

    /// Puts an object, or takes it away, whatever stands there.
    fn put(&mut self, key: &Key, object: Option<Object>) {
        let store = self.ipam.store_mut();
        let there = run_in_place(store.read(&[Want::Object(key.clone())])).expect("a store that can be read");
        let there = there.into_iter().next().and_then(host_affine::datastore::Answer::object);
        let mut batch = Batch::default();
        match (there, object) {
            (None, None) => return,
            (None, Some(object)) => batch.create(key.clone(), object),
            (Some(entry), Some(object)) => batch.update(key.clone(), entry.revision, object),
            (Some(entry), None) => batch.delete(key.clone(), entry.revision),
        }
        assert_eq!(run_in_place(store.commit(batch)).expect("a store that can be written"), Commit::Applied);
    }
}
