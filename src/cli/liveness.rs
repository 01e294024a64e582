//! Liveness of the owners of addresses: by an inventory, or by what this host sees. Doubt means keep.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Context;
use super::error::Error;
use super::render::printable;
use crate::datastore::MachineAttachment;
use crate::host::namespaces;
pub(super) use crate::ipam::Life;
use crate::ipam::{AddressFact, Host, Judge, Noted, Whose, owner_key};
use crate::net::parse_address;

/// Whoever can tell.
#[derive(Debug)]
pub(super) enum Witness {
    /// A list of everything that is alive.
    Inventory(Inventory),
    /// This host, which sees its own. `None`: it does not know its name.
    Host(Option<ThisHost>),
}

/// This host and its store.
#[derive(Debug)]
pub(super) struct ThisHost {
    host: Host,
    one_kernel: bool,
}

impl ThisHost {
    /// Its name in the store.
    pub(super) fn name(&self) -> &str {
        self.host.name.as_str()
    }

    /// The ID of its boot.
    pub(super) fn boot(&self) -> &str {
        self.host.boot.as_deref().unwrap_or("unknown")
    }

    /// The boot ID of the second machine of this name that holds an address, if one does.
    pub(super) fn second_machine(&self, fact: &AddressFact) -> Option<String> {
        let noted = Noted::of(&fact.active);
        let is_second = noted.is_attachment() && self.judge().whose(&noted) == Whose::SecondMachine;
        noted.boot.filter(|_| is_second && !fact.is_cooling).map(str::to_owned)
    }

    /// The judge of what this host sees.
    pub(super) fn judge(&self) -> Judge<'_> {
        Judge { host: &self.host, one_kernel: self.one_kernel, namespaces: &namespaces::ThisHost }
    }
}

/// Everything that is alive.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    workloads: Vec<Workload>,
    addresses: BTreeSet<IpAddr>,
}

/// Something that is alive. All but one of container and addresses may be absent.
#[derive(Debug)]
struct Workload {
    container_id: Option<String>,
    ifname: Option<String>,
    network: Option<String>,
    /// How it is called in a message.
    name: String,
    addresses: Vec<IpAddr>,
}

impl Witness {
    /// An inventory where there is one, else this host.
    pub(super) fn of(context: &mut Context<'_>, inventory: Option<&Path>) -> Result<Self, Error> {
        if let Some(path) = inventory {
            return Inventory::load(context, path).map(Witness::Inventory);
        }
        let one_kernel = context.place()?.is_one_kernel();
        Ok(Witness::Host(context.this_host()?.map(|host| ThisHost { host, one_kernel })))
    }

    /// What is known of the owner of an address.
    pub(super) fn life(&self, fact: &AddressFact) -> Life {
        if fact.is_host_reserved {
            return Life::Alive("it is the host's own".to_owned());
        }
        let life = match self {
            Witness::Inventory(inventory) => inventory.life(fact),
            Witness::Host(Some(this)) => this.judge().life(&fact.active),
            Witness::Host(None) => Life::Unknown("this host does not know its name".to_owned()),
        };
        // A virtual machine outlives its pods; what serves no container is in no list of them.
        let outlives = fact.is_virtual_machine() || fact.noted(owner_key::TYPE).is_some();
        match life {
            Life::Dead(why) if outlives => Life::Unknown(why),
            life => life,
        }
    }

    /// What is known of a pod of a virtual machine. An inventory knows machines by their addresses.
    pub(super) fn life_of_vm(&self, known: &MachineAttachment) -> Life {
        let Witness::Host(Some(this)) = self else { return Life::Unknown("nobody looked".to_owned()) };
        this.judge().life_of(&Noted::of_attachment(known.node.as_str(), known.since, &known.notes))
    }

    /// Who it is that tells, in a sentence.
    pub(super) fn describe(&self) -> String {
        match self {
            Witness::Inventory(inventory) => format!(
                "the inventory lists {} workloads, with {} addresses",
                inventory.workloads.len(),
                inventory.addresses.len()
            ),
            Witness::Host(Some(this)) => {
                format!(
                    "no inventory: host `{}` judges the attachments that it sees, and no others",
                    this.host.name
                )
            }
            Witness::Host(None) => "no inventory, and this host does not know its name".to_owned(),
        }
    }
}

impl Inventory {
    fn load(context: &mut Context<'_>, path: &Path) -> Result<Self, Error> {
        let read = |source| Error::Read { path: path.to_owned(), source };
        let mut text = Vec::new();
        if path.as_os_str() == "-" {
            context.stdin.read_to_end(&mut text).map_err(read)?;
        } else {
            text = std::fs::read(path).map_err(read)?;
        }
        Self::parse(&text).map_err(|problem| Error::File { path: path.to_owned(), problem })
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Listed {
            #[serde(rename = "containerID")]
            container_id: Option<String>,
            ifname: Option<String>,
            network: Option<String>,
            namespace: Option<String>,
            pod: Option<String>,
            ips: Option<Vec<String>>,
        }
        #[derive(Deserialize)]
        struct File {
            workloads: Vec<Listed>,
        }
        let file: File = serde_json::from_slice(text).map_err(|error| format!("is no inventory: {error}"))?;
        let mut inventory = Inventory::default();
        for (index, listed) in file.workloads.into_iter().enumerate() {
            let mut addresses = Vec::new();
            for text in listed.ips.iter().flatten() {
                let bare = text.trim().split_once('/').map_or(text.trim(), |(address, _)| address);
                let address = parse_address(bare).ok_or_else(|| {
                    format!("`workloads[{index}].ips` has `{}`, which is no address", text.escape_debug())
                })?;
                addresses.push(address);
            }
            if listed.container_id.is_none() && listed.ips.is_none() {
                return Err(format!("`workloads[{index}]` has neither `containerID` nor `ips`"));
            }
            let name = match (&listed.namespace, &listed.pod, &listed.container_id) {
                (Some(namespace), Some(pod), _) => format!("pod {namespace}/{pod}"),
                (None, Some(pod), _) => format!("pod {pod}"),
                (_, None, Some(container)) => format!("container {container}"),
                (_, None, None) => "a workload".to_owned(),
            };
            inventory.addresses.extend(&addresses);
            inventory.workloads.push(Workload {
                container_id: listed.container_id.filter(|id| !id.is_empty()),
                ifname: listed.ifname,
                network: listed.network,
                name: printable(&name),
                addresses,
            });
        }
        Ok(inventory)
    }

