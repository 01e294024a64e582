//! State in a real etcd: how often it is asked, what happens when it does not answer, and what is said then. Skipped by
//! name where it is not installed.

mod cli;
mod faults;
mod lost;
mod objects;
mod paging;
mod requests;
mod trust;

use std::time::Duration;

use host_affine::api::calico::{AffinityState, BlockAffinity, IpamBlock, IpamHandle};
use host_affine::api::{Affinity, HandleId, HostName};
use host_affine::clock::Timestamp;
use host_affine::datastore::etcd::{EtcdOptions, EtcdStore, Patience};
use host_affine::datastore::{
    Answer, Batch, Class, Commit, Datastore as _, Entry, Error, Fault, Key, Want, run_in_place,
};
use host_affine::net::Cidr;

use crate::support::etcd::need_etcd;

fn cidr(text: &str) -> Cidr {
    text.parse().expect(text)
}

fn host(name: &str) -> HostName {
    HostName::new(name).expect(name)
}

fn handle(name: &str) -> HandleId {
    HandleId::new(name).expect(name)
}

/// Endpoints, with a patience that outlasts no test.
fn options(urls: &[String]) -> EtcdOptions {
    EtcdOptions { patience: Patience::Request(Duration::from_secs(20)), ..EtcdOptions::at(urls.to_vec()) }
}

fn open(options: &EtcdOptions) -> EtcdStore {
    EtcdStore::open(options).expect("the store opens")
}

fn read(store: &mut EtcdStore, wants: &[Want]) -> Result<Vec<Answer>, Error> {
    run_in_place(store.read(wants))
}

fn get(store: &mut EtcdStore, key: Key) -> Option<Entry> {
    let answers = read(store, &[Want::Object(key)]).expect("it can be read");
    answers.into_iter().next().and_then(Answer::object)
}

fn commit(store: &mut EtcdStore, fill: impl FnOnce(&mut Batch)) -> Result<Commit, Error> {
    let mut batch = Batch::default();
    fill(&mut batch);
    run_in_place(store.commit(batch))
}

/// A block of a host with its affinity.
fn claim(range: &str, of: &str) -> impl FnOnce(&mut Batch) {
    let owner = Affinity::Host(host(of));
    let block = IpamBlock::new(cidr(range), Some(owner.clone()), Timestamp::from_nanos(7_000_000_000), 1000);
    move |batch: &mut Batch| {
        batch.create(Key::Affinity(owner, block.cidr), BlockAffinity::new(AffinityState::Confirmed));
        batch.create(Key::Block(block.cidr), block);
    }
}

/// A handle that counts one address.
fn held(name: &str, range: &str) -> impl FnOnce(&mut Batch) {
    let counts = IpamHandle { block: [(cidr(range), 1)].into(), ..IpamHandle::default() };
    let key = Key::Handle(handle(name));
    move |batch: &mut Batch| batch.create(key, counts)
}

/// The fault of an error, and all that is said of it.
fn fault(error: &Error) -> (Fault, Class, String) {
    match error {
        Error::Remote { fault, .. } => (*fault, error.class(), format!("{error}; {}", error.hint())),
        other => panic!("{other}"),
    }
}
