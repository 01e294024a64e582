//! The network configuration on standard input.
//!
//! Three dialects are understood: pools (`ipam.pools`), host-local's ranges, and Calico's, where pools come from the store
//! alone. One reader for each verb decides how much of it matters: [`NetConf::for_add`] takes nothing that is wrong,
//! [`NetConf::for_release`] takes everything that still says which attachment and which store is meant.

use std::path::PathBuf;
use std::time::Duration;

use super::args::Args;
use super::env::{Call, Verb, is_identifier};
use super::failure::Failure;
use super::json::{self, Kind};
use super::result::PrevResult;
use super::version::Version;

mod attachments;
mod datastore;
mod dns;
mod host_local;
mod ipam;
mod kubevirt;
mod node;
mod pools;
mod requests;
mod route;
mod section;

pub use attachments::{Attachment, ValidAttachments};
pub use datastore::{DatastoreConf, Durability, EtcdConf, FILE_STORE_PATH, FileConf, KubernetesConf};
pub use dns::{Dns, parse_resolv_conf};
pub use host_local::{Range, RangeSet};
pub use ipam::{Addressing, Dialect, IpamConf, Slot};
pub use kubevirt::{KubevirtConf, Trust};
pub use node::{NODENAME_FILE, NodeConf, node_name_from_file, parse_node_name};
pub use pools::{PoolConf, PoolRef};
pub(in crate::cni) use requests::NAME_BYTES_MAX;
pub use requests::{Pod, Request};
pub use route::Route;

use section::Section;

/// Standard input: one JSON object, of which nothing else is known yet.
pub struct Stdin<'a> {
    root: Section<'a, 'static>,
}

impl<'a> Stdin<'a> {
    /// Takes standard input for what it is.
    ///
    /// # Errors
    /// Code 6: it is no JSON object.
    pub fn parse(text: &'a [u8]) -> Result<Self, Failure> {
        if text.iter().all(u8::is_ascii_whitespace) {
            return Err(Failure::decode("network config: standard input is empty"));
        }
        let document = json::document(text)
            .map_err(|error| Failure::decode(format!("network config is not valid JSON: {error}")))?;
        let object = document.object().ok_or_else(|| {
            Failure::decode(format!("network config is {}; expected {}", document.kind(), Kind::Object))
        })?;
        Ok(Self { root: Section::root(object) })
    }

    /// The version in which to answer, also where the configuration is wrong: its own if that is one, else the newest.
    #[must_use]
    pub fn answer_version(&self) -> Version {
        self.version().unwrap_or(Version::LATEST)
    }

    fn version(&self) -> Result<Version, Failure> {
        Version::of_config(self.root.object())
    }

    fn name(&self) -> Result<String, Failure> {
        let Some(name) = self.root.get("name") else {
            return Err(Failure::config("`name` is missing"));
        };
        let text = name.string()?;
        if !is_identifier(&text) {
            return Err(name.expected("a letter or digit, then letters, digits, `_`, `.` and `-`"));
        }
        Ok(text.into_owned())
    }
}

/// A network's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetConf {
    /// The version of the specification that is spoken.
    pub cni_version: Version,
    /// The network's name.
    pub name: String,
    /// `type`: the main plugin that calls.
    pub main_type: Option<String>,
    /// Where addresses are kept.
    pub datastore: DatastoreConf,
    /// Where the host's name comes from.
    pub node: NodeConf,
    /// How long to wait for the store's lock.
    pub lock_timeout: Duration,
    /// `ipam_lock_file`: a lock to take beside the store's own, as Calico's plugin on this host does.
    pub lock_file: Option<PathBuf>,
    /// What to log, and where.
    pub log: LogConf,
    /// `kubernetes.kubeconfig`: how to ask a cluster about pods and virtual machines. `None`: nobody is asked.
    pub kubeconfig: Option<PathBuf>,
    /// How addresses are chosen. At its defaults except at ADD and STATUS.
    pub ipam: IpamConf,
    /// What this call asks for.
    pub request: Request,
    /// `prevResult`. Set at CHECK, where it is required; elsewhere it says nothing to an IPAM plugin.
    pub prev_result: Option<PrevResult>,
    /// The attachments that GC must leave alone. Absent for other verbs.
    pub valid_attachments: ValidAttachments,
}

/// What is logged, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConf {
    /// The least that is logged. A word that is no level means the default: no log is worth a failed call.
    pub level: log::LevelFilter,
    /// `None`: standard error only.
    pub file: Option<PathBuf>,
}

impl Default for LogConf {
    fn default() -> Self {
        Self { level: log::LevelFilter::Warn, file: None }
    }
}

impl NetConf {
    /// Reads a configuration for ADD. `called_as` is the name of the program as it was started.
    ///
    /// # Errors
    /// Code 1: an unknown version; 2: a key or value that is not supported; 4: `CNI_ARGS`; 6: the version is no text;
    /// 7: anything else.
    pub fn for_add(stdin: &Stdin<'_>, call: &Call, called_as: &str) -> Result<NetConf, Failure> {
        Self::whole(stdin, call.verb, &call.args, called_as)
    }

