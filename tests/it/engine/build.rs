//! Hosts, containers, pools and requests, with as few words as they need.

use std::net::IpAddr;

use host_affine::api::calico::{
    IpPool, IpPoolSpec, IpReservation, IpReservationSpec, IpamConfiguration, IpamConfigurationSpec, Node,
    NodeSpec,
};
use host_affine::api::{Affinity, HostName};
use host_affine::clock::Timestamp;
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Datastore, Entry, Key, Object};
use host_affine::ipam::{
    Assign, Assigned, Attachment, Error, Host, Ipam, NoOwnAddresses, OwnAddresses, Owner, PoolAsked,
    PoolChoice, Released, Sharing, Wanted,
};
use host_affine::net::{Cidr, Family};

/// A moment in 2026, in nanoseconds.
pub(crate) const START: u64 = 1_790_000_000_000_000_000;
/// A second, in nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// That many seconds after the start.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(START + seconds * SECOND)
}

pub(crate) fn cidr(text: &str) -> Cidr {
    text.parse().expect(text)
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

pub(crate) fn name(text: &str) -> HostName {
    HostName::new(text).expect(text)
}

/// A host in its first boot.
pub(crate) fn host(text: &str) -> Host {
    Host { boot: Some("boot-1".into()), ..Host::named(name(text)) }
}

pub(crate) fn affinity(host: &str) -> Affinity {
    name(host).into()
}

/// The attachment of a container to the network `net` by `eth0`.
pub(crate) fn container(id: &str) -> Attachment {
    Attachment { network: "net".into(), container_id: id.into(), ifname: "eth0".into() }
}

/// A pool with blocks of a prefix length.
pub(crate) fn pool(name: &str, range: &str, block: u8) -> IpPool {
    IpPool::new(name, IpPoolSpec { block_size: Some(block), ..IpPoolSpec::new(cidr(range)) })
}

/// A store whose objects are put and seen as they are.
pub(crate) trait Bare: Datastore {
    /// Puts one there, whatever stood there.
    fn plant(&mut self, key: Key, object: impl Into<Object>);
    /// All that are there, always in the same order.
    fn entries(&mut self) -> Vec<Entry>;
}

impl Bare for Memory {
    fn plant(&mut self, key: Key, object: impl Into<Object>) {
        Memory::plant(self, key, object);
    }

    fn entries(&mut self) -> Vec<Entry> {
        Memory::entries(self).collect()
    }
}

pub(crate) fn put_pool(store: &mut impl Bare, pool: IpPool) {
    store.plant(Key::Pool(pool.name().to_owned()), pool);
}

pub(crate) fn put_node(store: &mut impl Bare, host: &str, labels: &[(&str, &str)]) {
    let mut node = Node::new(host, NodeSpec::default());
    node.metadata.labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    store.plant(Key::Node(name(host)), node);
}

pub(crate) fn reserve(store: &mut impl Bare, name: &str, entries: &[&str]) {
    let spec = IpReservationSpec {
        reserved_cidrs: entries.iter().map(|&entry| entry.to_owned()).collect(),
        ..IpReservationSpec::default()
    };
    store.plant(Key::Reservation(name.into()), IpReservation::new(name, spec));
}

pub(crate) fn configure(store: &mut impl Bare, change: impl FnOnce(&mut IpamConfigurationSpec)) {
    let mut spec = IpamConfigurationSpec::default();
    change(&mut spec);
    store.plant(Key::Configuration, IpamConfiguration::new("default", spec));
}

pub(crate) fn strict(store: &mut impl Bare) {
    configure(store, |spec| spec.strict_affinity = Some(true));
}

/// One address of a family, from whatever pool.
pub(crate) fn any(family: Family) -> Wanted {
    Wanted { family, choice: PoolChoice::Any, usable: None, address: None }
}

/// One particular address.
pub(crate) fn exactly(address: &str) -> Wanted {
    let address = ip(address);
    Wanted { address: Some(address), ..any(Family::of(address)) }
}

/// One address from pools asked for by name or CIDR.
pub(crate) fn from(family: Family, pools: &[&str]) -> Wanted {
    let names = pools.iter().map(|&pool| pool.to_owned()).collect();
    Wanted { choice: PoolChoice::Requested(names), ..any(family) }
}

/// A request for addresses.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) host: Host,
    pub(crate) attachment: Attachment,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) pools: Vec<PoolAsked>,
    pub(crate) gateways: Option<Vec<IpAddr>>,
    pub(crate) now: Timestamp,
}

impl Ask {
    /// One IPv4 address for a container on a host.
    pub(crate) fn new(host_name: &str, id: &str) -> Self {
        Self {
            host: host(host_name),
            attachment: container(id),
            wanted: vec![any(Family::V4)],
            pools: Vec::new(),
            gateways: None,
            now: at(0),
        }
    }

    pub(crate) fn wanting(self, wanted: impl Into<Vec<Wanted>>) -> Self {
        Self { wanted: wanted.into(), ..self }
    }

    pub(crate) fn dual(self) -> Self {
        self.wanting([any(Family::V4), any(Family::V6)])
    }

    pub(crate) fn after(self, seconds: u64) -> Self {
        Self { now: at(seconds), ..self }
    }

    pub(crate) fn on(mut self, ifname: &str) -> Self {
        self.attachment.ifname = ifname.into();
        self
    }

    /// Asks.
    pub(crate) async fn of<D: Datastore>(&self, ipam: &mut Ipam<D>) -> Result<Assigned, Error> {
        self.of_host_with(ipam, &NoOwnAddresses).await
    }

    /// Asks, on a host whose own interfaces have addresses.
    pub(crate) async fn of_host_with<D: Datastore>(
        &self,
        ipam: &mut Ipam<D>,
        own_addresses: &dyn OwnAddresses,
    ) -> Result<Assigned, Error> {
        let owner =
            Owner { attachment: self.attachment.clone(), host: self.host.clone(), netns: None, pod: None };
        let request = Assign {
            host: &self.host,
            owner: &owner,
            sharing: Sharing::Attachment,
            wanted: &self.wanted,
            pools: &self.pools,
            gateways: self.gateways.as_deref(),
            import: None,
            own_addresses,
            now: self.now,
        };
        ipam.assign(&request).await
    }

    /// Ends what was asked for.
    pub(crate) async fn end<D: Datastore>(&self, ipam: &mut Ipam<D>) -> Result<Released, Error> {
        ipam.release(&self.attachment, &self.host, self.now).await
    }
}

/// The addresses of an answer.
pub(crate) fn addresses(assigned: &Assigned) -> Vec<IpAddr> {
    assigned.addresses.iter().map(|given| given.address).collect()
}
