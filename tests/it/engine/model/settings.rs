//! What people set: options, pools, reservations, labels.

use host_affine::api::calico::{
    IpPool, IpPoolSpec, IpReservation, IpReservationSpec, IpamConfiguration, IpamConfigurationSpec, Node,
    NodeSpec,
};
use host_affine::datastore::{Answer, Batch, Commit, Entry, Key, Object, Want};

use super::super::build::{cidr, name};
use super::super::reference::Pool;
use super::Machine;
use super::operation::{POOLS, RESERVATIONS, ZONES};
use super::subject::{Subject, finish};

impl<D: Subject> Machine<D> {
    pub(super) fn configure(&mut self, strict: bool, cap: u8, cooldown: bool, auto_allocate: bool) {
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

    pub(super) fn put_pool(&mut self, which: usize, disabled: bool, zone: Option<usize>) {
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

    pub(super) fn reserve(&mut self, which: usize, on: bool) {
        let entry = RESERVATIONS[which];
        let name = format!("r{which}");
        let spec = IpReservationSpec { reserved_cidrs: vec![entry.into()], ..IpReservationSpec::default() };
        if on {
            self.reference.reservations.insert(name.clone(), cidr(entry));
        } else {
            self.reference.reservations.remove(&name);
            if self.ipam.store_mut().notes_room() {
                let freed = cidr(entry);
                self.unlisted.extend(self.before.blocks.keys().filter(|block| block.overlaps(freed)));
            }
        }
        let object = on.then(|| IpReservation::new(name.clone(), spec).into());
        self.put(&Key::Reservation(name), object);
    }

    pub(super) fn label(&mut self, host: &str, zone: &str) {
        let mut node = Node::new(host, NodeSpec::default());
        node.metadata.labels.insert("zone".into(), zone.into());
        self.reference.zones.insert(host.into(), zone.into());
        self.put(&Key::Node(name(host)), Some(node.into()));
    }

    /// Puts an object, or takes it away, whatever stands there.
    pub(super) fn put(&mut self, key: &Key, object: Option<Object>) {
        let store = self.ipam.store_mut();
        store.disturb(false);
        let there = finish(store.read(&[Want::Object(key.clone())])).expect("a store that can be read");
        let there = there.into_iter().next().and_then(Answer::object);
        let mut batch = Batch::default();
        match (there, object) {
            (None, None) => return,
            (None, Some(object)) => batch.create(key.clone(), object),
            (Some(entry), Some(object)) => batch.update(key.clone(), entry.revision, object),
            (Some(entry), None) => batch.delete(key.clone(), entry.revision),
        }
        assert_eq!(finish(store.commit(batch)).expect("a store that can be written"), Commit::Applied);
        store.disturb(true);
    }

    pub(super) fn stored_pool(&mut self, name: &str) -> Option<IpPool> {
        let want = Want::Object(Key::Pool(name.to_owned()));
        let read = finish(self.ipam.store_mut().read(&[want])).expect("a store that can be read").pop();
        read.and_then(Answer::object).map(Entry::into)
    }
}
