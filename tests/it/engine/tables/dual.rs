//! Two families in one request, of which one may be had and the other not.

use std::collections::{BTreeMap, BTreeSet};

use host_affine::api::calico::{IpReservation, IpReservationSpec, IpamHandle};
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Answer, Batch, Commit, Entry, Key, Object, Want};
use host_affine::ipam::{Error, Ipam, audit};
use host_affine::net::Family;

use super::super::build::{Ask, addresses, pool};
use super::super::choices::Choices;
use super::super::model::subject::{Shared, Subject, finish};
use super::super::sim::Kind;

/// The pools, and what is reserved of one to exhaust it.
const POOLS: [(&str, &str, u8); 2] = [("p4", "10.0.0.0/28", 30), ("p6", "fd00::/124", 126)];

#[test]
fn ten_thousand_starts_leak_nothing_while_one_family_is_exhausted_at_random_moments() {
    start_and_end(Memory::new(), 10_000);
}

#[test]
fn starts_leak_nothing_in_a_store_that_applies_in_order() {
    start_and_end(Shared::new(Kind::InOrder, false, 1), 1_000);
}

#[test]
fn starts_leak_nothing_in_a_store_that_loses_answers() {
    start_and_end(Shared::new(Kind::Atomic, true, 2), 1_000);
}

fn start_and_end<D: Subject>(store: D, starts: usize) {
    let mut ipam = Ipam::new(store);
    let mut choices = Choices::seeded(3);
    for (name, range, block) in POOLS {
        put(&mut ipam, Key::Pool(name.into()), Some(pool(name, range, block).into()));
    }
    let mut alive: BTreeMap<String, Ask> = BTreeMap::new();
    let mut exhausted: Option<usize> = None;
    let (mut refused, mut refused_though_free) = (0, 0);
    for _ in 0..starts {
        if choices.pick(20) == 0 {
            // One moment it is this family, one the other, one neither.
            let now = [None, Some(1), Some(0), Some(1)][choices.pick(4)];
            reserve(&mut ipam, exhausted, None);
            reserve(&mut ipam, now, now);
            exhausted = now;
        }
        while choices.pick(3) == 0 && !alive.is_empty() {
            let (_, ask) = alive.pop_first().expect("one is alive");
            finish(ask.end(&mut ipam)).expect("a DEL");
        }
        // Names come again, so that some ask for what they hold.
        let id = format!("c{}", choices.pick(40));
        let ask =
            alive.get(&id).cloned().unwrap_or_else(|| Ask::new(["a", "b", "c"][choices.pick(3)], &id).dual());
        match finish(ask.of(&mut ipam)) {
            Ok(given) => {
                assert_eq!(given.addresses.len(), 2);
                assert!(addresses(&given).iter().map(|address| Family::of(*address)).eq(Family::BOTH));
                alive.insert(id, ask);
            }
            Err(error) => {
                assert!(matches!(error, Error::Exhausted { .. }), "{error}");
                assert!(!alive.contains_key(&id), "refused what it holds: {error}");
                refused += 1;
                refused_though_free += usize::from(exhausted.is_some() && alive.len() < 16);
            }
        }
        if refused % 50 == 0 {
            look(&mut ipam, &alive);
        }
    }
    look(&mut ipam, &alive);
    assert!(
        refused_though_free > starts / 20,
        "{refused_though_free} of {refused} refusals left one family to be had"
    );
    while let Some((_, ask)) = alive.pop_first() {
        finish(ask.end(&mut ipam)).expect("a DEL");
    }
    look(&mut ipam, &alive);
}

/// Nothing is held but by who is alive: no address, no handle, no affinity without a block, no block without use.
fn look<D: Subject>(ipam: &mut Ipam<D>, alive: &BTreeMap<String, Ask>) {
    let wants = [Want::AllBlocks, Want::AllHandles, Want::AllAffinities];
    let read = finish(ipam.store_mut().read(&wants)).expect("a store that can be read");
    let entries: Vec<Entry> = read.into_iter().flat_map(Answer::objects).collect();
    assert_eq!(audit(entries.iter().map(|entry| (entry.key.clone(), entry.object.clone()))), []);
    let mut handles = BTreeSet::new();
    let mut in_use = 0;
    let mut idle: BTreeMap<(String, Family), usize> = BTreeMap::new();
    for entry in entries {
        match (entry.key, entry.object) {
            (Key::Handle(id), Object::Handle(handle)) => {
                assert_eq!(addresses_of(&handle), 2, "{id}: {handle:?}");
                handles.insert(id.to_string());
            }
            (Key::Block(cidr), Object::Block(block)) => {
                let used = block.allocations.len() - block.unallocated.len();
                in_use += used;
                if used == 0 {
                    let owner =
                        block.affinity.expect("a block of nobody goes with its last address").to_string();
                    *idle.entry((owner, cidr.family())).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    let expected: BTreeSet<String> = alive.keys().map(|id| format!("net.{id}")).collect();
    assert_eq!(handles, expected);
    assert_eq!(in_use, 2 * alive.len());
    assert!(idle.values().all(|blocks| *blocks == 1), "each host keeps one empty block at most: {idle:?}");
}

fn addresses_of(handle: &IpamHandle) -> u32 {
    handle.block.values().sum()
}

/// Reserves all of a pool, or lifts that.
fn reserve<D: Subject>(ipam: &mut Ipam<D>, which: Option<usize>, on: Option<usize>) {
    let Some((name, range, _)) = which.map(|which| POOLS[which]) else {
        return;
    };
    let spec = IpReservationSpec { reserved_cidrs: vec![range.into()], ..IpReservationSpec::default() };
    let object = on.map(|_| IpReservation::new(name, spec).into());
    put(ipam, Key::Reservation(name.into()), object);
}

/// Makes an object that is not there, or takes away one that is.
fn put<D: Subject>(ipam: &mut Ipam<D>, key: Key, object: Option<Object>) {
    let store = ipam.store_mut();
    store.disturb(false);
    let read = finish(store.read(&[Want::Object(key.clone())])).expect("a store that can be read").pop();
    let mut batch = Batch::default();
    match (read.and_then(Answer::object), object) {
        (None, Some(object)) => batch.create(key, object),
        (Some(entry), None) => batch.delete(key, entry.revision),
        (there, wanted) => panic!("{there:?}, and {wanted:?} wanted"),
    }
    assert_eq!(finish(store.commit(batch)).expect("a store that can be written"), Commit::Applied);
    store.disturb(true);
}
