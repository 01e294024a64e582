//! Where objects stand. Calico's keys are escaped nowhere, so a name with a `/` has none.

use std::fmt::Write as _;

use crate::api::{Affinity, HandleId, HostName};
use crate::datastore::{Collection, Key, ProjectName};
use crate::net::{Cidr, Family};

/// The blocks. Every prefix here ends in `/`, so that host `a` never meets host `ab`.
pub const BLOCKS: &str = "/calico/ipam/v2/assignment/";
/// The affinities of each kind of owner.
pub const AFFINITIES: [&str; 2] = ["/calico/ipam/v2/host/", "/calico/ipam/v2/virtual/"];
/// The handles.
pub const HANDLES: &str = "/calico/ipam/v2/handle/";
/// The pools.
pub const POOLS: &str = "/calico/resources/v3/projectcalico.org/ippools/";
/// The reservations.
pub const RESERVATIONS: &str = "/calico/resources/v3/projectcalico.org/ipreservations/";
/// The nodes.
pub const NODES: &str = "/calico/resources/v3/projectcalico.org/nodes/";
/// All that is ours alone.
pub const OWN: &str = "/host-affine/";
/// The imports from host-local.
pub const IMPORTS: &str = "/host-affine/imports/";
/// The networks carved out of pools.
pub const CARVED: &str = "/host-affine/carved/";
/// What only `ipam.miloapis.com` knows of pools.
pub const POOL_EXTRAS: &str = "/host-affine/ippools/";
/// The allocations, by project.
pub const ALLOCATIONS: &str = "/host-affine/ipallocations/";
/// The claims, by project.
pub const CLAIMS: &str = "/host-affine/ipclaims/";
/// The virtual machines.
pub const MACHINES: &str = "/host-affine/vms/";
/// The ways from containers to their virtual machines.
pub const MACHINES_OF: &str = "/host-affine/vms-of/";
/// What is only believed, and may be lost: [`hint_key`].
pub const HINTS: &str = "/host-affine/hints/";

/// What Calico's allocator goes by.
pub(super) const ALLOCATOR_CONFIG: &str = "/calico/ipam/v2/config";
/// What people edit.
pub(super) const CONFIGURATION: &str = "/calico/resources/v3/projectcalico.org/ipamconfigurations/default";

/// The key of an object; of the configuration, the one that people edit.
///
/// A name of a pool, reservation or node is taken as it is, which their rules for names allow: one with a `/` gives a
/// key that [`parse_key`] does not take for theirs. Our own names are escaped.
#[must_use]
pub fn key_of(key: &Key) -> String {
    match key {
        Key::Configuration => CONFIGURATION.to_owned(),
        Key::Pool(name) => format!("{POOLS}{name}"),
        Key::Reservation(name) => format!("{RESERVATIONS}{name}"),
        Key::Node(name) => format!("{NODES}{name}"),
        Key::Block(cidr) => format!("{}{}", blocks_of(cidr.family()), stem(*cidr)),
        Key::Affinity(owner, cidr) => {
            format!("{}{}/block/{}", affinities_of(owner), version(cidr.family()), stem(*cidr))
        }
        Key::Handle(id) => format!("{HANDLES}{id}"),
        Key::Import(network) => format!("{IMPORTS}{}", escape(network)),
        Key::Carved(cidr) => format!("{}{}", carved_of(cidr.family()), stem(*cidr)),
        Key::PoolExtras(name) => format!("{POOL_EXTRAS}{}", escape(name)),
        Key::Allocation(name) => of_project(ALLOCATIONS, name),
        Key::Claim(name) => of_project(CLAIMS, name),
        Key::Machine(id) => format!("{MACHINES}{}", escape(id.as_str())),
        Key::MachinesOf(id) => format!("{MACHINES_OF}{}", escape(id.as_str())),
    }
}

/// The object that stands at a key. `None`: none of ours stands there, or its name breaks a rule; lists pass it over.
///
/// An affinity may have the kind `@`, as in very old stores: it is a host's. No list goes there, as in Calico.
#[must_use]
pub fn parse_key(key: &str) -> Option<Key> {
    if let Some(rest) = key.strip_prefix("/calico/ipam/v2/") {
        return parse_allocator_key(rest);
    }
    let under =
        |prefix: &str| key.strip_prefix(prefix).filter(|name| !name.is_empty() && !name.contains('/'));
    let own = |prefix: &str| unescape(under(prefix)?);
    if let Some(name) = under(POOLS) {
        return Some(Key::Pool(name.to_owned()));
    }
    if let Some(name) = under(RESERVATIONS) {
        return Some(Key::Reservation(name.to_owned()));
    }
    if let Some(name) = under(NODES) {
        return HostName::new(name).ok().map(Key::Node);
    }
    if key == CONFIGURATION {
        return Some(Key::Configuration);
    }
    if let Some(name) = own(IMPORTS) {
        return Some(Key::Import(name));
    }
    if let Some(rest) = key.strip_prefix(CARVED) {
        let (version, name) = rest.split_once('/')?;
        return cidr_of(version, name).map(Key::Carved);
    }
    if let Some(name) = own(POOL_EXTRAS) {
        return Some(Key::PoolExtras(name));
    }
    if let Some(rest) = key.strip_prefix(ALLOCATIONS) {
        return parse_project(rest).map(Key::Allocation);
    }
    if let Some(rest) = key.strip_prefix(CLAIMS) {
        return parse_project(rest).map(Key::Claim);
    }
    if let Some(name) = own(MACHINES) {
        return HandleId::new(name).ok().map(Key::Machine);
    }
    own(MACHINES_OF).and_then(|name| HandleId::new(name).ok()).map(Key::MachinesOf)
}

