//! Objects as the text of their files. Resources are written for people to read, the rest on one line.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::calico::{BlockAffinity, IpamBlock};
use crate::api::milo::PoolExtras;
use crate::api::{Affinity, HandleId, Resource};
use crate::datastore::{Carved, Entry, Error, Import, Key, Object, ProjectName, Revision};
use crate::net::Cidr;

/// An affinity's file. Its owner may be too long for the name of its directory.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffinityFile {
    owner: Affinity,
    cidr: Cidr,
    resource_version: String,
    #[serde(flatten)]
    affinity: BlockAffinity,
}

/// A record of our own as it is stored, with the commit that wrote it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnFile<T> {
    resource_version: String,
    #[serde(flatten)]
    record: T,
}

/// A import as it is stored.
pub(super) type ImportFile = OwnFile<Import>;

impl<T> OwnFile<T> {
    pub(super) fn new(revision: Revision, record: T) -> Self {
        Self { resource_version: revision.0.to_string(), record }
    }

    pub(super) fn into_parts(self) -> Option<(Revision, T)> {
        Some((parse_revision(&self.resource_version)?, self.record))
    }
}

/// A resource of a project.
#[derive(Serialize, Deserialize)]
struct OfProject<T> {
    project: String,
    #[serde(flatten)]
    resource: T,
}

/// A record that stands under a name.
#[derive(Serialize, Deserialize)]
struct OfName<T> {
    name: String,
    #[serde(flatten)]
    record: T,
}

/// A record that stands under its handle, which the name of its file may have only a hash of.
#[derive(Serialize, Deserialize)]
struct OfHandle<T> {
    handle: HandleId,
    #[serde(flatten)]
    record: T,
}

/// Writes the number of the commit that changes it into an object that carries one. A block carries its own.
pub(super) fn stamp(object: &mut Object, revision: Revision) {
    let version = Some(revision.0.to_string());
    match object {
        Object::Configuration(resource) => resource.metadata.resource_version = version,
        Object::Pool(resource) => resource.metadata.resource_version = version,
        Object::Reservation(resource) => resource.metadata.resource_version = version,
        Object::Node(resource) => resource.metadata.resource_version = version,
        Object::Allocation(resource) => resource.metadata.resource_version = version,
        Object::Claim(resource) => resource.metadata.resource_version = version,
        Object::Block(_)
        | Object::Affinity(_)
        | Object::Handle(_)
        | Object::Import(_)
        | Object::Carved(_)
        | Object::PoolExtras(_)
        | Object::Machine(_)
        | Object::MachinesOf(_) => {}
    }
}

/// The text of an object's file.
///
/// # Panics
/// For a handle, which has no file; and when an object cannot be JSON, which its type excludes.
pub(super) fn encode(key: &Key, object: &Object, revision: Revision) -> Vec<u8> {
    match (key, object) {
        (_, Object::Configuration(resource)) => pretty(&**resource),
        (_, Object::Pool(resource)) => pretty(&**resource),
        (_, Object::Reservation(resource)) => pretty(&**resource),
        (_, Object::Node(resource)) => pretty(&**resource),
        (_, Object::Import(import)) => pretty(&ImportFile::new(revision, import.clone())),
        (_, Object::Carved(carved)) => pretty(&OwnFile::new(revision, carved.clone())),
        (Key::PoolExtras(name), Object::PoolExtras(extras)) => {
            pretty(&OwnFile::new(revision, OfName { name: name.clone(), record: (**extras).clone() }))
        }
        (Key::Allocation(name), Object::Allocation(resource)) => {
            pretty(&OfProject { project: name.project.clone(), resource: (**resource).clone() })
        }
        (Key::Claim(name), Object::Claim(resource)) => {
            pretty(&OfProject { project: name.project.clone(), resource: (**resource).clone() })
        }
        (Key::Machine(handle), Object::Machine(machine)) => {
            pretty(&OwnFile::new(revision, OfHandle { handle: handle.clone(), record: machine.clone() }))
        }
        (Key::MachinesOf(handle), Object::MachinesOf(machines)) => {
            compact(&OwnFile::new(revision, OfHandle { handle: handle.clone(), record: machines.clone() }))
        }
        (_, Object::Block(block)) => compact(&**block),
        (Key::Affinity(owner, cidr), Object::Affinity(affinity)) => compact(&AffinityFile {
            owner: owner.clone(),
            cidr: *cidr,
            resource_version: revision.0.to_string(),
            affinity: affinity.clone(),
        }),
        (key, object) => panic!("{object:?} has no file at {key}"),
    }
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    line(serde_json::to_vec_pretty(value))
}

/// JSON on one line.
pub(super) fn compact(value: &impl Serialize) -> Vec<u8> {
    line(serde_json::to_vec(value))
}

fn line(json: serde_json::Result<Vec<u8>>) -> Vec<u8> {
    let mut json = json.expect("stored objects have text keys and no failing parts");
    json.push(b'\n');
    json
}

/// Reads JSON from a file, or from where the journal carries its content.
pub(super) fn decode<T: DeserializeOwned>(path: &Path, content: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(content)
        .map_err(|error| damaged(path, format!("it cannot be read as what it should be: {error}")))
}

