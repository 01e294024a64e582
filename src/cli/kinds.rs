//! The kinds that can be named on a command line: their words, where they are stored, and how a list of them looks.

mod columns;
mod milo;

use std::fmt;

use serde_json::{Value, json};

use super::error::Error;
use super::render::printable;
use crate::api::calico::{IpamBlock, IpamHandle};
use crate::api::schema::{self, Schema};
use crate::api::{self, Affinity, calico};
use crate::datastore::{Entry, Key, Object};
use crate::ipam::Config;
use crate::net::Cidr;

pub(super) use milo::{Look, Milo};

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    IpamConfiguration,
    IpPool,
    IpReservation,
    Node,
    BlockAffinity,
    IpamBlock,
    IpamHandle,
    /// One of `ipam.miloapis.com`.
    Milo(Milo),
}

/// What a kind is called, and what may be done with it.
#[derive(Debug)]
pub(super) struct Info {
    /// The kind as resources name it.
    pub(super) name: &'static str,
    /// Lower case.
    pub(super) singular: &'static str,
    /// Lower case.
    pub(super) plural: &'static str,
    /// Other words for it, lower case.
    pub(super) short: &'static [&'static str],
}

impl Kind {
    pub(super) const ALL: [Kind; 10] = [
        Kind::IpamConfiguration,
        Kind::IpPool,
        Kind::IpReservation,
        Kind::Node,
        Kind::BlockAffinity,
        Kind::IpamBlock,
        Kind::IpamHandle,
        Kind::Milo(Milo::Pool),
        Kind::Milo(Milo::Allocation),
        Kind::Milo(Milo::Claim),
    ];

