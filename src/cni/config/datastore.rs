use std::path::PathBuf;

use super::section::Section;
use crate::cni::failure::Failure;
use crate::datastore::etcd::{EtcdOptions, Password};

/// Where the file store is unless the configuration says otherwise.
pub const FILE_STORE_PATH: &str = "/var/lib/cni/host-affine";

/// Where addresses are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatastoreConf {
    /// In a directory of this machine.
    File(FileConf),
    /// In etcd.
    Etcd(EtcdConf),
    /// In a Kubernetes cluster's API.
    Kubernetes(KubernetesConf),
}

/// A file store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileConf {
    /// Its directory; absolute.
    pub path: PathBuf,
    /// What an answered ADD survives.
    pub durability: Durability,
    /// Whether a network file system is taken, where a lock may not exclude other machines.
    pub allow_network_filesystem: bool,
}

/// What an answered ADD survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut.
    #[default]
    Power,
    /// The death of every process, not of the machine.
    Process,
}

/// An etcd cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdConf {
    /// URLs, at least one.
    pub endpoints: Vec<String>,
    /// The authorities that vouch for the servers. `None`: the system's.
    pub ca_cert_file: Option<PathBuf>,
    /// Our certificate. `None`: none is shown.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// `None`: no authentication by password.
    pub username: Option<String>,
    /// A file that holds the password.
    pub password_file: Option<PathBuf>,
}

/// A Kubernetes cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubernetesConf {
    /// How to reach it. `None`: as a pod of it does.
    pub kubeconfig: Option<PathBuf>,
}

impl Default for DatastoreConf {
    fn default() -> Self {
        DatastoreConf::File(FileConf::at(FILE_STORE_PATH.into()))
    }
}

impl FileConf {
    /// A store in a directory, everything else at its default.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, durability: Durability::default(), allow_network_filesystem: false }
    }
}

/// How the cluster is reached, with the patience that a person has.
impl From<&EtcdConf> for EtcdOptions {
    fn from(conf: &EtcdConf) -> Self {
        Self {
            ca_cert_file: conf.ca_cert_file.clone(),
            cert_file: conf.cert_file.clone(),
            key_file: conf.key_file.clone(),
            username: conf.username.clone(),
            password: conf.password_file.clone().map(Password::File),
            ..Self::at(conf.endpoints.clone())
        }
    }
}

/// What is done about keys of `ipam.datastore` that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownKeys {
    /// They are slips of the pen.
    Refuse,
    /// What ADD refused was never written, and an old address must be released all the same.
    Ignore,
}

impl DatastoreConf {
    /// Reads `ipam.datastore`; without it Calico's keys at the top level; without them `ipam.dataDir`.
    pub(super) fn read(
        root: &Section<'_, '_>,
        ipam: Option<&Section<'_, '_>>,
        unknown: UnknownKeys,
    ) -> Result<DatastoreConf, Failure> {
        let data_dir = ipam.map(data_dir).transpose()?.flatten();
        if let Some(section) = ipam.map(|ipam| ipam.section("datastore")).transpose()?.flatten() {
            return read_section(&section, data_dir, unknown);
        }
        let endpoints = calico_endpoints(root)?;
        let calico_type = match root.given("datastore_type") {
            Some(value) => value.word(&["file", "etcdv3", "kubernetes"])?,
            None if endpoints.is_empty() => "file",
            None => "etcdv3",
        };
        match calico_type {
            "etcdv3" if endpoints.is_empty() => {
                Err(root.problem("`datastore_type` is `etcdv3`, but `etcd_endpoints` names no endpoint"))
            }
            "etcdv3" => Ok(DatastoreConf::Etcd(EtcdConf {
                endpoints,
                ca_cert_file: path(root, "etcd_ca_cert_file")?,
                cert_file: path(root, "etcd_cert_file")?,
                key_file: path(root, "etcd_key_file")?,
                username: None,
                password_file: None,
            })),
            "kubernetes" => Ok(DatastoreConf::Kubernetes(KubernetesConf { kubeconfig: kubeconfig(root)? })),
            _ => Ok(DatastoreConf::File(FileConf::at(data_dir.unwrap_or_else(|| FILE_STORE_PATH.into())))),
        }
    }
}

