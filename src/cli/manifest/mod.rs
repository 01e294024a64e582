//! Files of resources: YAML or JSON, several in a file, several files in a directory. Every complaint says where.

mod node;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::Error;
use super::kinds::{Kind, Milo};
use crate::api::validate::{self, Problem};
use crate::api::{calico, milo};
use node::{At, Content, Node};

/// A resource that somebody wrote, found to be one of its kind.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// The resource, in the words of the present version.
    pub(super) object: Value,
    place: Place,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    place: Place,
    /// The resource. `None`: it cannot be told.
    resource: Option<(Kind, String)>,
    reason: String,
}

/// A place in a file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    file: String,
    at: At,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { file, at } = &self.place;
        write!(f, "{file}:{}:{}: ", at.line, at.column)?;
        if let Some((kind, name)) = &self.resource {
            write!(f, "{kind} `{}`: ", name.escape_debug())?;
        }
        f.write_str(&self.reason)
    }
}

impl Manifest {
    /// A fault of the resource as a whole.
    pub(super) fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault {
            place: self.place.clone(),
            resource: Some((self.kind, self.name.clone())),
            reason: reason.into(),
        }
    }
}

/// Reads every resource of some files, directories, or standard input (`-`). All of them are right, or none is
/// returned.
pub(super) fn load(sources: &[PathBuf], stdin: &mut dyn std::io::Read) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    let mut faults = Vec::new();
    for source in sources {
        if source.as_os_str() == "-" {
            let mut bytes = Vec::new();
            let read = stdin.read_to_end(&mut bytes);
            read.map_err(|error| Error::Read { path: "standard input".into(), source: error })?;
            read_file("<stdin>", &bytes, &mut manifests, &mut faults);
            continue;
        }
        for file in files(source)? {
            let bytes =
                std::fs::read(&file).map_err(|error| Error::Read { path: file.clone(), source: error })?;
            read_file(&file.display().to_string(), &bytes, &mut manifests, &mut faults);
        }
    }
    find_twice(&manifests, &mut faults);
    if !faults.is_empty() {
        return Err(Error::Manifest(faults));
    }
    if manifests.is_empty() {
        return Err(Error::NoResources);
    }
    Ok(manifests)
}

/// One document that is no resource, such as a patch. What is wrong with it, if it is none.
pub(super) fn value(text: &str) -> Result<Value, String> {
    match parse::documents(text, false) {
        Ok(documents) => match &*documents {
            [document] => Ok(document.value()),
            several => Err(format!("it holds {} documents", several.len())),
        },
        Err((_, reason)) => Err(format!("it {reason}")),
    }
}