    /// What it is called.
    pub(super) const fn info(self) -> &'static Info {
        match self {
            Kind::IpamConfiguration => &Info {
                name: "IPAMConfiguration",
                singular: "ipamconfiguration",
                plural: "ipamconfigurations",
                short: &["ipamconfig", "ipamconfigs"],
            },
            Kind::IpPool => &Info {
                name: "IPPool",
                singular: "ippool",
                plural: "ippools",
                short: &["ipp", "ipps", "pool", "pools"],
            },
            Kind::IpReservation => &Info {
                name: "IPReservation",
                singular: "ipreservation",
                plural: "ipreservations",
                short: &["reservation", "reservations"],
            },
            Kind::Node => &Info { name: "Node", singular: "node", plural: "nodes", short: &["no"] },
            Kind::BlockAffinity => &Info {
                name: "BlockAffinity",
                singular: "blockaffinity",
                plural: "blockaffinities",
                short: &["affinity", "affinities"],
            },
            Kind::IpamBlock => &Info {
                name: "IPAMBlock",
                singular: "ipamblock",
                plural: "ipamblocks",
                short: &["block", "blocks"],
            },
            Kind::IpamHandle => &Info {
                name: "IPAMHandle",
                singular: "ipamhandle",
                plural: "ipamhandles",
                short: &["handle", "handles"],
            },
            Kind::Milo(kind) => kind.info(),
        }
    }

    /// The kind that a word names, in any case, alone or with its group. A pool without a group is Calico's.
    pub(super) fn parse(word: &str) -> Result<Kind, Error> {
        let lower = word.to_ascii_lowercase();
        let (name, group) = lower.split_once('.').unwrap_or((&lower, ""));
        let is_it = |kind: &Kind| {
            let info = kind.info();
            let is_called = name == info.singular || name == info.plural || info.short.contains(&name);
            is_called && (group.is_empty() || group == kind.group() || group == kind.versioned_group())
        };
        Kind::ALL.into_iter().find(is_it).ok_or_else(|| Error::UnknownKind(word.to_owned()))
    }

    /// A kind, with its group or without, and the words that follow it: `ippools.ipam.miloapis.com.spec.cidr`.
    pub(super) fn parse_path(text: &str) -> Result<(Kind, Vec<&str>), Error> {
        let (first, rest) = text.split_once('.').unwrap_or((text, ""));
        for group in Kind::ALL.map(Kind::group) {
            let Some((head, tail)) = rest.split_at_checked(group.len()) else { continue };
            if head.eq_ignore_ascii_case(group) && (tail.is_empty() || tail.starts_with('.')) {
                return Ok((Kind::parse(&format!("{first}.{group}"))?, words(tail)));
            }
        }
        Ok((Kind::parse(first)?, words(rest)))
    }

    /// Group and version.
    pub(super) const fn api_version(self) -> &'static str {
        match self {
            Kind::Milo(_) => api::milo::API_VERSION,
            _ => calico::API_VERSION,
        }
    }

    /// Its group.
    pub(super) fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// Version and group, as `kubectl` takes them behind a kind.
    fn versioned_group(self) -> String {
        let (group, version) = self.api_version().split_once('/').unwrap_or_default();
        format!("{version}.{group}")
    }

    /// The word that names this kind and no other.
    pub(super) fn word(self) -> String {
        let plural = self.info().plural;
        if self == Kind::Milo(Milo::Pool) { format!("{plural}.{}", self.group()) } else { plural.to_owned() }
    }

    /// The same for one of it.
    pub(super) fn singular(self) -> String {
        let singular = self.info().singular;
        if self == Kind::Milo(Milo::Pool) {
            format!("{singular}.{}", self.group())
        } else {
            singular.to_owned()
        }
    }

    /// A resource as `-o name` writes it.
    pub(super) fn full_name(self, name: &str) -> String {
        format!("{}.{}/{}", self.info().singular, self.group(), printable(name))
    }

    /// The fields that people write. `None`: it is read-only.
    pub(super) fn schema(self) -> Option<&'static Schema> {
        match self {
            Kind::IpamConfiguration => Some(&schema::IPAM_CONFIGURATION),
            Kind::IpPool => Some(&schema::IP_POOL),
            Kind::IpReservation => Some(&schema::IP_RESERVATION),
            Kind::Node => Some(&schema::NODE),
            Kind::BlockAffinity | Kind::IpamBlock | Kind::IpamHandle => None,
            Kind::Milo(kind) => Some(kind.schema()),
        }
    }

    /// The key of the resource of a name. `None`: it has to be searched for, or cannot exist, or belongs to a project.
    pub(super) fn key(self, name: &str) -> Option<Key> {
        match self {
            Kind::IpamConfiguration => (name == "default").then_some(Key::Configuration),
            Kind::IpPool => Some(Key::Pool(name.to_owned())),
            Kind::IpReservation => Some(Key::Reservation(name.to_owned())),
            Kind::Node => crate::api::HostName::new(name).ok().map(Key::Node),
            Kind::IpamBlock => name.parse().ok().map(Key::Block),
            Kind::IpamHandle => crate::api::HandleId::new(name).ok().map(Key::Handle),
            Kind::BlockAffinity | Kind::Milo(_) => None,
        }
    }
}

fn words(path: &str) -> Vec<&str> {
    path.split('.').filter(|word| !word.is_empty()).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The other face of a pool of Calico's.
            Kind::Milo(Milo::Pool) => write!(f, "{}.{}", self.info().name, self.group()),
            _ => f.write_str(self.info().name),
        }
    }
}

/// An entry of the store as a resource of `projectcalico.org/v3`, with its revision, and its defaults filled in.
/// `None`: an entry of no kind that can be named.
pub(super) fn resource(entry: Entry) -> Option<Value> {
    let mut resource = match (entry.key, entry.object) {
        (_, Object::Configuration(configuration)) => {
            let effective = Config::effective(Some(&configuration));
            let mut value = wire(&*configuration);
            set_default(&mut value, "strictAffinity", json!(false));
            set_default(&mut value, "maxBlocksPerHost", json!(effective.max_blocks_per_host));
            set_default(&mut value, "autoAllocateBlocks", json!(true));
            set_default(&mut value, "kubeVirtVMAddressPersistence", json!(effective.vm_address_persistence));
            value
        }
        (_, Object::Pool(pool)) => {
            let block_size = pool.spec.block_prefix();
            let mut value = wire(&*pool);
            set_default(&mut value, "allowedUses", json!(["Workload", "Tunnel"]));
            set_default(&mut value, "assignmentMode", json!("Automatic"));
            set_default(&mut value, "blockSize", json!(block_size));
            set_default(&mut value, "ipipMode", json!("Never"));
            set_default(&mut value, "nodeSelector", json!("all()"));
            set_default(&mut value, "vxlanMode", json!("Never"));
            value
        }
        (_, Object::Reservation(reservation)) => wire(&*reservation),
        (_, Object::Node(node)) => wire(&*node),
        (_, Object::Block(block)) => of(Kind::IpamBlock, &block.cidr.object_name(), &block_spec(&block)),
        (Key::Affinity(owner, block), Object::Affinity(affinity)) => {
            let spec = json!({
                "cidr": block, "node": owner.name(), "type": owner.kind(),
                "state": affinity.state, "deleted": affinity.deleted,
            });
            of(Kind::BlockAffinity, &affinity_name(&owner, block), &spec)
        }
        (Key::Handle(id), Object::Handle(handle)) => {
            of(Kind::IpamHandle, id.as_str(), &handle_spec(id.as_str(), &handle))
        }
        _ => return None,
    };
    if let Some(metadata) = resource.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), entry.revision.0.to_string().into());
    }
    Some(resource)
}