/// `ipam.dataDir`: the file store's directory, and in host-local's dialect where host-local kept its own files.
pub(super) fn data_dir(ipam: &Section<'_, '_>) -> Result<Option<PathBuf>, Failure> {
    absolute(ipam, "dataDir")
}

/// `kubernetes.kubeconfig` of Calico's configuration.
pub(super) fn kubeconfig(root: &Section<'_, '_>) -> Result<Option<PathBuf>, Failure> {
    root.section("kubernetes")?.map_or(Ok(None), |kubernetes| path(&kubernetes, "kubeconfig"))
}

const FILE_KEYS: [&str; 4] = ["type", "path", "durability", "allowNetworkFilesystem"];
const ETCD_KEYS: [&str; 7] =
    ["type", "endpoints", "caCertFile", "certFile", "keyFile", "username", "passwordFile"];
const KUBERNETES_KEYS: [&str; 2] = ["type", "kubeconfig"];

fn read_section(
    section: &Section<'_, '_>,
    data_dir: Option<PathBuf>,
    unknown: UnknownKeys,
) -> Result<DatastoreConf, Failure> {
    let kind = match section.given("type") {
        Some(value) => value.word(&["file", "etcdv3", "kubernetes"])?,
        None if section.get("endpoints").is_some() => "etcdv3",
        None => "file",
    };
    if unknown == UnknownKeys::Refuse {
        section.only(match kind {
            "etcdv3" => &ETCD_KEYS,
            "kubernetes" => &KUBERNETES_KEYS,
            _ => &FILE_KEYS,
        })?;
    }
    Ok(match kind {
        "etcdv3" => DatastoreConf::Etcd(read_etcd(section)?),
        "kubernetes" => {
            DatastoreConf::Kubernetes(KubernetesConf { kubeconfig: path(section, "kubeconfig")? })
        }
        _ => DatastoreConf::File(FileConf {
            path: absolute(section, "path")?.or(data_dir).unwrap_or_else(|| FILE_STORE_PATH.into()),
            durability: match section
                .get("durability")
                .map(|value| value.word(&["power", "process"]))
                .transpose()?
            {
                Some("process") => Durability::Process,
                _ => Durability::Power,
            },
            allow_network_filesystem: section.bool("allowNetworkFilesystem")?.unwrap_or(false),
        }),
    })
}

fn read_etcd(section: &Section<'_, '_>) -> Result<EtcdConf, Failure> {
    let endpoints = match section.get("endpoints") {
        // A comma list is what everybody's environment variables hold.
        Some(value) if value.raw.string().is_some() => comma_list(&value.string()?),
        Some(_) => section.texts("endpoints")?,
        None => Vec::new(),
    };
    if endpoints.is_empty() {
        return Err(section.problem("has no `endpoints`; expected a list of URLs"));
    }
    Ok(EtcdConf {
        endpoints,
        ca_cert_file: path(section, "caCertFile")?,
        cert_file: path(section, "certFile")?,
        key_file: path(section, "keyFile")?,
        username: section.text("username")?,
        password_file: path(section, "passwordFile")?,
    })
}

fn calico_endpoints(root: &Section<'_, '_>) -> Result<Vec<String>, Failure> {
    Ok(comma_list(&root.text("etcd_endpoints")?.unwrap_or_default()))
}

fn comma_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn path(section: &Section<'_, '_>, key: &str) -> Result<Option<PathBuf>, Failure> {
    Ok(section.text(key)?.map(PathBuf::from))
}

fn absolute(section: &Section<'_, '_>, key: &str) -> Result<Option<PathBuf>, Failure> {
    let path = path(section, key)?;
    match (section.get(key), &path) {
        (Some(value), Some(path)) if !path.is_absolute() => Err(value.expected("an absolute path")),
        _ => Ok(path),
    }
}