/// Reads a block.
pub(super) fn decode_block(path: &Path, cidr: Cidr, content: &[u8]) -> Result<IpamBlock, Error> {
    let block: IpamBlock = decode(path, content)?;
    if block.cidr != cidr {
        return Err(damaged(path, format!("it holds block {}", block.cidr)));
    }
    match block.problem() {
        None => Ok(block),
        Some(problem) => Err(damaged(path, format!("the block {problem}"))),
    }
}

/// Reads a resource whose file bears its name, which `named` judges.
pub(super) fn decode_resource<S>(
    path: &Path,
    content: &[u8],
    named: impl Fn(&str) -> bool,
) -> Result<(Revision, Resource<S>), Error>
where
    Resource<S>: DeserializeOwned,
{
    let resource: Resource<S> = decode(path, content)?;
    if !named(&resource.metadata.name) {
        return Err(damaged(path, format!("it holds `{}`", resource.metadata.name.escape_debug())));
    }
    let revision = resource.metadata.resource_version.as_deref().and_then(parse_revision);
    match revision {
        Some(revision) => Ok((revision, resource)),
        None => Err(damaged(path, "it has no numeric `resourceVersion`".to_owned())),
    }
}

/// Reads an affinity whose file's path, made from its owner and block, `at` judges.
pub(super) fn decode_affinity(
    path: &Path,
    content: &[u8],
    at: impl Fn(&Key) -> bool,
) -> Result<Entry, Error> {
    let file: AffinityFile = decode(path, content)?;
    let key = Key::Affinity(file.owner, file.cidr);
    if !at(&key) {
        return Err(damaged(path, format!("it holds the {key}")));
    }
    let Some(revision) = parse_revision(&file.resource_version) else {
        return Err(damaged(path, "it has no numeric `resourceVersion`".to_owned()));
    };
    Ok(Entry { key, revision, object: Object::Affinity(file.affinity) })
}

/// Reads a import, of the network that `named` judges.
pub(super) fn decode_import(
    path: &Path,
    content: &[u8],
    named: impl Fn(&str) -> bool,
) -> Result<(Revision, Import), Error> {
    let parts = decode::<ImportFile>(path, content)?.into_parts();
    match parts {
        Some((revision, import)) if named(&import.network) => Ok((revision, import)),
        Some((_, import)) => {
            Err(damaged(path, format!("it holds network `{}`", import.network.escape_debug())))
        }
        None => Err(damaged(path, "it has no numeric `resourceVersion`".to_owned())),
    }
}

/// Reads a network carved out of a pool.
pub(super) fn decode_carved(path: &Path, cidr: Cidr, content: &[u8]) -> Result<Entry, Error> {
    let (revision, carved) = own_parts::<Carved>(path, content)?;
    Ok(Entry { key: Key::Carved(cidr), revision, object: carved.into() })
}

/// Reads what only one face of a pool knows.
pub(super) fn decode_extras(path: &Path, content: &[u8], at: impl Fn(&Key) -> bool) -> Result<Entry, Error> {
    let (revision, OfName { name, record }) = own_parts::<OfName<PoolExtras>>(path, content)?;
    let key = Key::PoolExtras(name);
    if !at(&key) {
        return Err(damaged(path, format!("it holds {key}")));
    }
    Ok(Entry { key, revision, object: record.into() })
}

/// Reads a resource of a project, of the key that `at` judges.
pub(super) fn decode_of_project<S>(
    path: &Path,
    content: &[u8],
    key: fn(ProjectName) -> Key,
    at: impl Fn(&Key) -> bool,
) -> Result<Entry, Error>
where
    Resource<S>: DeserializeOwned + Into<Object>,
{
    let OfProject { project, resource } = decode::<OfProject<Resource<S>>>(path, content)?;
    let key = key(ProjectName { project, name: resource.metadata.name.clone() });
    if !at(&key) {
        return Err(damaged(path, format!("it holds {key}")));
    }
    match resource.metadata.resource_version.as_deref().and_then(parse_revision) {
        Some(revision) => Ok(Entry { key, revision, object: resource.into() }),
        None => Err(damaged(path, "it has no numeric `resourceVersion`".to_owned())),
    }
}

/// Reads a record that stands under its handle, of the key that `at` judges.
pub(super) fn decode_of_handle<T: DeserializeOwned + Into<Object>>(
    path: &Path,
    content: &[u8],
    key: fn(HandleId) -> Key,
    at: impl Fn(&Key) -> bool,
) -> Result<Entry, Error> {
    let (revision, OfHandle { handle, record }) = own_parts::<OfHandle<T>>(path, content)?;
    let key = key(handle);
    if !at(&key) {
        return Err(damaged(path, format!("it holds {key}")));
    }
    Ok(Entry { key, revision, object: record.into() })
}

fn own_parts<T: DeserializeOwned>(path: &Path, content: &[u8]) -> Result<(Revision, T), Error> {
    let parts = decode::<OwnFile<T>>(path, content)?.into_parts();
    parts.ok_or_else(|| damaged(path, "it has no numeric `resourceVersion`".to_owned()))
}

/// The number of a commit, as objects carry it.
pub(super) fn parse_revision(version: &str) -> Option<Revision> {
    version.parse().ok().map(Revision)
}

/// An error that names a file.
pub(super) fn damaged(path: &Path, problem: String) -> Error {
    Error::Damaged { path: path.to_owned(), problem }
}