/// The file itself, or the files of a directory that hold resources, by name.
fn files(source: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = |error| Error::Read { path: source.to_owned(), source: error };
    if !std::fs::metadata(source).map_err(read)?.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(source).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(file: &str, bytes: &[u8], manifests: &mut Vec<Manifest>, faults: &mut Vec<Fault>) {
    let fault =
        |at: At, reason: String| Fault { place: Place { file: file.to_owned(), at }, resource: None, reason };
    let Ok(text) = std::str::from_utf8(bytes) else {
        faults.push(fault(At::START, "is no UTF-8 text".to_owned()));
        return;
    };
    match parse::documents(text, Path::new(file).extension().is_some_and(|extension| extension == "json")) {
        Err((at, reason)) => faults.push(fault(at, reason)),
        Ok(documents) => {
            for document in documents {
                take(file, document, manifests, faults);
            }
        }
    }
}

/// Takes a document: a resource, or a list of them.
fn take(file: &str, node: Node, manifests: &mut Vec<Manifest>, faults: &mut Vec<Fault>) {
    if matches!(node.content, Content::Null) {
        return;
    }
    if let Content::List(entries) = node.content {
        for entry in entries {
            take(file, entry, manifests, faults);
        }
        return;
    }
    let is_list = node.text("kind").is_some_and(|kind| kind.ends_with("List"));
    match node.member("items") {
        Some(Node { content: Content::List(items), .. }) if is_list => {
            for item in items.clone() {
                take(file, item, manifests, faults);
            }
        }
        _ => match resource(file, &node) {
            Ok(manifest) => manifests.push(manifest),
            Err(found) => faults.extend(found),
        },
    }
}

fn resource(file: &str, node: &Node) -> Result<Manifest, Vec<Fault>> {
    let place = |at| Place { file: file.to_owned(), at };
    let refuse = |at, reason: String| vec![Fault { place: place(at), resource: None, reason }];
    if !matches!(node.content, Content::Map(_)) {
        return Err(refuse(
            node.at,
            "is no resource: expected an object with `kind` and `metadata`".to_owned(),
        ));
    }
    let word = |key: &str| {
        let found = node.member(key).ok_or_else(|| refuse(node.at, format!("`{key}` is missing")))?;
        match &found.content {
            Content::Text(text) => Ok((found.at, text.as_str())),
            _ => Err(refuse(found.at, format!("`{key}` is not text"))),
        }
    };
    let ((version_at, version), (kind_at, kind_word)) = (word("apiVersion")?, word("kind")?);
    let kind = kind_of(version, kind_word)
        .map_err(|(is_version, reason)| refuse(if is_version { version_at } else { kind_at }, reason))?;
    let mut object = node.value();
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.info().name.into();
    if kind == Kind::Node && version == "v1" {
        // Kubernetes keeps much in a node; only its name and labels count here.
        object["spec"] = serde_json::json!({});
    }
    let name = super::kinds::name(&object).to_owned();
    let Some(schema) = kind.schema() else {
        return Err(refuse(kind_at, format!("{kind} is read-only: it is made by assigning addresses")));
    };
    let problems = problems_of(kind, schema, &object);
    if problems.is_empty() {
        strip_nulls(&mut object);
        return Ok(Manifest { kind, name, object, place: place(node.at) });
    }
    let fault = |problem: Problem| Fault {
        place: place(node.locate(&problem.path)),
        resource: (!name.is_empty()).then(|| (kind, name.clone())),
        reason: problem.to_string(),
    };
    let mut faults: Vec<_> = problems.into_iter().map(fault).collect();
    faults.sort_by_key(|fault| (fault.place.at.line, fault.place.at.column));
    Err(faults)
}

/// What is wrong with a resource by itself.
pub(super) fn problems_of(kind: Kind, schema: &crate::api::schema::Schema, object: &Value) -> Vec<Problem> {
    let mut problems = validate::check_object(schema, object);
    if kind == Kind::IpPool && problems.is_empty() {
        let text = |field: &str| object.pointer(&format!("/spec/{field}")).and_then(Value::as_str);
        problems = crate::ipam::check_selectors(text("nodeSelector"), text("namespaceSelector"));
    }
    if kind == Kind::Milo(Milo::Allocation) && milo::block_of_name(super::kinds::name(object)).is_some() {
        // Who looks into the store knows better whose block that is.
        problems.retain(|problem| problem.path.to_string() != "metadata.name");
    }
    problems
}

/// The kind of a version and a word. Where there is none, whether it is the version's fault, and what is accepted.
fn kind_of(version: &str, word: &str) -> Result<Kind, (bool, String)> {
    let known = match version {
        // The names of Calico's first resources in Kubernetes.
        calico::API_VERSION | "crd.projectcalico.org/v1" => of_group(calico::API_VERSION).find(|kind| {
            kind.info().name == word || (*kind == Kind::IpamConfiguration && word == "IPAMConfig")
        }),
        "v1" if word == "Node" => Some(Kind::Node),
        milo::API_VERSION => of_group(version).find(|kind| kind.info().name == word),
        _ => {
            let (calico, milo) = (calico::API_VERSION, milo::API_VERSION);
            let reason =
                format!("`apiVersion` is `{}`; expected `{calico}` or `{milo}`", version.escape_debug());
            return Err((true, reason));
        }
    };
    known.ok_or_else(|| {
        let api_version = if version == milo::API_VERSION { version } else { calico::API_VERSION };
        let written: Vec<_> = of_group(api_version)
            .filter(|kind| kind.schema().is_some())
            .map(|kind| format!("`{}`", kind.info().name))
            .collect();
        let is_other = version == milo::API_VERSION && OTHER_KINDS.contains(&word);
        let other = if is_other { ", of another API that was served under the same version" } else { "" };
        let word = word.escape_debug();
        (false, format!("`kind` is `{word}`{other}; expected one of {}", written.join(", ")))
    })
}

/// Kinds that other APIs had which were served as `ipam.miloapis.com/v1alpha1`.
const OTHER_KINDS: [&str; 9] = [
    "IPClass",
    "IPPrefixClass",
    "IPPrefix",
    "IPPrefixClaim",
    "IPAddress",
    "IPAddressClaim",
    "ASNPoolClass",
    "ASNPool",
    "ASNClaim",
];

fn of_group(api_version: &str) -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(move |kind| kind.api_version() == api_version)
}

/// A null means that a field is absent.
pub(super) fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(entries) => entries.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

fn find_twice(manifests: &[Manifest], faults: &mut Vec<Fault>) {
    let mut seen: BTreeMap<(Kind, &str), &Place> = BTreeMap::new();
    for manifest in manifests {
        match seen.get(&(manifest.kind, &*manifest.name)) {
            Some(Place { file, at }) => {
                let first = format!("is given twice: first at {file}:{}:{}", at.line, at.column);
                faults.push(manifest.fault(first));
            }
            None => drop(seen.insert((manifest.kind, &manifest.name), &manifest.place)),
        }
    }
}
