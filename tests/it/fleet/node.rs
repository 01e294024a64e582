//! A node of the fleet: a host, its names, and the containers that live on it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::container::{Container, moved};
use super::host::{Blueprint, Host, NETNS};
use super::kernel::Kernel;
use super::model::{Boot, Site};

/// What the fleet is told of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The names that the node uses in turn.
    pub(super) names: [&'static str; 3],
    pub(super) kernel: usize,
    pub(super) own_processes: bool,
    /// Names after the first come from the node-name file.
    pub(super) by_file: bool,
}

/// A node that runs.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) plan: Plan,
    pub(super) site: Site,
    /// Dropped before the host: a process namespace only ends after all processes in it were waited for.
    pub(super) living: Vec<Container>,
    pub(super) host: Host,
    scratch: PathBuf,
}

/// Where the store is.
#[derive(Clone, Debug)]
pub(super) enum Datastore {
    Files(PathBuf),
    /// Address of the server, as the test reaches it.
    Etcd(String),
}

/// Numbers for kernel objects; none is used twice.
#[derive(Debug, Default)]
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

impl Node {
    pub(super) fn start(
        plan: Plan,
        scratch: &Path,
        kernel: &Kernel,
        datastore: &Datastore,
        numbers: &mut Numbers,
    ) -> Result<Self, String> {
        fs::create_dir(scratch).map_err(|error| error.to_string())?;
        let boot = Boot { kernel: plan.kernel, count: kernel.boots };
        let host = Self::boot(plan, plan.names[0], scratch, kernel, datastore)?;
        let site = Site {
            node: plan.names[0].to_owned(),
            boot,
            network: numbers.next(),
            directory: numbers.next(),
            processes: if plan.own_processes { numbers.next() } else { 0 },
        };
        Ok(Self { plan, host, site, living: Vec::new(), scratch: scratch.to_owned() })
    }

    fn boot(
        plan: Plan,
        name: &str,
        scratch: &Path,
        kernel: &Kernel,
        datastore: &Datastore,
    ) -> Result<Host, String> {
        let server = match datastore {
            Datastore::Files(_) => None,
            Datastore::Etcd(address) => Some(address.clone()),
        };
        let host = Host::start(&Blueprint {
            scratch: scratch.to_owned(),
            kernel: kernel.folder().to_owned(),
            name: if plan.by_file { plan.names[0] } else { name }.to_owned(),
            own_processes: plan.own_processes,
            server,
        })?;
        let store = match datastore {
            Datastore::Files(path) => json!({ "type": "file", "path": path, "durability": "process" }),
            Datastore::Etcd(_) => {
                let server = host.server().expect("a forwarded server");
                json!({ "type": "etcdv3", "endpoints": [format!("http://{server}")] })
            }
        };
        let conf = conf("pods", &scratch.join("nodename"), &store);
        fs::write(scratch.join("net.conf"), conf.to_string()).map_err(|error| error.to_string())?;
        Ok(host)
    }

    /// Ends all containers and starts the host anew, under its present name.
    pub(super) fn restart(&mut self, kernel: &Kernel, datastore: &Datastore, numbers: &mut Numbers) {
        self.living.drain(..).for_each(Container::end_with_host);
        let host = Self::boot(self.plan, &self.site.node, &self.scratch, kernel, datastore);
        self.host = host.expect("it has started before");
        self.site.boot.count = kernel.boots;
        self.site.network = numbers.next();
        self.site.directory = numbers.next();
        if self.plan.own_processes {
            self.site.processes = numbers.next();
        }
    }

    /// Gives the node another of its names.
    pub(super) fn rename(&mut self, nth: usize) {
        let name = self.plan.names[nth % self.plan.names.len()];
        let file = self.scratch.join("nodename");
        if !self.plan.by_file {
            self.host.rename(name);
        } else if name == self.plan.names[0] {
            // Without the file the kernel's name counts.
            let _ = fs::remove_file(file);
        } else {
            fs::write(file, name).expect("a node-name file");
        }
        name.clone_into(&mut self.site.node);
    }

    /// Moves `/run/netns` away, with all that is pinned in it, and creates a new one.
    pub(super) fn remake(&mut self, numbers: &mut Numbers) {
        let away = moved(self.site.directory);
        self.host.run(move |_| {
            fs::rename(NETNS, away).expect("a directory with mounts in it can be moved");
            fs::create_dir(NETNS).expect("a new one");
        });
        self.site.directory = numbers.next();
    }

    /// The network configuration for `--conf`.
    pub(super) fn conf_path(&self) -> PathBuf {
        self.scratch.join("net.conf")
    }

    /// The network configuration for a network.
    pub(super) fn conf(&self, network: &str) -> Value {
        let text = fs::read_to_string(self.conf_path()).expect("it was written at the start");
        let mut conf: Value = serde_json::from_str(&text).expect("JSON");
        conf["name"] = network.into();
        conf
    }

    pub(super) fn by_id(&self, id: &str) -> Option<usize> {
        self.living.iter().position(|container| container.id == id)
    }

    /// A living container has this path.
    pub(super) fn is_taken(&self, path: &str) -> bool {
        self.living.iter().any(|container| container.netns == path && container.is_visible(&self.site))
    }

    pub(super) fn valid(&self, network: &str) -> Vec<String> {
        let of_network = self.living.iter().filter(|container| container.network == network);
        of_network.map(|container| container.id.clone()).collect()
    }
}

fn conf(name: &str, nodename_file: &Path, datastore: &Value) -> Value {
    json!({
        "cniVersion": "1.1.0",
        "name": name,
        "type": "bridge",
        "ipam": {
            "type": "host-affine",
            "pools": [{ "cidr": "10.99.0.0/26", "blockSize": 29 }],
            "nodename_file": nodename_file,
            "datastore": datastore,
        },
    })
}
