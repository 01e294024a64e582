//! podman with the CNI back end, on a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use serde_json::{Value, json};

use super::image;
use super::machine::{Machine, Ran};

/// podman, and a network named `pods` of its containers.
pub(super) struct Podman {
    pub(super) machine: Machine,
    rootfs: PathBuf,
}

impl Podman {
    /// `Err`: why there is none here.
    pub(super) fn start(ipam: &Value) -> Result<Self, String> {
        let machine = Machine::start(&["podman", "conmon", "runc"])?;
        let rootfs = image::rootfs(machine.lab.path())?;
        let folders = machine.plugin_folders();
        let settings = format!(
            "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n\
             [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\n\
             [network]\nnetwork_backend = \"cni\"\ncni_plugin_dirs = [\"{}\", \"{}\"]\n\
             network_config_dir = \"/etc/cni/net.d\"\n",
            folders[0].display(),
            folders[1].display(),
        );
        fs::write(machine.lab.path().join("containers.conf"), settings).expect("a file");
        let podman = Self { machine, rootfs };
        podman.serve(ipam);
        let network = podman.run(&["network", "exists", "pods"]);
        if !network.is_success {
            return Err(format!("podman has no CNI back end here: {}", network.err));
        }
        let first = podman.run_ip(&[]);
        if !first.is_success && !first.err.contains("host-affine") {
            return Err(format!("podman cannot run a container here: {}", first.err));
        }
        first.well();
        Ok(podman)
    }

    /// Writes the network, with addresses by that plugin.
    pub(super) fn serve(&self, ipam: &Value) {
        self.machine.network(&json!({
            "cniVersion": "1.0.0", "name": "pods",
            "plugins": [
                { "type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true, "ipam": ipam },
                { "type": "portmap", "capabilities": { "portMappings": true } },
            ],
        }));
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let settings = format!("CONTAINERS_CONF={}", self.machine.path("containers.conf"));
        let root = self.machine.path("podman");
        let own = ["env", &settings, "podman", "--root", &root, "--runroot", "/run/containers"];
        let own = own.iter().chain(&["--tmpdir", "/run/libpod", "--storage-driver", "overlay"]);
        own.chain(words).map(ToString::to_string).collect()
    }

    /// A command of podman's.
    #[track_caller]
    pub(super) fn run(&self, words: &[&str]) -> Ran {
        self.machine.run(&self.words(words))
    }

    /// Starts one, which goes on.
    pub(super) fn spawn(&self, words: &[&str]) -> Child {
        self.machine.command(&self.words(words)).spawn().expect("it can be run")
    }

    /// The words that run something in a container, after `podman`.
    pub(super) fn container<'a>(&'a self, options: &[&'a str], program: &[&'a str]) -> Vec<&'a str> {
        let rootfs = self.rootfs.to_str().expect("text");
        [&["run", "--network", "pods"], options, &["--rootfs", rootfs], program].concat()
    }

    /// A container that prints its addresses and ends.
    #[track_caller]
    pub(super) fn run_ip(&self, options: &[&str]) -> Ran {
        let options = [&["--rm"], options].concat();
        self.run(&self.container(&options, &["/bin/ip", "-4", "addr", "show", "eth0"]))
    }

    /// A container that goes on, and its address.
    #[track_caller]
    pub(super) fn keep(&self, name: &str, options: &[&str]) -> std::net::IpAddr {
        let options = [&["-d", "--name", name], options].concat();
        self.run(&self.container(&options, &["/bin/httpd", "-f", "-p", "80", "-h", "/www"])).well();
        self.address_of(name)
    }

    /// The address of a container that runs, as it sees it itself.
    #[track_caller]
    pub(super) fn address_of(&self, name: &str) -> std::net::IpAddr {
        self.run(&["exec", name, "/bin/ip", "-4", "addr", "show", "eth0"]).address()
    }

    /// The command line of the plugin on a store in the machine.
    #[track_caller]
    pub(super) fn on(&self, store: &Path, words: &[&str]) -> Ran {
        let datastore = format!("--datastore=file://{}", store.display());
        let program = self.machine.path("bin/host-affine");
        self.machine.run(&[&[program.as_str(), &datastore], words].concat())
    }

    /// What this host knows to be dead goes.
    #[track_caller]
    pub(super) fn gc(&self, ipam: &Value) -> Ran {
        self.gc_with(ipam, &[])
    }

    /// The same, with options. Whose host this is comes from the network.
    #[track_caller]
    pub(super) fn gc_with(&self, ipam: &Value, options: &[&str]) -> Ran {
        let conf = self.machine.path("conf");
        let network = json!({ "cniVersion": "1.0.0", "name": "pods", "type": "bridge", "ipam": ipam });
        fs::write(&conf, network.to_string()).expect("a file");
        let program = self.machine.path("bin/host-affine");
        self.machine.run(&[&[program.as_str(), "--conf", &conf, "ipam", "gc", "--yes"], options].concat())
    }

    /// Every container goes.
    #[track_caller]
    pub(super) fn clear(&self) {
        self.run(&["rm", "-f", "-a", "-t", "0"]).well();
    }
}
