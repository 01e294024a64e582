//! What the tests store, and how they ask.

use host_affine::api::calico::{Attribute, AttributeFields, IpPool, IpPoolSpec, IpamBlock, IpamHandle};
use host_affine::api::milo::{IpAllocation, IpAllocationSpec, IpClaim};
use host_affine::api::{Affinity, HandleId, HostName, ObjectMeta};
use host_affine::clock::Timestamp;
use host_affine::datastore::{
    Answer, Batch, Carved, CarvedFor, Commit, Datastore, Entry, Key, Machine, MachineAttachment, MachineRole,
    Object, ProjectName, Revision, Want, run_in_place,
};
use host_affine::net::{Cidr, Family};

pub(super) fn cidr(text: &str) -> Cidr {
    text.parse().expect(text)
}

pub(super) fn host(name: &str) -> HostName {
    HostName::new(name).expect(name)
}

pub(super) fn owner(name: &str) -> Affinity {
    host(name).into()
}

pub(super) fn handle(name: &str) -> HandleId {
    HandleId::new(name).expect(name)
}

pub(super) fn attribute(handle: &str, pod: &str) -> Attribute {
    Attribute::new(&AttributeFields {
        handle_id: Some(handle.into()),
        active_owner: Some([("pod".to_owned(), pod.to_owned())].into()),
        ..AttributeFields::default()
    })
}

pub(super) fn block(range: &str, of: &str) -> IpamBlock {
    IpamBlock::new(cidr(range), Some(owner(of)), Timestamp::from_nanos(7_000_000_000), 1000)
}

pub(super) fn pool(name: &str, range: &str) -> IpPool {
    IpPool::new(name, IpPoolSpec::new(cidr(range)))
}

pub(super) fn holding(blocks: &[(&str, u32)]) -> IpamHandle {
    IpamHandle {
        block: blocks.iter().map(|(range, count)| (cidr(range), *count)).collect(),
        ..IpamHandle::default()
    }
}

pub(super) fn pool_key(name: &str) -> Key {
    Key::Pool(name.to_owned())
}

pub(super) fn ask<D: Datastore>(store: &mut D, want: Want) -> Answer {
    let answers = run_in_place(store.read(&[want])).expect("the store reads");
    answers.into_iter().next().expect("one answer to one want")
}

pub(super) fn get<D: Datastore>(store: &mut D, key: &Key) -> Option<Entry> {
    ask(store, Want::Object(key.clone())).object()
}

pub(super) fn revision<D: Datastore>(store: &mut D, key: &Key) -> Revision {
    get(store, key).unwrap_or_else(|| panic!("{key} is absent")).revision
}

pub(super) fn commit<D: Datastore>(store: &mut D, batch: Batch) -> Commit {
    run_in_place(store.commit(batch)).expect("the store commits")
}

pub(super) fn apply<D: Datastore>(store: &mut D, fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::default();
    fill(&mut batch);
    assert_eq!(commit(store, batch), Commit::Applied);
}

/// The keys that stood in the way.
pub(super) fn refused<D: Datastore>(store: &mut D, fill: impl FnOnce(&mut Batch)) -> Vec<Key> {
    let mut batch = Batch::default();
    fill(&mut batch);
    match commit(store, batch) {
        Commit::Refused(conflicts) => conflicts.into_iter().map(|conflict| conflict.key).collect(),
        other => panic!("not refused: {other:?}"),
    }
}

/// An object without what differs between stores: the revision that some carry.
pub(super) fn plain(mut entry: Entry) -> Entry {
    fn clear(metadata: &mut ObjectMeta) {
        metadata.resource_version = None;
    }
    match &mut entry.object {
        Object::Configuration(object) => clear(&mut object.metadata),
        Object::Pool(object) => clear(&mut object.metadata),
        Object::Reservation(object) => clear(&mut object.metadata),
        Object::Node(object) => clear(&mut object.metadata),
        Object::Allocation(object) => clear(&mut object.metadata),
        Object::Claim(object) => clear(&mut object.metadata),
        _ => {}
    }
    entry.revision = Revision(0);
    entry
}

pub(super) fn objects<D: Datastore>(store: &mut D, want: Want) -> Vec<Entry> {
    ask(store, want).objects().into_iter().map(plain).collect()
}

/// A network carved out of a pool.
pub(super) fn carved(name: &str) -> Carved {
    let owner = CarvedFor::Allocation(ProjectName { project: "p/1".into(), name: name.into() });
    Carved { pool: "a".into(), owner, since: Some(Timestamp::from_nanos(1_790_000_000_000_000_000)) }
}

/// The name of something in a project.
pub(super) fn of_project(project: &str, name: &str) -> ProjectName {
    ProjectName { project: project.into(), name: name.into() }
}

/// An allocation that somebody made.
pub(super) fn allocation(name: &str) -> IpAllocation {
    IpAllocation::new(name, IpAllocationSpec::new(Family::V4, "a"))
}

/// A claim.
pub(super) fn claim(name: &str) -> IpClaim {
    let spec = serde_json::json!({ "ipFamily": "IPv4", "prefixLength": 28, "poolRef": { "name": "a" } });
    IpClaim::new(name, serde_json::from_value(spec).expect("a claim"))
}

/// A virtual machine with a pod.
pub(super) fn machine(name: &str) -> Machine {
    let attachment = MachineAttachment {
        container_id: "c1".into(),
        ifname: "eth0".into(),
        role: MachineRole::Source,
        pod: Some(format!("virt-launcher-{name}")),
        node: host("n"),
        since: Timestamp::from_nanos(1_790_000_000_000_000_000),
        notes: [("netns".to_owned(), "/run/netns/x".to_owned())].into(),
    };
    Machine {
        network: "net".into(),
        namespace: "prod".into(),
        name: name.into(),
        attachments: vec![attachment],
        ownerless_since: None,
        ownerless_boot: None,
    }
}
