//! What hosts and people do, at random.

use std::net::IpAddr;

use proptest::prelude::*;

use host_affine::ipam::Attachment;
use host_affine::net::Cidr;

use super::super::build::cidr;
use super::people::Carve;
use super::snapshot::addresses_of;

pub(crate) const HOSTS: [&str; 3] = ["a", "b", "c"];
pub(crate) const ZONES: [&str; 2] = ["x", "y"];
/// The second is chosen so that container `c1` on it has the handle of container `a.c1` on the first.
pub(crate) const NETWORKS: [&str; 2] = ["net", "net.a"];
/// Name, range and block prefix of the pools that may exist.
pub(crate) const POOLS: [(&str, &str, u8); 5] = [
    ("a", "10.0.0.0/27", 30),
    ("b", "10.0.1.0/28", 29),
    ("c", "10.0.2.0/30", 32),
    ("d", "fd00::/124", 126),
    ("e", "fd01::/125", 125),
];
/// What may be reserved: parts of blocks, blocks, and halves of pools.
pub(crate) const RESERVATIONS: [&str; 6] =
    ["10.0.0.4/32", "10.0.0.8/30", "10.0.0.16/28", "10.0.1.1/32", "fd00::4/127", "fd00::8/125"];
/// What may be asked for by name.
pub(crate) const ADDRESSES: [&str; 8] =
    ["10.0.0.4", "10.0.0.5", "10.0.0.21", "10.0.1.1", "10.0.2.3", "10.9.9.9", "fd00::5", "fd01::2"];
/// How many addresses all pools have together: an operation names one by its place among them.
const ALL_ADDRESSES: usize = 32 + 16 + 4 + 16 + 8;
const CONTAINERS: u8 = 20;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Add {
        attachment: Attached,
        wants: Vec<Want>,
    },
    Del(Attached),
    DelHandle(Attached),
    /// Everything of a network goes, save the containers whose bits are set.
    Gc {
        network: usize,
        keep: u32,
    },
    Configure {
        strict: bool,
        cap: u8,
        cooldown: bool,
        auto_allocate: bool,
    },
    PutPool {
        which: usize,
        disabled: bool,
        zone: Option<usize>,
    },
    Reserve {
        which: usize,
        on: bool,
    },
    Label {
        host: usize,
        zone: usize,
    },
    Boot {
        host: usize,
    },
    Wait {
        seconds: u64,
    },
    /// An address is released by itself, as it was read or as it was at another time.
    Free {
        address: usize,
        read: Read,
    },
    /// What is kept for a host is given up.
    GiveUp {
        host: usize,
        empty_only: bool,
    },
    /// One block is given up.
    GiveUpBlock {
        address: usize,
        empty_only: bool,
    },
    RemovePool {
        which: usize,
        force: bool,
    },
    /// Somebody has a network carved out of a pool.
    Carve(Carve),
    /// And gives it back.
    GiveBackCarve {
        name: u8,
    },
    /// The process ends, and another opens the store.
    Reopen(Between),
}

/// How well whoever releases an address knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    /// Not at all: whoever has it.
    Blindly,
    /// As it stands.
    Now,
    /// As it stood under another number.
    Before,
}

/// What happens to a store between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    Nothing,
    /// The first did what may wait until its answer is out.
    Settled,
    /// Everything was written into its file.
    WrittenOut,
    /// What is derived is gone.
    Forgotten,
}

/// An address by its place among all of all pools.
pub(crate) fn address_at(place: usize) -> IpAddr {
    POOLS.iter().flat_map(|(_, range, _)| addresses_of(cidr(range))).nth(place).expect("there are so many")
}

/// The block that would have an address.
pub(crate) fn block_at(place: usize) -> Cidr {
    let address = address_at(place);
    let pool = POOLS.iter().find(|(_, range, _)| cidr(range).contains_address(address));
    pool.and_then(|(.., prefix)| Cidr::containing(address, *prefix)).expect("each lies in a pool")
}

/// An attachment, and the host that it is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attached {
    container: u8,
    network: usize,
    ifname: u8,
}

/// One wanted address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    V4,
    V6,
    /// From the second half of the first pool.
    Range,
    /// From a pool asked for by name.
    Pool(usize),
    /// One address.
    Exactly(usize),
}