    /// Reads a configuration for STATUS: what ADD would refuse is refused. Runtimes leave `runtimeConfig` out here, so
    /// ranges may be unknown.
    ///
    /// # Errors
    /// As [`Self::for_add`].
    pub fn for_status(stdin: &Stdin<'_>, called_as: &str) -> Result<NetConf, Failure> {
        Self::whole(stdin, Verb::Status, "", called_as)
    }

    /// Reads a configuration for CHECK: the attachment, the store and `prevResult`, which is required.
    ///
    /// # Errors
    /// As [`Self::for_release`], and code 7: no `ipam` section, or no `prevResult` that can be read.
    pub fn for_check(stdin: &Stdin<'_>, call: &Call) -> Result<NetConf, Failure> {
        let mut conf = Self::for_release(stdin, call)?;
        if stdin.root.section("ipam")?.is_none() {
            return Err(no_ipam());
        }
        let previous = stdin
            .root
            .get("prevResult")
            .ok_or_else(|| Failure::config("`prevResult` is missing, which CHECK needs"))?;
        conf.prev_result = Some(PrevResult::read(previous.raw)?);
        Ok(conf)
    }

    /// Reads a configuration for DEL and GC: version, name, store, and who is meant. Whatever else is wrong counts as
    /// absent, since an address must be released even if the configuration was spoilt after it was assigned.
    ///
    /// # Errors
    /// Code 1 and 6: the version; 7: the name, a store that cannot be told, or, at GC, a list that cannot be read.
    pub fn for_release(stdin: &Stdin<'_>, call: &Call) -> Result<NetConf, Failure> {
        let root = &stdin.root;
        let name = stdin.name()?;
        let cni_version = stdin.version()?;
        cni_version.require(call.verb)?;
        let ipam = root.section("ipam").ok().flatten();
        let ipam = ipam.as_ref();
        Ok(NetConf {
            cni_version,
            name,
            main_type: root.text("type").ok().flatten(),
            datastore: DatastoreConf::read(root, ipam, datastore::UnknownKeys::Ignore)?,
            node: NodeConf::read(root, ipam).unwrap_or_default(),
            lock_timeout: lock_timeout(ipam).unwrap_or(LOCK_TIMEOUT),
            lock_file: root.text("ipam_lock_file").ok().flatten().map(PathBuf::from),
            log: log_conf(root, ipam).unwrap_or_default(),
            kubeconfig: datastore::kubeconfig(root).ok().flatten(),
            ipam: ipam.map(IpamConf::for_release).unwrap_or_default(),
            request: Request::identity(root, Args::lenient(&call.args)),
            prev_result: None,
            valid_attachments: match call.verb {
                Verb::Gc => ValidAttachments::read(root)?,
                _ => ValidAttachments::Absent,
            },
        })
    }

    fn whole(stdin: &Stdin<'_>, verb: Verb, args: &str, called_as: &str) -> Result<NetConf, Failure> {
        let root = &stdin.root;
        let name = stdin.name()?;
        let cni_version = stdin.version()?;
        cni_version.require(verb)?;
        let args = Args::strict(args)?;
        let main_type = root.text("type")?;
        let ipam = root.section("ipam")?.ok_or_else(no_ipam)?;
        let runtime = root.section("runtimeConfig")?;
        let (request, overrides) = Request::read(root, runtime.as_ref(), args)?;
        let routed = main_type.as_deref() == Some("calico") || called_as == "calico-ipam";
        let default_addressing = if routed { Addressing::Routed } else { Addressing::Subnet };
        Ok(NetConf {
            cni_version,
            name,
            main_type,
            datastore: DatastoreConf::read(root, Some(&ipam), datastore::UnknownKeys::Refuse)?,
            node: NodeConf::read(root, Some(&ipam))?,
            lock_timeout: lock_timeout(Some(&ipam))?,
            lock_file: root.text("ipam_lock_file")?.map(PathBuf::from),
            log: log_conf(root, Some(&ipam))?,
            kubeconfig: datastore::kubeconfig(root)?,
            ipam: IpamConf::read(&ipam, runtime.as_ref(), overrides, default_addressing)?,
            request,
            prev_result: None,
            valid_attachments: ValidAttachments::Absent,
        })
    }
}

/// How long a call waits for the store's lock unless the configuration says otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

fn no_ipam() -> Failure {
    Failure::config("`ipam` is missing")
}

fn lock_timeout(ipam: Option<&Section<'_, '_>>) -> Result<Duration, Failure> {
    let seconds = ipam.map(|ipam| ipam.number("lock_timeout_seconds")).transpose()?.flatten();
    Ok(seconds.map_or(LOCK_TIMEOUT, |seconds| Duration::from_secs(seconds.into())))
}

fn log_conf(root: &Section<'_, '_>, ipam: Option<&Section<'_, '_>>) -> Result<LogConf, Failure> {
    let mut log = LogConf::default();
    // Our own section is asked last, so that it counts.
    for section in [Some(root), ipam].into_iter().flatten() {
        if let Some(level) = section.text("log_level")? {
            log.level = match level.to_ascii_lowercase().as_str() {
                "warning" => log::LevelFilter::Warn,
                other => other.parse().unwrap_or(LogConf::default().level),
            };
        }
        log.file = section.text("log_file_path")?.map(PathBuf::from).or(log.file);
    }
    Ok(log)
}

#[cfg(test)]
mod tests;
