//! What the engine does besides giving and taking addresses: owners, handles that are shared, blocks given up.

mod affinities;
mod owners;
mod shared;

use std::collections::BTreeMap;

use host_affine::api::HandleId;
use host_affine::datastore::{Datastore, run_in_place};
use host_affine::ipam::{Assign, Assigned, Error, Ipam, NoOwnAddresses, Owner, Sharing};

use super::build::Ask;
use super::either::{Either, again_on_etcd};

#[test]
fn verbs_do_so_on_etcd_too() {
    again_on_etcd(&["engine::verbs::"], 12);
}

/// What is noted about a pod that owns an address.
fn pod(name: &str) -> BTreeMap<String, String> {
    [("namespace", "prod"), ("pod", name), ("node", "n")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn handle(id: &str) -> HandleId {
    HandleId::new(id).expect(id)
}

/// Asks as one of those that share a handle.
fn ask_shared<D: Datastore>(
    ipam: &mut Ipam<D>,
    ask: &Ask,
    handle: &HandleId,
    most: u32,
) -> Result<Assigned, Error> {
    let owner = Owner { attachment: ask.attachment.clone(), host: ask.host.clone(), netns: None, pod: None };
    let request = Assign {
        host: &ask.host,
        owner: &owner,
        sharing: Sharing::Handle { handle, most },
        wanted: &ask.wanted,
        pools: &ask.pools,
        gateways: None,
        import: None,
        own_addresses: &NoOwnAddresses,
        now: ask.now,
    };
    run_in_place(ipam.assign(&request))
}

/// An engine over a store that a test fills.
fn engine(fill: impl FnOnce(&mut Either)) -> Ipam<Either> {
    let mut store = Either::new();
    fill(&mut store);
    Ipam::new(store)
}