impl Attached {
    pub(crate) fn host(self) -> &'static str {
        HOSTS[usize::from(self.container / 2) % HOSTS.len()]
    }

    pub(crate) fn name(self) -> Attachment {
        let spelled = if self.container.is_multiple_of(2) { "c" } else { "a.c" };
        Attachment {
            network: NETWORKS[self.network].into(),
            container_id: format!("{spelled}{}", self.container / 2),
            ifname: format!("eth{}", self.ifname),
        }
    }

    /// Every attachment that a runtime would still declare valid, of a set of containers.
    pub(crate) fn of_containers(keep: u32) -> impl Iterator<Item = Attachment> {
        (0..CONTAINERS)
            .filter(move |bit| keep & (1 << bit) != 0)
            .flat_map(|container| (0..2).map(move |ifname| Attached { container, network: 0, ifname }.name()))
    }
}

fn attached() -> impl Strategy<Value = Attached> {
    // Mostly the first network and interface, so that repeated calls meet.
    let mostly_first = || prop_oneof![4 => Just(0u8), 1 => Just(1u8)];
    (0..CONTAINERS, mostly_first(), mostly_first()).prop_map(|(container, network, ifname)| Attached {
        container,
        network: network.into(),
        ifname,
    })
}

fn wants() -> impl Strategy<Value = Vec<Want>> {
    prop_oneof![
        6 => Just(vec![Want::V4]),
        2 => Just(vec![Want::V6]),
        4 => Just(vec![Want::V4, Want::V6]),
        1 => Just(vec![Want::V6, Want::V4]),
        1 => Just(vec![Want::V4, Want::V4]),
        1 => Just(vec![Want::Range]),
        1 => (0..3usize).prop_map(|pool| vec![Want::Pool(pool)]),
        2 => (0..ADDRESSES.len()).prop_map(|which| vec![Want::Exactly(which)]),
        1 => (0..5usize).prop_map(|which| vec![Want::V4, Want::Exactly(which)]),
    ]
}

/// One operation.
pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{
        Add, Boot, Configure, Del, DelHandle, Free, Gc, GiveUp, GiveUpBlock, Label, PutPool, RemovePool,
        Reopen, Reserve, Wait,
    };
    let read = prop_oneof![2 => Just(Read::Blindly), 2 => Just(Read::Now), 1 => Just(Read::Before)];
    let between = prop_oneof![
        4 => Just(Between::Nothing),
        2 => Just(Between::Settled),
        1 => Just(Between::WrittenOut),
        1 => Just(Between::Forgotten),
    ];
    prop_oneof![
        24 => (attached(), wants()).prop_map(|(attachment, wants)| Add { attachment, wants }),
        12 => attached().prop_map(Del),
        1 => attached().prop_map(DelHandle),
        1 => (0..2usize, any::<u32>()).prop_map(|(network, keep)| Gc { network, keep }),
        2 => (any::<bool>(), prop_oneof![3 => Just(0u8), 1 => 1..4u8], any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(strict, cap, cooldown, auto_allocate)| Configure { strict, cap, cooldown, auto_allocate }),
        2 => (0..POOLS.len(), prop::bool::weighted(0.2), prop::option::weighted(0.3, 0..ZONES.len()))
            .prop_map(|(which, disabled, zone)| PutPool { which, disabled, zone }),
        1 => (0..RESERVATIONS.len(), any::<bool>()).prop_map(|(which, on)| Reserve { which, on }),
        1 => (0..HOSTS.len(), 0..ZONES.len()).prop_map(|(host, zone)| Label { host, zone }),
        1 => (0..HOSTS.len()).prop_map(|host| Boot { host }),
        2 => (1..100u64).prop_map(|seconds| Wait { seconds }),
        2 => (0..ALL_ADDRESSES, read).prop_map(|(address, read)| Free { address, read }),
        1 => (0..HOSTS.len(), any::<bool>()).prop_map(|(host, empty_only)| GiveUp { host, empty_only }),
        1 => (0..ALL_ADDRESSES, any::<bool>())
            .prop_map(|(address, empty_only)| GiveUpBlock { address, empty_only }),
        1 => (0..POOLS.len(), any::<bool>()).prop_map(|(which, force)| RemovePool { which, force }),
        2 => (0..6u8, 0..POOLS.len(), 1..5u8, prop::option::weighted(0.3, 0..ALL_ADDRESSES)).prop_map(
            |(name, pool, longer, around)| Operation::Carve(Carve { name, pool, longer, around })
        ),
        2 => (0..6u8).prop_map(|name| Operation::GiveBackCarve { name }),
        2 => between.prop_map(Reopen),
    ]
}
