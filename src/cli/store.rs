//! Which store a command line means, and how it is opened.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::Error;
use super::{Context, args::Global};
use crate::api::HostName;
use crate::cni::config::{
    DatastoreConf, Durability as ConfDurability, FileConf, LOCK_TIMEOUT, NODENAME_FILE, NetConf, NodeConf,
    Stdin, node_name_from_file, parse_node_name,
};
use crate::cni::env::{Call, Verb};
use crate::datastore::file::{Access, Durability, FileStore, IfAbsent, Options};
use crate::datastore::memory::Memory;
use crate::datastore::{
    self, Affinities, Answer as Read, Batch, Commit, Datastore, Derived, Inspect, Visit, Want,
};
use crate::ipam::{Host, Ipam, Trial};

/// Names a store, for those who do not want to repeat `--datastore`.
const VARIABLE: &str = "HOST_AFFINE_DATASTORE";
/// Where cnitool and its libraries look for network configurations, and the variable that names another place.
const NETCONF_DIR: &str = "/etc/cni/net.d";
const NETCONF_DIR_VARIABLE: &str = "NETCONFPATH";

/// What a command line knows of the network that it is about.
struct Conf {
    datastore: DatastoreConf,
    lock_timeout: std::time::Duration,
    /// Where this host's name comes from.
    node: NodeConf,
}

impl Conf {
    fn of(datastore: DatastoreConf) -> Self {
        Self { datastore, lock_timeout: LOCK_TIMEOUT, node: NodeConf::default() }
    }
}