fn parse_allocator_key(rest: &str) -> Option<Key> {
    let parts: Vec<&str> = rest.split('/').collect();
    match *parts.as_slice() {
        ["assignment", version, "block", name] => cidr_of(version, name).map(Key::Block),
        ["handle", name] => HandleId::new(name).ok().map(Key::Handle),
        ["config"] => Some(Key::Configuration),
        [kind, host, version, "block", name] => {
            let host = HostName::new(host).ok()?;
            let owner = match kind {
                "host" | "@" => Affinity::Host(host),
                "virtual" => Affinity::Virtual(host),
                _ => return None,
            };
            cidr_of(version, name).map(|cidr| Key::Affinity(owner, cidr))
        }
        _ => None,
    }
}

/// Whether a key that [`parse_key`] does not take stands where it may: the record of a host, which Calico wrote long ago
/// and nobody reads, a hint, or what lies outside of our lists. Anything else is damage.
#[must_use]
pub fn is_of_nobody(key: &str) -> bool {
    let of_host = AFFINITIES[0];
    let is_host_record =
        key.strip_prefix(of_host).is_some_and(|host| !host.is_empty() && !host.contains('/'));
    let lists = AFFINITIES.into_iter().chain([BLOCKS, HANDLES, POOLS, RESERVATIONS, NODES, OWN]);
    is_host_record || key.starts_with(HINTS) || !lists.into_iter().any(|list| key.starts_with(list))
}

/// The blocks of a family.
#[must_use]
pub fn blocks_of(family: Family) -> String {
    format!("{BLOCKS}{}/block/", version(family))
}

/// The affinities of an owner. The record of a host itself does not stand there, but beside it.
#[must_use]
pub fn affinities_of(owner: &Affinity) -> String {
    format!("/calico/ipam/v2/{}/{}/", owner.kind(), owner.name())
}

/// The networks of a family carved out of pools.
#[must_use]
pub fn carved_of(family: Family) -> String {
    format!("{CARVED}{}/", version(family))
}

/// The objects of a collection.
#[must_use]
pub fn collection(collection: Collection) -> &'static str {
    match collection {
        Collection::Carved => CARVED,
        Collection::PoolExtras => POOL_EXTRAS,
        Collection::Allocations => ALLOCATIONS,
        Collection::Claims => CLAIMS,
        Collection::Machines => MACHINES,
    }
}

/// Where something is noted that may be lost without harm, such as a host's last block.
#[must_use]
pub fn hint_key(name: &str) -> String {
    format!("{HINTS}{}", escape(name))
}

fn of_project(prefix: &str, name: &ProjectName) -> String {
    format!("{prefix}{}/{}", escape(&name.project), escape(&name.name))
}

fn parse_project(rest: &str) -> Option<ProjectName> {
    let (project, name) = rest.split_once('/')?;
    Some(ProjectName { project: unescape(project)?, name: unescape(name)? })
}

