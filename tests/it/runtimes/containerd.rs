//! containerd on a machine, with its own client and as a kubelet speaks to it.

use std::fs;
use std::net::IpAddr;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::machine::{MAIN_PLUGINS, Machine, Ran};
use super::{cri, image};

const SOCKET: &str = "/run/containerd-test/sock";

/// containerd, and a network named `pods` of its containers.
pub(super) struct Containerd {
    pub(super) machine: Machine,
    daemon: Child,
}

impl Containerd {
    /// `Err`: why there is none here.
    pub(super) fn start() -> Result<Self, String> {
        let machine = Machine::start(&["containerd", "ctr", "runc", "curl", "tar"])?;
        let rootfs = image::rootfs(machine.lab.path())?;
        let image = image::pack(&rootfs, machine.lab.path());
        let folder = machine.path("containerd");
        let settings = format!(
            "version = 2\nroot = \"{folder}/root\"\nstate = \"/run/containerd-test\"\n\
             [grpc]\naddress = \"{SOCKET}\"\n\
             [plugins.\"io.containerd.internal.v1.opt\"]\npath = \"{folder}/opt\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nrestrict_oom_score_adj = true\nsandbox_image = \"{}\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"/opt/cni/bin\"\nconf_dir = \"/etc/cni/net.d\"\n",
            image::NAME,
        );
        fs::write(machine.lab.path().join("containerd.toml"), settings).expect("a file");
        machine.run(&["sh", "-c", &format!("ln -s {MAIN_PLUGINS}/* /opt/cni/bin/")]).well();
        machine.network(&network(&machine.path("store")));
        let daemon = machine.spawn(&["containerd", "-c", &machine.path("containerd.toml")], "containerd.log");
        let containerd = Self { machine, daemon };
        let began = Instant::now();
        let imported = loop {
            let image = image.to_str().expect("text");
            let imported = containerd.ctr(&["-n", "k8s.io", "images", "import", image]);
            if imported.is_success || began.elapsed() > Duration::from_secs(20) {
                break imported;
            }
        };
        if !imported.is_success {
            return Err(format!("containerd does not start here: {}", imported.err));
        }
        containerd.ctr(&["images", "import", image.to_str().expect("text")]).well();
        Ok(containerd)
    }

    /// A command of containerd's own client.
    pub(super) fn ctr(&self, words: &[&str]) -> Ran {
        self.machine.run(&[&["ctr", "-a", SOCKET], words].concat())
    }

    /// Starts a pod's sandbox, and gives its ID and address.
    pub(super) fn pod(
        &self,
        name: &str,
        uid: &str,
        annotations: &[(&str, &str)],
    ) -> Result<(String, IpAddr), String> {
        let call = |method, message: &[u8]| cri::call(&self.machine, SOCKET, method, message);
        let id = cri::first(&call("RunPodSandbox", &cri::sandbox(name, uid, annotations))?);
        let status = call("PodSandboxStatus", &cri::id(&id))?;
        Ok((id, cri::address(&status)))
    }

    /// Stops a sandbox and removes it, as a kubelet does: our plugin is called twice.
    pub(super) fn end(&self, id: &str) {
        for method in ["StopPodSandbox", "RemovePodSandbox"] {
            cri::call(&self.machine, SOCKET, method, &cri::id(id)).expect(method);
        }
    }

    /// What the daemon said.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.machine.lab.path().join("containerd.log")).unwrap_or_default()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn network(store: &str) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "pods",
        "plugins": [{
            "type": "bridge", "bridge": "pods0",
            "capabilities": { "io.kubernetes.cri.pod-annotations": true },
            "ipam": {
                "type": "host-affine", "nodename": "node-1", "datastore": { "type": "file", "path": store },
                "pools": [{ "cidr": "10.88.7.0/24", "name": "pods" }, { "cidr": "10.88.8.0/24", "name": "vip" }],
            },
        }],
    })
}