impl Context<'_> {
    /// This host, as the plugin would name it. `None`: nothing says its name.
    pub(super) fn this_host(&self) -> Result<Option<Host>, Error> {
        let node = self.conf()?.node;
        let file = node.nodename_file.as_deref().unwrap_or(Path::new(NODENAME_FILE));
        let of_file = || node_name_from_file(&crate::host::read_small(file).ok()?, file).ok();
        let of_kernel = || parse_node_name(&crate::host::kernel_host_name().ok()?);
        let name =
            node.nodename.clone().or_else(of_file).or_else(|| node.hostname.clone()).or_else(of_kernel);
        let name = name.and_then(|name| HostName::new(name).ok());
        Ok(name.map(|name| Host { name, boot: crate::host::boot_id() }))
    }

    /// The store's directory and how it is opened.
    pub(super) fn locate(&self) -> Result<Options, Error> {
        let Conf { datastore, lock_timeout, .. } = self.conf()?;
        let file = match datastore {
            DatastoreConf::File(file) => file,
            DatastoreConf::Etcd(_) => return Err(not_served("etcd")),
            DatastoreConf::Kubernetes(_) => return Err(not_served("kubernetes")),
        };
        Ok(Options {
            path: file.path,
            durability: match file.durability {
                ConfDurability::Power => Durability::Power,
                ConfDurability::Process => Durability::Process,
            },
            allow_network_file_system: file.allow_network_filesystem,
            lock_timeout,
            operation: format!("process {} ({})", std::process::id(), self.operation),
        })
    }

    fn conf(&self) -> Result<Conf, Error> {
        let Global { datastore, conf, .. } = self.global;
        match (datastore, conf) {
            (Some(_), Some(_)) => Err(Error::Argument {
                what: "`--conf` beside `--datastore`".into(),
                found: conf.as_deref().unwrap_or(Path::new("")).display().to_string(),
                expected: "one of the two".into(),
            }),
            (Some(url), None) => Ok(Conf::of(parse_url("`--datastore`", url)?)),
            (None, Some(path)) => in_file(path)?.ok_or_else(|| Error::Configuration {
                path: path.clone(),
                problem: "no network in it has an `ipam` section of type `host-affine`".into(),
            }),
            (None, None) => self.default_conf(),
        }
    }

    fn default_conf(&self) -> Result<Conf, Error> {
        if let Some(url) = self.variable(VARIABLE) {
            return Ok(Conf::of(parse_url(&format!("`{VARIABLE}`"), &url.to_string_lossy())?));
        }
        Ok(first_in(&self.netconf_dir())?.unwrap_or_else(|| Conf::of(DatastoreConf::default())))
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        (self.variables)(name).filter(|value| !value.is_empty())
    }

    fn netconf_dir(&self) -> PathBuf {
        self.variable(NETCONF_DIR_VARIABLE).map_or_else(|| NETCONF_DIR.into(), PathBuf::from)
    }

    /// The configuration of a network of ours, as its ADD reads it: that of `--conf`, or one in the usual directory.
    pub(super) fn network_conf(&self, name: &str) -> Result<Option<NetConf>, Error> {
        let files = match &self.global.conf {
            Some(file) => vec![file.clone()],
            None => files_in(&self.netconf_dir())?,
        };
        for file in files {
            if let Some(network) = network_in(&file)?
                && network.get("name").and_then(Value::as_str) == Some(name)
            {
                let add = Call { verb: Verb::Add, ..no_call() };
                return read(&file, &network, |stdin| NetConf::for_add(stdin, &add, "host-affine")).map(Some);
            }
        }
        Ok(None)
    }

    /// Opens the store to look at it. Where there is none, it holds nothing, and the note says so.
    pub(super) fn open_to_read(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        self.open(Access::Read, IfAbsent::None)
    }

    /// Opens the store to change what is in it. Where there is none, it holds nothing, and the note says so.
    pub(super) fn open_to_change(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        self.open(Access::Change, IfAbsent::None)
    }

    /// Gives the store's journal a header back that it lost. The answer says what was done, where it was.
    pub(super) fn salvage(&self) -> Result<Option<String>, Error> {
        Ok(FileStore::salvage(&self.locate()?)?)
    }

    /// Opens the store to find out what a change would do, without making it.
    pub(super) fn open_to_rehearse(&self) -> Result<(Ipam<Store>, Option<String>), Error> {
        let (ipam, note) = self.open(Access::Read, IfAbsent::None)?;
        let store = match ipam.into_store() {
            Store::File(store) => Store::Rehearsal(store),
            store => store,
        };
        Ok((Ipam::new(store), note))
    }

    /// Opens the store to write something into it, or to find out what that would do. Only who writes makes a store.
    pub(super) fn open_to_write(&self, trial: Trial) -> Result<Ipam<Store>, Error> {
        let (access, if_absent) = match trial {
            Trial::DryRun => (Access::Read, IfAbsent::None),
            Trial::Write => (Access::Change, IfAbsent::Create),
        };
        self.open(access, if_absent).map(|(ipam, _)| ipam)
    }

    fn open(&self, access: Access, if_absent: IfAbsent) -> Result<(Ipam<Store>, Option<String>), Error> {
        let options = self.locate()?;
        if let Some(store) = FileStore::open(&options, access, if_absent)? {
            return Ok((Ipam::new(Store::File(Box::new(store))), None));
        }
        let note =
            format!("note: there is no store at {}: nothing was ever assigned", options.path.display());
        Ok((Ipam::new(Store::Absent(Memory::new())), Some(note)))
    }
}

/// The store that a command line means.
#[derive(Debug)]
pub(super) enum Store {
    /// In files.
    File(Box<FileStore>),
    /// The same, where nothing is written that is told to be.
    Rehearsal(Box<FileStore>),
    /// There is none: it holds nothing, and nothing is written to it.
    Absent(Memory),
}

impl Store {
    /// Lets others at the store, when everything has been read.
    pub(super) fn unlock(&mut self) {
        if let Store::File(store) | Store::Rehearsal(store) = self {
            store.unlock();
        }
    }
}

impl Datastore for Store {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Read>, datastore::Error> {
        match self {
            Store::File(store) | Store::Rehearsal(store) => store.read(wants).await,
            Store::Absent(store) => store.read(wants).await,
        }
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, datastore::Error> {
        match self {
            Store::File(store) => store.commit(batch).await,
            Store::Rehearsal(_) => Ok(Commit::Applied),
            Store::Absent(store) => store.commit(batch).await,
        }
    }

    async fn settle(&mut self) {
        match self {
            Store::File(store) => store.settle().await,
            Store::Rehearsal(_) => {}
            Store::Absent(store) => store.settle().await,
        }
    }

    async fn make_durable(&mut self) -> Result<(), datastore::Error> {
        match self {
            Store::File(store) => store.make_durable().await,
            Store::Rehearsal(_) => Ok(()),
            Store::Absent(store) => store.make_durable().await,
        }
    }