const fn version(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

/// A range as it stands in a key: `10.88.3.64-26`.
fn stem(cidr: Cidr) -> String {
    cidr.to_string().replace('/', "-")
}

/// The range that stands in a key below its family. Host bits, or another family's range: nobody wrote that.
fn cidr_of(family: &str, name: &str) -> Option<Cidr> {
    let (address, prefix) = name.rsplit_once('-')?;
    let cidr: Cidr = format!("{address}/{prefix}").parse().ok()?;
    (stem(cidr) == name && version(cidr.family()) == family).then_some(cidr)
}

/// Any text as one segment of a key, different texts as different ones: `/`, `%` and control characters become `%XX`.
fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '/' | '%') || character.is_ascii_control() {
            let _ = write!(escaped, "%{:02X}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// The text that a segment stands for; `None`: it is empty, or not as [`escape`] writes it.
fn unescape(segment: &str) -> Option<String> {
    let mut parts = segment.split('%');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        let byte = u8::from_str_radix(part.get(..2)?, 16).ok()?;
        name.push(char::from(byte));
        name.push_str(part.get(2..)?);
    }
    (!segment.is_empty() && escape(&name) == segment).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect(text)
    }

    fn host(name: &str) -> HostName {
        HostName::new(name).expect(name)
    }

    #[test]
    fn every_object_stands_where_calico_looks_for_it() {
        let handle = HandleId::new("k8s-pod-network.4f2a").expect("handle");
        let block = cidr("10.244.3.64/30");
        let name = || ProjectName { project: "a/b".into(), name: "c%d".into() };
        for (key, text) in [
            (Key::Block(block), "/calico/ipam/v2/assignment/ipv4/block/10.244.3.64-30"),
            (
                Key::Block(cidr("fd80:24e2:f998:72d6::/122")),
                "/calico/ipam/v2/assignment/ipv6/block/fd80:24e2:f998:72d6::-122",
            ),
            (
                Key::Affinity(Affinity::Host(host("worker-1")), block),
                "/calico/ipam/v2/host/worker-1/ipv4/block/10.244.3.64-30",
            ),
            (
                Key::Affinity(Affinity::Virtual(host("load-balancer")), cidr("fd80::/122")),
                "/calico/ipam/v2/virtual/load-balancer/ipv6/block/fd80::-122",
            ),
            (Key::Handle(handle.clone()), "/calico/ipam/v2/handle/k8s-pod-network.4f2a"),
            (Key::Pool("pods-v4".into()), "/calico/resources/v3/projectcalico.org/ippools/pods-v4"),
            (Key::Reservation("gw".into()), "/calico/resources/v3/projectcalico.org/ipreservations/gw"),
            (Key::Node(host("worker-1")), "/calico/resources/v3/projectcalico.org/nodes/worker-1"),
            (Key::Configuration, "/calico/resources/v3/projectcalico.org/ipamconfigurations/default"),
            (Key::Import("a/b".into()), "/host-affine/imports/a%2Fb"),
            (Key::Carved(cidr("10.9.0.0/24")), "/host-affine/carved/ipv4/10.9.0.0-24"),
            (Key::PoolExtras("pods".into()), "/host-affine/ippools/pods"),
            (Key::Allocation(name()), "/host-affine/ipallocations/a%2Fb/c%25d"),
            (Key::Claim(name()), "/host-affine/ipclaims/a%2Fb/c%25d"),
            (Key::Machine(handle.clone()), "/host-affine/vms/k8s-pod-network.4f2a"),
            (Key::MachinesOf(handle), "/host-affine/vms-of/k8s-pod-network.4f2a"),
        ] {
            assert_eq!(key_of(&key), text);
            assert_eq!(parse_key(text), Some(key), "{text}");
            assert_eq!(is_of_nobody(text), text.ends_with("/default"), "{text}");
        }
        assert_eq!(parse_key("/calico/ipam/v2/config"), Some(Key::Configuration));
        assert_eq!(
            parse_key("/calico/ipam/v2/@/worker-1/ipv4/block/10.244.3.64-30"),
            Some(Key::Affinity(Affinity::Host(host("worker-1")), block)),
            "a kind of very old stores"
        );
    }

    #[test]
    fn a_key_that_nobody_writes_is_no_object() {
        for bad in [
            "",
            "/calico/ipam/v2/assignment/ipv4/block/10.244.3.65-30",
            "/calico/ipam/v2/assignment/ipv6/block/10.244.3.64-30",
            "/calico/ipam/v2/assignment/ipv4/block/10.244.3.64",
            "/calico/ipam/v2/assignment/ipv4/block/10.244.3.64-30/x",
            "/calico/ipam/v2/host/a/b/ipv4/block/10.244.3.64-30",
            "/calico/ipam/v2/rack/a/ipv4/block/10.244.3.64-30",
            "/calico/ipam/v2/handle/a/b",
            "/calico/ipam/v2/handle/",
            "/calico/resources/v3/projectcalico.org/ippools/",
            "/calico/resources/v3/projectcalico.org/ippools/a/b",
            "/host-affine/imports/a%2fb",
            "/host-affine/imports/%41",
            "/host-affine/imports/%",
            "/host-affine/ipallocations/a",
            "/host-affine/ipallocations/a/b/c",
            "/host-affine/else",
        ] {
            assert_eq!(parse_key(bad), None, "{bad}");
        }
        assert!(!is_of_nobody("/calico/ipam/v2/assignment/ipv4/block/10.244.3.65-30"));
        assert!(!is_of_nobody("/host-affine/else"));
        for harmless in ["/calico/ipam/v2/host/worker-1", "/host-affine/hints/x", "/registry/pods/a"] {
            assert_eq!((parse_key(harmless), is_of_nobody(harmless)), (None, true), "{harmless}");
        }
    }

    proptest! {
        #[test]
        fn any_name_of_ours_comes_back(project in "\\PC{1,20}|[/%a]{1,8}", name in "[\\x00-\\x7f]{1,12}") {
            let key = Key::Claim(ProjectName { project, name });
            prop_assert_eq!(parse_key(&key_of(&key)), Some(key));
        }
    }
}
