//! Which store a command line means, and how it is reached.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::Error;
use super::{Context, args::Global, networks};
use crate::api::HostName;
use crate::cni::config::{
    DatastoreConf, Durability as ConfDurability, EtcdConf, FileConf, LOCK_TIMEOUT, NODENAME_FILE, NetConf,
    NodeConf, node_name_from_file, parse_node_name,
};
use crate::datastore::etcd::{EtcdOptions, Password, without_login};
use crate::datastore::file::{Durability, Options};
use crate::ipam::Host;
use crate::store::Place;

/// Names a store, for those who do not want to repeat `--datastore`.
const VARIABLE: &str = "HOST_AFFINE_DATASTORE";
/// Where cnitool and its libraries look for network configurations, and the variable that names another place.
const NETCONF_DIR: &str = "/etc/cni/net.d";
const NETCONF_DIR_VARIABLE: &str = "NETCONFPATH";
/// How Calico's programs are told of a store. Each name may have `CALICO_` before it, and then counts more.
const CALICO_PREFIX: &str = "CALICO_";
const CALICO_TYPE: &str = "DATASTORE_TYPE";
const CALICO_ENDPOINTS: &str = "ETCD_ENDPOINTS";

/// What a command line knows of the network that it is about.
struct Conf {
    datastore: DatastoreConf,
    /// The password itself, where nothing names a file for it.
    password: Option<String>,
    lock_timeout: Duration,
    /// Where this host's name comes from.
    node: NodeConf,
}

impl Conf {
    fn of(datastore: DatastoreConf) -> Self {
        Self { datastore, password: None, lock_timeout: LOCK_TIMEOUT, node: NodeConf::default() }
    }
}

impl From<NetConf> for Conf {
    fn from(network: NetConf) -> Self {
        let NetConf { datastore, lock_timeout, node, .. } = network;
        Self { datastore, password: None, lock_timeout, node }
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
        Ok(name.map(crate::host::this_host))
    }

    /// The store that is meant.
    pub(super) fn place(&self) -> Result<Place, Error> {
        let Conf { datastore, password, lock_timeout, .. } = self.conf()?;
        Ok(match datastore {
            DatastoreConf::File(file) => Place::File(Box::new(Options {
                path: file.path,
                durability: match file.durability {
                    ConfDurability::Power => Durability::Power,
                    ConfDurability::Process => Durability::Process,
                },
                allow_network_file_system: file.allow_network_filesystem,
                lock_timeout,
                operation: format!("process {} ({})", std::process::id(), self.operation),
            })),
            DatastoreConf::Etcd(etcd) => Place::Etcd(Box::new(etcd_options(&etcd, password, lock_timeout))),
            DatastoreConf::Kubernetes(_) => return Err(not_served()),
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
            (Some(url), None) => self.at_url("`--datastore`", url),
            (None, Some(path)) => {
                let network = networks::in_file(path)?.ok_or_else(|| Error::Configuration {
                    path: path.clone(),
                    problem: "no network in it has an `ipam` section of type `host-affine`".into(),
                })?;
                Ok(network.into())
            }
            (None, None) => self.default_conf(),
        }
    }

    fn default_conf(&self) -> Result<Conf, Error> {
        if let Some(url) = self.variable(VARIABLE) {
            return self.at_url(&format!("`{VARIABLE}`"), &url.to_string_lossy());
        }
        if let Some(conf) = self.calico_conf()? {
            return Ok(conf);
        }
        let network = networks::first_in(&self.netconf_dir())?;
        Ok(network.map_or_else(|| Conf::of(DatastoreConf::default()), Conf::from))
    }

    /// The store that Calico's variables name. A type that is not etcd's is for Calico's programs alone.
    fn calico_conf(&self) -> Result<Option<Conf>, Error> {
        let endpoints = self.calico_variable(CALICO_ENDPOINTS).unwrap_or_default();
        let endpoints: Vec<_> =
            endpoints.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect();
        match (self.calico_variable(CALICO_TYPE).as_deref(), endpoints.is_empty()) {
            (None | Some("etcdv3"), false) => Ok(Some(self.as_calico_says(endpoints))),
            (Some("etcdv3"), true) => Err(Error::Argument {
                what: format!("`{CALICO_TYPE}` in the environment"),
                found: "etcdv3".into(),
                expected: format!("`{CALICO_ENDPOINTS}` beside it, such as `http://127.0.0.1:2379`"),
            }),
            _ => Ok(None),
        }
    }

    /// A datastore's URL. `what` names where it came from. Certificates and the user are those of Calico's variables.
    fn at_url(&self, what: &str, url: &str) -> Result<Conf, Error> {
        match parse_url(what, url)? {
            DatastoreConf::Etcd(etcd) => Ok(self.as_calico_says(etcd.endpoints)),
            other => Ok(Conf::of(other)),
        }
    }

    fn as_calico_says(&self, endpoints: Vec<String>) -> Conf {
        let file = |name| self.calico_variable(name).map(PathBuf::from);
        let etcd = EtcdConf {
            endpoints,
            ca_cert_file: file("ETCD_CA_CERT_FILE"),
            cert_file: file("ETCD_CERT_FILE"),
            key_file: file("ETCD_KEY_FILE"),
            username: self.calico_variable("ETCD_USERNAME"),
            password_file: None,
        };
        let password = self.calico_variable("ETCD_PASSWORD").filter(|_| etcd.username.is_some());
        Conf { password, ..Conf::of(DatastoreConf::Etcd(etcd)) }
    }

    fn calico_variable(&self, name: &str) -> Option<String> {
        let value = self.variable(&format!("{CALICO_PREFIX}{name}")).or_else(|| self.variable(name));
        value.map(|value| value.to_string_lossy().into_owned())
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
            None => networks::files_in(&self.netconf_dir())?,
        };
        for file in files {
            if let Some(network) = networks::to_add(&file, name)? {
                return Ok(Some(network));
            }
        }
        Ok(None)
    }
}