    fn is_atomic(&self) -> bool {
        match self {
            Store::File(store) | Store::Rehearsal(store) => store.is_atomic(),
            Store::Absent(store) => store.is_atomic(),
        }
    }

    fn is_one_machine(&self) -> bool {
        match self {
            Store::File(store) | Store::Rehearsal(store) => store.is_one_machine(),
            Store::Absent(store) => store.is_one_machine(),
        }
    }
}

/// A map has no files that could be damaged.
impl Inspect for Memory {}

impl Inspect for Store {
    async fn each_block(&mut self, visit: &mut dyn FnMut(Visit)) -> Result<(), datastore::Error> {
        match self {
            Store::File(store) | Store::Rehearsal(store) => store.each_block(visit).await,
            Store::Absent(_) => Ok(()),
        }
    }

    async fn all_affinities(&mut self) -> Result<Affinities, datastore::Error> {
        match self {
            Store::File(store) | Store::Rehearsal(store) => store.all_affinities().await,
            Store::Absent(store) => store.all_affinities().await,
        }
    }

    async fn unreadable(&mut self) -> Result<Vec<datastore::Error>, datastore::Error> {
        match self {
            Store::File(store) | Store::Rehearsal(store) => store.unreadable().await,
            Store::Absent(_) => Ok(Vec::new()),
        }
    }

    fn counts_handles(&self) -> bool {
        match self {
            Store::File(store) | Store::Rehearsal(store) => store.counts_handles(),
            Store::Absent(store) => store.counts_handles(),
        }
    }

    async fn derived(&mut self) -> Result<Vec<Derived>, datastore::Error> {
        match self {
            Store::File(store) | Store::Rehearsal(store) => store.derived().await,
            Store::Absent(_) => Ok(Vec::new()),
        }
    }

    async fn rebuild(&mut self) -> Result<Vec<String>, datastore::Error> {
        match self {
            Store::File(store) => store.rebuild().await,
            Store::Rehearsal(_) | Store::Absent(_) => Ok(Vec::new()),
        }
    }
}

fn not_served(what: &str) -> Error {
    Error::NotServed {
        what: format!("a datastore of type `{what}`"),
        instead: "use a file store: `--datastore file:///var/lib/cni/host-affine`",
    }
}

/// A datastore's URL. `what` names where it came from.
fn parse_url(what: &str, url: &str) -> Result<DatastoreConf, Error> {
    let expected = || Error::Argument {
        what: what.to_owned(),
        found: url.to_owned(),
        expected: "`file:///DIRECTORY`, `etcd://HOST:PORT`, `etcds://HOST:PORT` or `kubernetes://`".into(),
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(expected)?;
    match scheme {
        "file" if Path::new(rest).is_absolute() => Ok(DatastoreConf::File(FileConf::at(rest.into()))),
        "etcd" | "etcds" => Err(not_served("etcd")),
        "kubernetes" => Err(not_served("kubernetes")),
        _ => Err(expected()),
    }
}

/// The configurations in a directory, in the order in which libcni loads them.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, Error> {
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

/// The first configuration of ours in a directory.
fn first_in(dir: &Path) -> Result<Option<Conf>, Error> {
    for file in files_in(dir)? {
        if let Some(found) = in_file(&file)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The store that the first network of ours in a file names: a single configuration, or a list of plugins.
fn in_file(path: &Path) -> Result<Option<Conf>, Error> {
    let Some(network) = network_in(path)? else { return Ok(None) };
    let conf = read(path, &network, |stdin| NetConf::for_release(stdin, &no_call()))?;
    Ok(Some(Conf { datastore: conf.datastore, lock_timeout: conf.lock_timeout, node: conf.node }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_directory_or_is_refused_by_name() {
        let path = |url: &str| match parse_url("`--datastore`", url) {
            Ok(DatastoreConf::File(file)) => file.path.display().to_string(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(path("file:///var/lib/x"), "/var/lib/x");
        assert!(path("etcd://127.0.0.1:2379").contains("`etcd`"));
        assert!(path("etcds://127.0.0.1:2379").contains("`etcd`"));
        assert!(path("kubernetes://").contains("`kubernetes`"));
        for bad in ["file://relative", "/var/lib/x", "redis://x", ""] {
            assert!(path(bad).starts_with("`--datastore` is `"), "{bad}: {}", path(bad));
        }
    }
}
