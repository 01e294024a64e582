//! The values of objects that are one key.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::json::{Unreadable, keep_unknown, members, respelt, text_of};
use super::keys::key_of;
use super::mend::mended;
use super::shield;
use crate::api::Resource;
use crate::api::calico::IpamBlock;
use crate::datastore::{Error, Key, MachinesOf, Object, Revision};

/// What stands at a key.
///
/// Values of older versions are read: an empty one, a range without a length or with host bits, fields that are `null`,
/// a claim of the year 1. Fields that we do not know stay in the object.
///
/// # Errors
/// [`Error::Damaged`], with the key, when the value is of no known version, says another name than its key, or is no
/// well-formed block. A list passes it over and `ipam check` reports it; a single get fails.
pub fn decode(key: &Key, value: &[u8], revision: Revision) -> Result<Object, Error> {
    let text = std::str::from_utf8(value).map_err(|_| damaged(key, "it is not UTF-8 text".to_owned()))?;
    Ok(match key {
        Key::Configuration => Object::Configuration(Box::new(resource(key, text, "default", revision)?)),
        Key::Pool(name) => Object::Pool(Box::new(resource(key, text, name, revision)?)),
        Key::Reservation(name) => Object::Reservation(Box::new(resource(key, text, name, revision)?)),
        Key::Node(name) => Object::Node(Box::new(resource(key, text, name.as_str(), revision)?)),
        Key::Allocation(name) => Object::Allocation(Box::new(resource(key, text, &name.name, revision)?)),
        Key::Claim(name) => Object::Claim(Box::new(resource(key, text, &name.name, revision)?)),
        Key::Block(cidr) => {
            let block: IpamBlock = parsed(key, text)?;
            if block.cidr != *cidr {
                return Err(damaged(key, format!("it holds block {}", block.cidr)));
            }
            if let Some(problem) = block.problem() {
                return Err(damaged(key, format!("the block {problem}")));
            }
            block.into()
        }
        Key::Affinity(..) => Object::Affinity(parsed(key, text)?),
        Key::Handle(_) => Object::Handle(parsed(key, text)?),
        Key::Import(_) => Object::Import(parsed(key, text)?),
        Key::Carved(_) => Object::Carved(parsed(key, text)?),
        Key::PoolExtras(_) => Object::PoolExtras(Box::new(parsed(key, text)?)),
        Key::Machine(_) => Object::Machine(parsed(key, text)?),
        Key::MachinesOf(_) => Object::from(parsed::<MachinesOf>(key, text)?),
    })
}

/// The value of an object that is written over `stored`, if anything stands there.
///
/// What Calico's etcd store does not carry in a value (the revision) is left out. Of blocks, affinities, handles and
/// records of our own, fields of `stored` that we do not know stay; what people write as a whole says itself which
/// fields it has. Numbers keep their spelling.
///
/// # Errors
/// [`Error::NotStorable`] for a reservation under a name that [`shield`] keeps for its own.
pub fn encode(key: &Key, object: &Object, stored: Option<&[u8]>) -> Result<Vec<u8>, Error> {
    let stored = stored.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
    let text = match object {
        Object::Configuration(resource) => whole(&**resource, stored),
        Object::Pool(resource) => whole(&**resource, stored),
        Object::Reservation(_) if matches!(key, Key::Reservation(name) if shield::is_name(name)) => {
            return Err(Error::NotStorable {
                what: key.to_string(),
                problem: format!("names that begin with `{}` are those of carved networks", shield::PREFIX),
            });
        }
        Object::Reservation(resource) => whole(&**resource, stored),
        Object::Node(resource) => whole(&**resource, stored),
        Object::Allocation(resource) => whole(&**resource, stored),
        Object::Claim(resource) => whole(&**resource, stored),
        Object::PoolExtras(extras) => respelt(&json(&**extras), stored),
        Object::Block(block) => keep_unknown(json(&**block), stored, &BLOCK_FIELDS),
        Object::Affinity(affinity) => keep_unknown(json(affinity), stored, &["state", "deleted"]),
        Object::Handle(handle) => keep_unknown(json(handle), stored, &["block", "deleted"]),
        Object::Import(it) => keep_unknown(json(it), stored, &["network", "hosts"]),
        Object::Carved(it) => keep_unknown(json(it), stored, &["pool", "owner", "since"]),
        Object::Machine(it) => keep_unknown(json(it), stored, &MACHINE_FIELDS),
        Object::MachinesOf(it) => keep_unknown(json(it), stored, &["machines"]),
    };
    Ok(text.into_bytes())
}

const BLOCK_FIELDS: [&str; 9] = [
    "cidr",
    "affinity",
    "affinity_claim_time",
    "allocations",
    "unallocated",
    "attributes",
    "sequenceNumber",
    "sequenceNumberForAllocation",
    "deleted",
];

const MACHINE_FIELDS: [&str; 6] =
    ["network", "namespace", "name", "attachments", "ownerlessSince", "ownerlessBoot"];

/// A resource's value: its revision is etcd's.
pub(super) fn whole(resource: &impl Serialize, stored: &str) -> String {
    let mut text = json(resource);
    if let Some(mut all) = members(&text)
        && let Some(mut metadata) = all.get("metadata").and_then(|metadata| members(metadata.get()))
        && metadata.remove("resourceVersion").is_some()
        && let Ok(metadata) = serde_json::value::RawValue::from_string(text_of(&metadata))
    {
        all.insert("metadata".to_owned(), metadata);
        text = text_of(&all);
    }
    if stored.is_empty() { text } else { respelt(&text, stored) }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("stored objects have text keys and no failing parts")
}

/// A resource under its name.
pub(super) fn resource<S>(key: &Key, text: &str, name: &str, revision: Revision) -> Result<Resource<S>, Error>
where
    Resource<S>: DeserializeOwned,
{
    let mut resource: Resource<S> = parsed(key, text)?;
    let metadata = &mut resource.metadata;
    if metadata.name.is_empty() {
        name.clone_into(&mut metadata.name);
    }
    if metadata.name != name {
        return Err(damaged(key, format!("it holds `{}`", metadata.name.escape_debug())));
    }
    metadata.resource_version = Some(revision.0.to_string());
    Ok(resource)
}

fn parsed<T: DeserializeOwned>(key: &Key, text: &str) -> Result<T, Error> {
    let error = match serde_json::from_str(text) {
        Ok(object) => return Ok(object),
        Err(error) => error,
    };
    let again = match mended(key, text) {
        Ok(again) => again,
        Err(Unreadable::TooDeep) => return Err(damaged(key, "it nests too deep".to_owned())),
        Err(Unreadable::NotJson) => None,
    };
    let again = again.and_then(|text| serde_json::from_str(&text).ok());
    again.ok_or_else(|| damaged(key, format!("it cannot be read as what it should be: {error}")))
}

/// An error that names a key.
pub(super) fn damaged(key: &Key, problem: String) -> Error {
    Error::Damaged { path: PathBuf::from(key_of(key)), problem }
}
