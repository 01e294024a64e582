//! The report of `ipam check`, which `ipam release` reads again.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::error::Error;
use super::super::liveness::{Life, Witness};
use super::super::render;
use crate::ipam::{AddressFact, Survey, owner_key};
use crate::net::parse_address;

/// The version of the program, noted in every report.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a check found, as a document.
pub(super) fn document(store: &str, survey: &Survey, witness: &Witness, problems: &[Value]) -> Value {
    let mut allocations = Map::new();
    for fact in &survey.addresses {
        allocations.insert(fact.address.to_string(), json!([allocation(fact, &witness.life(fact))]));
    }
    let leaked = survey.leaked_handles.iter();
    let leaked: Vec<_> = leaked
        .map(|(id, revision)| json!({ "ID": id, "UID": null, "Revision": revision.0.to_string() }))
        .collect();
    json!({
        "version": VERSION,
        "store": store,
        "problems": problems,
        "allocations": allocations,
        "leakedHandles": leaked,
    })
}

fn allocation(fact: &AddressFact, life: &Life) -> Value {
    let mut value = Map::new();
    value.insert("ip".into(), fact.address.to_string().into());
    let noted = |key: &str| fact.noted(key).map(str::to_owned);
    let of_block = || fact.affinity.as_ref().map(|affinity| affinity.name().to_string());
    let node = noted(owner_key::NODE).or_else(of_block);
    let is_borrowed = node.is_some() && node != of_block();
    for (key, text) in [
        ("handle", fact.handle.clone()),
        ("pod", noted(owner_key::POD)),
        ("namespace", noted(owner_key::NAMESPACE)),
        ("node", node),
        ("type", noted(owner_key::TYPE)),
        ("creationTimestamp", noted(owner_key::TIMESTAMP)),
    ] {
        if let Some(text) = text {
            value.insert(key.into(), text.into());
        }
    }
    value.insert("sequenceNumber".into(), fact.sequence.into());
    for (key, is_so) in [("borrowed", is_borrowed), ("coolingDown", fact.is_cooling)] {
        if is_so {
            value.insert(key.into(), true.into());
        }
    }
    let (in_use, owners) = match life {
        _ if fact.is_cooling => (false, Value::Null),
        Life::Alive(why) => (true, json!([why])),
        // Doubt means keep.
        Life::Unknown(_) => (true, json!(["unknown"])),
        Life::Dead(_) => (false, Value::Null),
    };
    value.insert("inUse".into(), in_use.into());
    value.insert("owners".into(), owners);
    Value::Object(value)
}

/// Writes a report for its owner's eyes alone: it names every pod.
pub(super) fn write(path: &Path, report: &Value) -> Result<(), Error> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(render::json(report).as_bytes()));
    written.map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// A report that was read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The version of the program that wrote it.
    pub(super) version: String,
    /// The store that it is about.
    pub(super) store: String,
    allocations: BTreeMap<String, Vec<Listed>>,
    #[serde(default)]
    leaked_handles: Vec<ListedHandle>,
}

/// An allocation in a report.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed {
    pub(super) handle: Option<String>,
    #[serde(default)]
    pub(super) sequence_number: u64,
    in_use: bool,
    #[serde(default)]
    cooling_down: bool,
}

/// A handle in a report that named nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct ListedHandle {
    #[serde(rename = "ID")]
    pub(super) id: String,
    #[serde(rename = "Revision")]
    pub(super) revision: String,
}

impl Report {
    pub(super) fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let problem = |error: serde_json::Error| format!("is no report of `ipam check`: {error}");
        serde_json::from_slice(&text)
            .map_err(|error| Error::File { path: path.to_owned(), problem: problem(error) })
    }

    /// Addresses that nobody used.
    pub(super) fn unused(&self) -> BTreeMap<IpAddr, &Listed> {
        let listed = self.allocations.iter().filter_map(|(address, listed)| {
            let listed = listed.first().filter(|listed| !listed.in_use && !listed.cooling_down)?;
            Some((parse_address(address)?, listed))
        });
        listed.collect()
    }

    /// Handles that named nothing.
    pub(super) fn leaked_handles(&self) -> &[ListedHandle] {
        &self.leaked_handles
    }
}