/// The name of a resource.
pub(super) fn name(resource: &Value) -> &str {
    resource.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// The name under which Calico keeps a block affinity in Kubernetes.
fn affinity_name(owner: &Affinity, block: Cidr) -> String {
    format!("{}-{}", owner.name(), block.object_name())
}

fn wire(resource: &impl serde::Serialize) -> Value {
    // Maps with text keys cannot fail to become JSON.
    serde_json::to_value(resource).unwrap_or_default()
}

fn of(kind: Kind, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": calico::API_VERSION, "kind": kind.info().name, "metadata": { "name": name }, "spec": spec,
    })
}

fn set_default(resource: &mut Value, field: &str, default: Value) {
    if let Some(spec) = resource.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry(field).or_insert(default);
    }
}

/// A block in the words of its Kubernetes resource, which differ from etcd's in one field.
fn block_spec(block: &IpamBlock) -> Value {
    let mut spec = wire(block);
    if let Some(fields) = spec.as_object_mut() {
        if let Some(claimed) = fields.remove("affinity_claim_time") {
            fields.insert("affinityClaimTime".into(), claimed);
        }
        if block.affinity.is_none() {
            fields.remove("affinity");
        }
    }
    spec
}

fn handle_spec(id: &str, handle: &IpamHandle) -> Value {
    let mut spec = wire(handle);
    if let Some(fields) = spec.as_object_mut() {
        fields.insert("handleID".into(), id.into());
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_for_a_kind_is_understood_in_any_case() {
        for kind in Kind::ALL {
            let info = kind.info();
            for word in info.short.iter().chain([&info.singular, &info.plural, &info.name]) {
                let alone = if kind == Kind::Milo(Milo::Pool) { Kind::IpPool } else { kind };
                assert_eq!(Kind::parse(word).expect(word), alone);
                assert_eq!(Kind::parse(&word.to_uppercase()).expect(word), alone);
                for group in [kind.group(), &kind.versioned_group()] {
                    assert_eq!(Kind::parse(&format!("{word}.{group}")).expect(word), kind);
                }
            }
            assert_eq!(Kind::parse(&kind.word()).expect("its own word"), kind);
        }
        assert_eq!(Kind::parse("IPPools.IPAM.MiloAPIs.com").expect("a pool"), Kind::Milo(Milo::Pool));
        assert!(matches!(Kind::parse("ippools.example.org"), Err(Error::UnknownKind(_))));
        assert!(matches!(Kind::parse("ipclaims.projectcalico.org"), Err(Error::UnknownKind(_))));
        assert!(matches!(Kind::parse("pods"), Err(Error::UnknownKind(_))));
    }

    #[test]
    fn a_field_may_follow_a_kind_with_its_group() {
        let path = |text| Kind::parse_path(text).expect(text);
        assert_eq!(path("ippool.spec.cidr"), (Kind::IpPool, vec!["spec", "cidr"]));
        let pool = Kind::Milo(Milo::Pool);
        assert_eq!(path("ippools.ipam.miloapis.com"), (pool, vec![]));
        assert_eq!(path("ippools.ipam.miloapis.com.spec.cidr"), (pool, vec!["spec", "cidr"]));
        assert_eq!(path("ipallocations.status"), (Kind::Milo(Milo::Allocation), vec!["status"]));
    }
}