    fn life(&self, fact: &AddressFact) -> Life {
        let listed = self.workloads.iter().find(|workload| workload.has(fact));
        match listed {
            Some(workload) => Life::Alive(format!("the inventory lists {}", workload.name)),
            None => Life::Dead("the inventory does not list it".to_owned()),
        }
    }

    /// Whether something alive has an address.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Every address that something alive has, and the names of those that have it, each once.
    pub(super) fn users(&self) -> BTreeMap<IpAddr, Vec<&str>> {
        let mut users: BTreeMap<IpAddr, Vec<&str>> = BTreeMap::new();
        for workload in &self.workloads {
            for address in &workload.addresses {
                let names = users.entry(*address).or_default();
                if !names.contains(&&*workload.name) {
                    names.push(&workload.name);
                }
            }
        }
        users
    }
}

impl Workload {
    /// Whether an address is this workload's: it is listed with it, or its container has it.
    fn has(&self, fact: &AddressFact) -> bool {
        if self.addresses.contains(&fact.address) {
            return true;
        }
        let (Some(container), Some(handle)) = (&self.container_id, &fact.handle) else {
            return false;
        };
        let noted = |key: &str, wanted: &Option<String>| match (fact.noted(key), wanted) {
            (Some(noted), Some(wanted)) => noted == wanted,
            _ => true,
        };
        let network = fact.noted(owner_key::NETWORK).or(self.network.as_deref());
        let is_handle = match network {
            Some(network) => {
                handle.strip_prefix(network).and_then(|rest| rest.strip_prefix('.')) == Some(container)
            }
            None => handle.strip_suffix(container.as_str()).is_some_and(|rest| rest.ends_with('.')),
        };
        is_handle && noted(owner_key::NETWORK, &self.network) && noted(owner_key::IFNAME, &self.ifname)
    }
}

/// The path of an inventory as it was given.
pub(super) fn path(given: Option<&PathBuf>) -> Option<&Path> {
    given.map(PathBuf::as_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(address: &str, handle: &str, notes: &[(&str, &str)]) -> AddressFact {
        AddressFact {
            address: parse_address(address).expect(address),
            block: "10.0.0.0/26".parse().expect("cidr"),
            affinity: None,
            handle: Some(handle.to_owned()),
            sequence: 1,
            active: notes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            alternate: std::collections::BTreeMap::new(),
            is_cooling: false,
            is_host_reserved: false,
        }
    }

    fn is_alive(inventory: &str, fact: &AddressFact) -> bool {
        let inventory = Inventory::parse(inventory.as_bytes()).expect(inventory);
        matches!(Witness::Inventory(inventory).life(fact), Life::Alive(_))
    }

    #[test]
    fn an_address_is_the_same_in_every_spelling() {
        let held = fact("fd63:a::5", "net.c1", &[]);
        for text in ["fd63:a::5", "FD63:000A:0:0:0:0:0:0005", "fd63:a::5/128", " fd63:a:0::5 "] {
            assert!(is_alive(&format!(r#"{{"workloads":[{{"ips":["{text}"]}}]}}"#), &held), "{text}");
        }
        assert!(!is_alive(r#"{"workloads":[{"ips":["fd63:a::6"]}]}"#, &held));
    }

    #[test]
    fn a_container_has_what_its_attachment_has_and_no_other() {
        let held = fact("10.0.0.5", "a.b.c", &[("network", "a.b"), ("ifname", "eth0"), ("node", "n1")]);
        for (listed, alive) in [
            (r#"{"containerID":"c"}"#, true),
            (r#"{"containerID":"b.c"}"#, false),
            (r#"{"containerID":"c","network":"a.b","ifname":"eth0","unknown":1}"#, true),
            (r#"{"containerID":"c","network":"a"}"#, false),
            (r#"{"containerID":"c","ifname":"eth1"}"#, false),
            (r#"{"containerID":""  }"#, false),
        ] {
            assert_eq!(is_alive(&format!(r#"{{"workloads":[{listed}]}}"#), &held), alive, "{listed}");
        }
        assert!(is_alive(r#"{"workloads":[{"containerID":"c"}]}"#, &fact("10.0.0.5", "k8s.c", &[])));
    }

    #[test]
    fn what_is_no_inventory_is_refused() {
        for bad in ["", "{}", r#"{"workloads":[{}]}"#, r#"{"workloads":[{"ips":["10.0.0.300"]}]}"#] {
            assert!(Inventory::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
