//! The kinds of `ipam.miloapis.com`: what they are called, and how a list of them looks.

use serde_json::Value;

use super::super::render::{Align, Table};
use super::{Info, name};
use crate::api::milo::{ALL_PROJECTS_ANNOTATION, IpAllocation, view};
use crate::api::schema::Schema;
use crate::api::schema::milo as schema;
use crate::clock::Timestamp;

/// A kind of that group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Milo {
    /// The other face of a pool.
    Pool,
    Allocation,
    Claim,
}

/// How a list is to look.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Look {
    /// With the columns that few need.
    pub(in crate::cli) is_wide: bool,
    /// With the project of each.
    pub(in crate::cli) with_project: bool,
    /// Against which ages are told.
    pub(in crate::cli) now: Timestamp,
}

impl Milo {
    pub(super) const fn info(self) -> &'static Info {
        match self {
            Milo::Pool => &Info { name: "IPPool", singular: "ippool", plural: "ippools", short: &[] },
            Milo::Allocation => &Info {
                name: "IPAllocation",
                singular: "ipallocation",
                plural: "ipallocations",
                short: &["ipalloc", "ipallocs"],
            },
            Milo::Claim => &Info { name: "IPClaim", singular: "ipclaim", plural: "ipclaims", short: &[] },
        }
    }

    pub(super) const fn schema(self) -> &'static Schema {
        match self {
            Milo::Pool => &schema::IP_POOL,
            Milo::Allocation => &schema::IP_ALLOCATION,
            Milo::Claim => &schema::IP_CLAIM,
        }
    }

    /// The table of some resources.
    pub(in crate::cli) fn table(self, resources: &[Value], look: Look) -> Table {
        let of_kind: &[Column] = match self {
            Milo::Pool => &POOL,
            Milo::Allocation => &ALLOCATION,
            Milo::Claim => &CLAIM,
        };
        let project = [PROJECT];
        let columns: Vec<_> = project
            .iter()
            .filter(|_| look.with_project)
            .chain(of_kind)
            .filter(|column| look.is_wide || !column.only_wide)
            .collect();
        let mut table = Table::new(columns.iter().map(|column| (column.header, Align::Left)));
        for resource in resources {
            let cell = |column: &&Column| {
                let text = (column.cell)(resource, look.now);
                if text.is_empty() { "<none>".to_owned() } else { text }
            };
            table.row(columns.iter().map(cell));
        }
        table
    }
}

struct Column {
    header: &'static str,
    only_wide: bool,
    cell: fn(&Value, Timestamp) -> String,
}

const fn column(header: &'static str, cell: fn(&Value, Timestamp) -> String) -> Column {
    Column { header, only_wide: false, cell }
}

const fn wide(header: &'static str, cell: fn(&Value, Timestamp) -> String) -> Column {
    Column { header, only_wide: true, cell }
}

const PROJECT: Column = column("PROJECT", |resource, _| {
    let annotations = resource.pointer("/metadata/annotations");
    let project = annotations.and_then(|all| all.get(ALL_PROJECTS_ANNOTATION)).and_then(Value::as_str);
    project.unwrap_or_default().to_owned()
});
const NAME: Column = column("NAME", |resource, _| name(resource).to_owned());
const CIDR: Column = column("CIDR", |resource, _| text(resource, "/status/allocatedCIDR"));
const PHASE: Column = column("PHASE", |resource, _| text(resource, "/status/phase"));
const AGE: Column = column("AGE", |resource, now| {
    let created = resource.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    let created = created.and_then(Timestamp::parse);
    created.map_or_else(|| "<unknown>".to_owned(), |created| age(now.since(created).as_secs()))
});

const ALLOCATION: [Column; 7] = [
    NAME,
    CIDR,
    column("POOL", |allocation, _| text(allocation, "/spec/poolRef/name")),
    PHASE,
    AGE,
    wide("FAMILY", |allocation, _| text(allocation, "/spec/ipFamily")),
    wide("OWNER", |allocation, _| {
        let allocation: Option<IpAllocation> = serde_json::from_value(allocation.clone()).ok();
        allocation.as_ref().and_then(view::owner).unwrap_or_default()
    }),
];

const POOL: [Column; 10] = [
    NAME,
    CIDR,
    PHASE,
    column("FAMILY", |pool, _| text(pool, "/status/ipFamily")),
    column("LARGEST-FREE", |pool, _| {
        let largest = pool.pointer("/status/largestFreePrefix").and_then(Value::as_u64);
        largest.filter(|length| *length > 0).map(|length| format!("/{length}")).unwrap_or_default()
    }),
    column("UTIL%", |pool, _| text(pool, "/status/utilizationPercent")),
    AGE,
    wide("STRATEGY", |pool, _| text(pool, "/spec/allocation/strategy")),
    wide("PARENT", |pool, _| text(pool, "/spec/parentPoolRef/name")),
    wide("FREE-SLOTS", |pool, _| {
        let slot = |field: &str| text(pool, &format!("/status/slots/{field}"));
        format!("{} of {}", slot("free"), slot("total"))
    }),
];

const CLAIM: [Column; 9] = [
    NAME,
    PHASE,
    CIDR,
    column("POOL", |claim, _| match text(claim, "/spec/poolRef/name") {
        named if !named.is_empty() => named,
        _ => "<selector>".to_owned(),
    }),
    column("FAMILY", |claim, _| text(claim, "/spec/ipFamily")),
    column("LENGTH", |claim, _| text(claim, "/spec/prefixLength")),
    AGE,
    wide("ALLOCATION", |claim, _| text(claim, "/status/boundAllocationRef/name")),
    wide("RECLAIM", |claim, _| match text(claim, "/spec/reclaimPolicy") {
        policy if !policy.is_empty() => policy,
        _ => "Delete".to_owned(),
    }),
];

fn text(resource: &Value, path: &str) -> String {
    match resource.pointer(path) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A time that has passed, in `kubectl`'s words: two units where the larger one is small.
fn age(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    let two = |large: u64, large_word: &str, small: u64, small_word: &str| {
        let (whole, rest) = (seconds / large, seconds % large / small);
        if rest == 0 {
            format!("{whole}{large_word}")
        } else {
            format!("{whole}{large_word}{rest}{small_word}")
        }
    };
    match seconds {
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(MINUTE, "m", 1, "s"),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(HOUR, "h", MINUTE, "m"),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(DAY, "d", HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_as_people_read_them() {
        let minutes = |minutes: u64| minutes * 60;
        for (seconds, told) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (minutes(10), "10m"),
            (minutes(179), "179m"),
            (minutes(185), "3h5m"),
            (minutes(8 * 60), "8h"),
            (minutes(47 * 60), "47h"),
            (minutes(49 * 60), "2d1h"),
            (minutes(30 * 24 * 60), "30d"),
            (minutes(800 * 24 * 60), "2y70d"),
            (minutes(9 * 365 * 24 * 60), "9y"),
        ] {
            assert_eq!(age(seconds), told);
        }
    }
}
