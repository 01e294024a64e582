//! The kinds that can be named on a command line: their words, where they are stored, and how a list of them looks.

use std::fmt;

use serde_json::{Map, Value, json};

use super::error::Error;
use super::render::{Align, Table};
use crate::api::calico::{IpamBlock, IpamHandle};
use crate::api::{Affinity, calico};
use crate::datastore::{Entry, Key, Object};
use crate::ipam::Config;
use crate::net::Cidr;

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
    pub(super) const ALL: [Kind; 7] = [
        Kind::IpamConfiguration,
        Kind::IpPool,
        Kind::IpReservation,
        Kind::Node,
        Kind::BlockAffinity,
        Kind::IpamBlock,
        Kind::IpamHandle,
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
        }
    }

    /// The kind that a word names, in any case, alone or with its group.
    pub(super) fn parse(word: &str) -> Result<Kind, Error> {
        let lower = word.to_ascii_lowercase();
        let (name, group) = lower.split_once('.').unwrap_or((&lower, ""));
        if matches!(name, "ipallocation" | "ipallocations" | "ipclaim" | "ipclaims")
            || group == "ipam.miloapis.com"
        {
            return Err(Error::NotServed {
                what: format!("the kind `{}`", word.escape_debug()),
                instead: "kinds of `projectcalico.org/v3` are: run `host-affine get --help`",
            });
        }
        let known = |kind: &Kind| {
            let info = kind.info();
            name == info.singular || name == info.plural || info.short.contains(&name)
        };
        Kind::ALL
            .into_iter()
            .find(known)
            .filter(|_| matches!(group, "" | "projectcalico.org" | "v3.projectcalico.org"))
            .ok_or_else(|| Error::UnknownKind(word.to_owned()))
    }

    /// The key of the resource of a name. `None`: it has to be searched for, or cannot exist.
    pub(super) fn key(self, name: &str) -> Option<Key> {
        match self {
            Kind::IpamConfiguration => (name == "default").then_some(Key::Configuration),
            Kind::IpPool => Some(Key::Pool(name.to_owned())),
            Kind::IpReservation => Some(Key::Reservation(name.to_owned())),
            Kind::Node => crate::api::HostName::new(name).ok().map(Key::Node),
            Kind::IpamBlock => name.parse().ok().map(Key::Block),
            Kind::IpamHandle => crate::api::HandleId::new(name).ok().map(Key::Handle),
            Kind::BlockAffinity => None,
        }
    }

    /// The table of some resources.
    pub(super) fn table(self, resources: &[Value], is_wide: bool) -> Table {
        let columns = self.columns().iter().filter(|column| is_wide || !column.only_wide);
        let columns: Vec<_> = columns.collect();
        let mut table = Table::new(columns.iter().map(|column| (column.header, Align::Left)));
        for resource in resources {
            table.row(columns.iter().map(|column| (column.cell)(resource)));
        }
        table
    }

    fn columns(self) -> &'static [Column] {
        match self {
            Kind::IpamConfiguration => &CONFIGURATION,
            Kind::IpPool => &POOL,
            Kind::IpReservation => &RESERVATION,
            Kind::Node => &NODE,
            Kind::BlockAffinity => &AFFINITY,
            Kind::IpamBlock => &BLOCK,
            Kind::IpamHandle => &HANDLE,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
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

struct Column {
    header: &'static str,
    only_wide: bool,
    cell: fn(&Value) -> String,
}

impl Column {
    const fn new(header: &'static str, cell: fn(&Value) -> String) -> Self {
        Self { header, only_wide: false, cell }
    }

    const fn wide(header: &'static str, cell: fn(&Value) -> String) -> Self {
        Self { header, only_wide: true, cell }
    }
}

const NAME: Column = Column::new("NAME", |resource| name(resource).to_owned());
const CIDR: Column = Column::new("CIDR", |pool| field(pool, "cidr"));

const CONFIGURATION: [Column; 6] = [
    NAME,
    Column::new("STRICTAFFINITY", |c| field(c, "strictAffinity")),
    Column::new("MAXBLOCKSPERHOST", |c| field(c, "maxBlocksPerHost")),
    Column::new("KUBEVIRTVMADDRESSPERSISTENCE", |c| field(c, "kubeVirtVMAddressPersistence")),
    Column::wide("AUTOALLOCATEBLOCKS", |c| field(c, "autoAllocateBlocks")),
    Column::wide("IPCOOLDOWNSECONDS", |c| number(c, "ipCooldownSeconds")),
];

const POOL: [Column; 11] = [
    NAME,
    CIDR,
    Column::new("SELECTOR", |pool| field(pool, "nodeSelector")),
    Column::new("BLOCKSIZE", |pool| field(pool, "blockSize")),
    Column::new("DISABLED", |pool| flag(pool, "disabled")),
    Column::wide("NAT", |pool| flag(pool, "natOutgoing")),
    Column::wide("IPIPMODE", |pool| field(pool, "ipipMode")),
    Column::wide("VXLANMODE", |pool| field(pool, "vxlanMode")),
    Column::wide("DISABLEBGPEXPORT", |pool| flag(pool, "disableBGPExport")),
    Column::wide("ASSIGNMENTMODE", |pool| field(pool, "assignmentMode")),
    Column::wide("ALLOWEDUSES", |pool| field(pool, "allowedUses")),
];

const RESERVATION: [Column; 2] = [NAME, Column::new("CIDRS", |r| field(r, "reservedCIDRs"))];

const NODE: [Column; 2] = [
    NAME,
    Column::new("LABELS", |node| {
        let labels = node.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
        let labels: Vec<_> =
            labels.iter().map(|(label, value)| format!("{label}={}", plain(value))).collect();
        if labels.is_empty() { "<none>".into() } else { labels.join(",") }
    }),
];

const AFFINITY: [Column; 5] = [
    NAME,
    CIDR,
    Column::new("NODE", |affinity| field(affinity, "node")),
    Column::new("TYPE", |affinity| field(affinity, "type")),
    Column::new("STATE", |affinity| field(affinity, "state")),
];

const BLOCK: [Column; 6] = [
    NAME,
    CIDR,
    Column::new("AFFINITY", |block| {
        let affinity = field(block, "affinity");
        if affinity.is_empty() { "<none>".into() } else { affinity }
    }),
    Column::new("INUSE", |block| (list(block, "allocations") - list(block, "unallocated")).to_string()),
    Column::new("FREE", |block| list(block, "unallocated").to_string()),
    Column::wide("SEQUENCENUMBER", |block| field(block, "sequenceNumber")),
];

const HANDLE: [Column; 3] = [
    NAME,
    Column::new("ADDRESSES", |handle| {
        let counts = blocks(handle);
        counts.values().filter_map(Value::as_u64).sum::<u64>().to_string()
    }),
    Column::new("BLOCKS", |handle| blocks(handle).keys().cloned().collect::<Vec<_>>().join(",")),
];

fn blocks(handle: &Value) -> Map<String, Value> {
    handle.pointer("/spec/block").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// A field of the specification as text; empty where it is absent.
fn field(resource: &Value, name: &str) -> String {
    resource.get("spec").and_then(|spec| spec.get(name)).map(plain).unwrap_or_default()
}

/// A field that is false where it is absent.
fn flag(resource: &Value, name: &str) -> String {
    resource.get("spec").and_then(|spec| spec.get(name)).map_or_else(|| "false".to_owned(), plain)
}

/// A field that is 0 where it is absent.
fn number(resource: &Value, name: &str) -> String {
    resource.get("spec").and_then(|spec| spec.get(name)).map_or_else(|| "0".to_owned(), plain)
}

/// How many entries a list of the specification has.
fn list(resource: &Value, name: &str) -> usize {
    resource.get("spec").and_then(|spec| spec.get(name)).and_then(Value::as_array).map_or(0, Vec::len)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_for_a_kind_is_understood_in_any_case() {
        for kind in Kind::ALL {
            let info = kind.info();
            for word in info.short.iter().chain([&info.singular, &info.plural, &info.name]) {
                assert_eq!(Kind::parse(word).expect(word), kind);
                assert_eq!(Kind::parse(&word.to_uppercase()).expect(word), kind);
                assert_eq!(Kind::parse(&format!("{word}.projectcalico.org")).expect(word), kind);
            }
        }
        assert!(matches!(Kind::parse("ippools.ipam.miloapis.com"), Err(Error::NotServed { .. })));
        assert!(matches!(Kind::parse("ippools.example.org"), Err(Error::UnknownKind(_))));
        assert!(matches!(Kind::parse("pods"), Err(Error::UnknownKind(_))));
    }
}
