//! Containers: real network namespaces, and processes that keep some of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Child;

use serde_json::Value;

use super::host::{Host, Inside, NETNS};
use super::model::{Kind, Record, Serial, Site};

/// A container that is alive.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) serial: Serial,
    pub(super) id: String,
    pub(super) network: String,
    pub(super) kind: Kind,
    /// Value of `CNI_NETNS`.
    pub(super) netns: String,
    /// The host's `/run/netns` at the start.
    pub(super) directory: u64,
    /// Last result of ADD under each name of the host.
    pub(super) results: BTreeMap<String, Value>,
    process: Option<Child>,
}

impl Container {
    pub(super) fn start(host: &Host, site: &Site, serial: Serial, wanted: &Wanted) -> Self {
        let (process, netns) = match wanted.kind {
            Kind::Pinned => {
                let path = format!("{NETNS}/{}", wanted.id);
                let pinned = PathBuf::from(&path);
                host.run(move |inside| inside.pin(&pinned));
                (None, path)
            }
            Kind::Process => {
                let (child, number) = host.run(Inside::start_process);
                (Some(child), format!("/proc/{number}/ns/net"))
            }
        };
        Self {
            serial,
            id: wanted.id.clone(),
            network: wanted.network.clone(),
            kind: wanted.kind,
            netns,
            directory: site.directory,
            results: BTreeMap::new(),
            process,
        }
    }

    /// Ends the container and its namespace.
    pub(super) fn kill(mut self, host: &Host, site: &Site) {
        self.kill_process();
        if self.kind == Kind::Pinned {
            let path = if self.is_visible(site) {
                PathBuf::from(&self.netns)
            } else {
                PathBuf::from(moved(self.directory)).join(&self.id)
            };
            host.run(move |_| Inside::unpin(&path));
        }
    }

    /// Ends with the host, which takes the mounts with it.
    pub(super) fn end_with_host(mut self) {
        self.kill_process();
    }

    fn kill_process(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// The path in `CNI_NETNS` leads to the namespace.
    pub(super) fn is_visible(&self, site: &Site) -> bool {
        self.kind == Kind::Process || self.directory == site.directory
    }

    /// The allocation that an ADD makes now, but for its address.
    pub(super) fn record(&self, site: &Site) -> Record {
        let unspecified = std::net::Ipv4Addr::UNSPECIFIED.into();
        Record {
            address: unspecified,
            network: self.network.clone(),
            id: self.id.clone(),
            kind: self.kind,
            netns: self.netns.clone(),
            site: site.clone(),
            serial: self.serial,
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.kill_process();
    }
}

/// A container to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) id: String,
    pub(super) network: String,
    pub(super) kind: Kind,
}

/// The directory of pins that `/run/netns` has become.
pub(super) fn moved(directory: u64) -> String {
    format!("{NETNS}.{directory}")
}
