//! How a list of each kind looks.

use serde_json::{Map, Value};

use super::super::render::{Align, Table};
use super::{Kind, Look, name};

impl Kind {
    /// The table of some resources.
    pub(in crate::cli) fn table(self, resources: &[Value], look: Look) -> Table {
        let columns: &[Column] = match self {
            Kind::IpamConfiguration => &CONFIGURATION,
            Kind::IpPool => &POOL,
            Kind::IpReservation => &RESERVATION,
            Kind::Node => &NODE,
            Kind::BlockAffinity => &AFFINITY,
            Kind::IpamBlock => &BLOCK,
            Kind::IpamHandle => &HANDLE,
            Kind::Milo(kind) => return kind.table(resources, look),
        };
        let columns: Vec<_> = columns.iter().filter(|column| look.is_wide || !column.only_wide).collect();
        let mut table = Table::new(columns.iter().map(|column| (column.header, Align::Left)));
        for resource in resources {
            table.row(columns.iter().map(|column| (column.cell)(resource)));
        }
        table
    }
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