fn etcd_options(etcd: &EtcdConf, password: Option<String>, lock_timeout: Duration) -> EtcdOptions {
    let options = EtcdOptions::from(etcd);
    let password = options.password.clone().or(password.map(Password::Text));
    EtcdOptions { password, lock_timeout, ..options }
}

fn not_served() -> Error {
    Error::NotServed {
        what: "a datastore of type `kubernetes`".into(),
        instead: "use a file store, `--datastore file:///var/lib/cni/host-affine`, or etcd, `--datastore etcd://HOST:PORT`",
    }
}

fn parse_url(what: &str, url: &str) -> Result<DatastoreConf, Error> {
    let expected = || Error::Argument {
        what: what.to_owned(),
        found: without_login(url),
        expected:
            "`file:///DIRECTORY`, `etcd://HOST:PORT[,HOST:PORT…]`, `etcds://HOST:PORT[,…]` or `kubernetes://`"
                .into(),
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(expected)?;
    match scheme {
        "file" if Path::new(rest).is_absolute() => Ok(DatastoreConf::File(FileConf::at(rest.into()))),
        "etcd" | "etcds" => {
            let scheme = if scheme == "etcds" { "https" } else { "http" };
            let hosts: Vec<_> = rest.trim_end_matches('/').split(',').map(str::trim).collect();
            // A password may hold a comma: it is refused before the endpoints are told apart.
            if url.contains('@') {
                return Err(Error::Argument {
                    what: what.to_owned(),
                    found: without_login(url),
                    expected: "no user in the URL; `ETCD_USERNAME` and `ETCD_PASSWORD` name them".into(),
                });
            }
            if hosts.iter().any(|host| host.is_empty() || host.contains('/')) {
                return Err(expected());
            }
            let endpoints = hosts.into_iter().map(|host| format!("{scheme}://{host}")).collect();
            Ok(DatastoreConf::Etcd(EtcdConf { endpoints, ..EtcdConf::default() }))
        }
        "kubernetes" => Err(not_served()),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_store_or_is_refused_by_name() {
        let place = |url: &str| match parse_url("`--datastore`", url) {
            Ok(DatastoreConf::File(file)) => file.path.display().to_string(),
            Ok(DatastoreConf::Etcd(etcd)) => etcd.endpoints.join(" "),
            Ok(other) => panic!("{other:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(place("file:///var/lib/x"), "/var/lib/x");
        assert_eq!(place("etcd://127.0.0.1:2379"), "http://127.0.0.1:2379");
        assert_eq!(place("etcds://a:2379,[fd00::1]:2379/"), "https://a:2379 https://[fd00::1]:2379");
        assert!(place("kubernetes://").contains("`kubernetes`"));
        for bad in ["file://relative", "/var/lib/x", "redis://x", "", "etcd://", "etcd://a,,b", "etcd://a/b"]
        {
            assert!(place(bad).starts_with("`--datastore` is `"), "{bad}: {}", place(bad));
        }
        for bad in ["etcd://u:sec,ret@a:1", "etcds://u:secret@a,b", "redis://secret@x", "u:secret@a"] {
            let told = place(bad);
            assert!(told.contains("***@") && !told.contains("sec") && !told.contains("ret@"), "{told}");
        }
    }
}
