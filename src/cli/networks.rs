//! Network configurations as the command line finds them: the first of ours in a file, or in the usual directory.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::Error;
use crate::cni::config::{NetConf, Stdin};
use crate::cni::env::{Call, Verb};

/// The configurations in a directory, in the order in which libcni loads them.
pub(super) fn files_in(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = |source| Error::Read { path: dir.to_owned(), source };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(read(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(read)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("conf" | "conflist" | "json")) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What an ADD of a network would read; `None`: the file is not about a network of that name.
pub(super) fn to_add(file: &Path, name: &str) -> Result<Option<NetConf>, Error> {
    let Some(network) = network_in(file)? else { return Ok(None) };
    if network.get("name").and_then(Value::as_str) != Some(name) {
        return Ok(None);
    }
    let add = Call { verb: Verb::Add, ..no_call() };
    read(file, &network, |stdin| NetConf::for_add(stdin, &add, "host-affine")).map(Some)
}

/// The first network of ours in a file: a single configuration, or a list of plugins.
pub(super) fn in_file(file: &Path) -> Result<Option<NetConf>, Error> {
    let Some(network) = network_in(file)? else { return Ok(None) };
    read(file, &network, |stdin| NetConf::for_release(stdin, &no_call())).map(Some)
}

/// The first network of ours in a directory.
pub(super) fn first_in(dir: &Path) -> Result<Option<NetConf>, Error> {
    for file in files_in(dir)? {
        if let Some(found) = in_file(&file)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Reads a configuration that was found in a file.
fn read(
    path: &Path,
    network: &Value,
    as_what: impl Fn(&Stdin<'_>) -> Result<NetConf, crate::cni::failure::Failure>,
) -> Result<NetConf, Error> {
    let refuse = |failure: crate::cni::failure::Failure| Error::Configuration {
        path: path.to_owned(),
        problem: failure.msg,
    };
    let text = network.to_string();
    let stdin = Stdin::parse(text.as_bytes()).map_err(refuse)?;
    as_what(&stdin).map_err(refuse)
}

/// The first network of ours in a file, with what a list says for all of its plugins.
fn network_in(path: &Path) -> Result<Option<Value>, Error> {
    let text = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let root: Value = match serde_json::from_slice(&text) {
        Ok(root) => root,
        // What others have spoilt is not for us to complain about.
        Err(_) if !text.windows(11).any(|part| part == b"host-affine") => return Ok(None),
        Err(error) => {
            return Err(Error::Configuration {
                path: path.to_owned(),
                problem: format!("not valid JSON: {error}"),
            });
        }
    };
    let plugins = root.get("plugins").and_then(Value::as_array);
    let networks = plugins.map_or_else(|| std::slice::from_ref(&root), Vec::as_slice);
    let is_ours =
        |network: &&Value| network.pointer("/ipam/type").and_then(Value::as_str) == Some("host-affine");
    let Some(network) = networks.iter().find(is_ours) else {
        return Ok(None);
    };
    let mut network = network.clone();
    for key in ["name", "cniVersion"] {
        // A list says both once, for all of its plugins.
        if let (Some(object), Some(value)) = (network.as_object_mut(), root.get(key)) {
            object.insert(key.to_owned(), value.clone());
        }
    }
    Ok(Some(network))
}

/// A call about no attachment: only the store is asked for.
fn no_call() -> Call {
    Call {
        verb: Verb::Del,
        container_id: String::new(),
        netns: None,
        ifname: String::new(),
        args: String::new(),
        path: None,
    }
}
