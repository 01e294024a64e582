//! What a client does, and what it is told.

use std::net::IpAddr;

use host_affine::api::{HandleId, HostName};
use host_affine::datastore::{Datastore, MachineRole};
use host_affine::ipam::{
    Assign, Assigned, Assignment, Attachment, Deletion, Emptiness, Error, Force, Ipam, MachineFate,
    MachineIdentity, NoOwnAddresses, Owner, ReleaseAffinityError, ReleaseError, RemoveError, Sharing,
    ValidAttachments, machine_handle,
};
use host_affine::net::{Cidr, Family};

use super::build::{Ask, addresses, affinity, any, at, container, host, name};

/// What a client does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Asks for addresses.
    Add(Ask),
    /// Ends an attachment.
    Del(Ask),
    /// Frees what containers of the network `net` hold on a host, save those named.
    Gc { host: &'static str, keep: Vec<&'static str> },
    /// Releases an address as it was read.
    Free { address: IpAddr, sequence: u64, handle: String },
    /// Gives up what is kept for a host.
    GiveUp { host: &'static str, required: Emptiness },
    /// Gives up one block.
    GiveUpBlock { block: Cidr, required: Emptiness },
    /// Deletes a node.
    RemoveNode { host: &'static str },
    /// Deletes a pool.
    RemovePool { name: &'static str, force: Force },
    /// Asks for the addresses of the one virtual machine, for a pod of it.
    Join(Pod),
    /// Ends a pod of the machine.
    Leave(Pod, Fate),
    /// Frees what the machine has: it is gone.
    EndMachine,
}

/// What is known of the machine whose pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lives,
    Deleted,
}

/// A pod of the machine `prod/db`.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) host: &'static str,
    pub(crate) name: &'static str,
    pub(crate) role: MachineRole,
    /// The families that it wants an address of.
    pub(crate) families: &'static [Family],
}

impl Pod {
    fn attachment(&self) -> Attachment {
        container(self.name)
    }

    async fn join<D: Datastore>(&self, ipam: &mut Ipam<D>) -> Result<Assigned, Error> {
        let identity = MachineIdentity {
            namespace: "prod".into(),
            name: "db".into(),
            role: self.role,
            vmi_uid: None,
            vm_uid: None,
            migration_uid: None,
        };
        let host = host(self.host);
        let wanted: Vec<_> = self.families.iter().map(|family| any(*family)).collect();
        let owner = Owner {
            attachment: self.attachment(),
            host: host.clone(),
            netns: None,
            pod: Some(("prod".into(), self.name.into())),
        };
        let request = Assign {
            host: &host,
            owner: &owner,
            sharing: Sharing::Machine(&identity),
            wanted: &wanted,
            pools: &[],
            gateways: None,
            import: None,
            own_addresses: &NoOwnAddresses,
            now: at(0),
        };
        ipam.assign(&request).await
    }
}

/// The handle of the machine.
pub(crate) fn the_machine() -> HandleId {
    machine_handle("net", "prod", "db").expect("a handle")
}

/// Why nothing was done.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) text: String,
    pub(crate) exhausted: Option<Family>,
    /// Whether it is an answer, and not a failure.
    pub(crate) is_answer: bool,
}

impl Act {
    /// What tells it from the other acts of a scenario.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Act::Add(ask) => format!("ADD {} {}", ask.attachment.container_id, ask.attachment.ifname),
            Act::Del(ask) => format!("DEL {} {}", ask.attachment.container_id, ask.attachment.ifname),
            other => format!("{other:?}"),
        }
    }

    /// The request, if it asks for addresses.
    pub(crate) fn added(&self) -> Option<&Ask> {
        match self {
            Act::Add(ask) => Some(ask),
            _ => None,
        }
    }

    /// Whether it gives up blocks that others may use at that moment.
    pub(crate) fn gives_up(&self) -> bool {
        matches!(
            self,
            Act::GiveUp { .. } | Act::GiveUpBlock { .. } | Act::RemoveNode { .. } | Act::RemovePool { .. }
        )
    }

    /// Whether it may end an attachment.
    pub(crate) fn may_end(&self, attachment: &Attachment) -> bool {
        match self {
            Act::Add(_)
            | Act::GiveUp { .. }
            | Act::GiveUpBlock { .. }
            | Act::RemoveNode { .. }
            | Act::RemovePool { .. }
            | Act::Join(_)
            | Act::Leave(..)
            | Act::EndMachine => false,
            Act::Del(ask) => ask.attachment == *attachment,
            Act::Gc { keep, .. } => !keep.contains(&attachment.container_id.as_str()),
            Act::Free { handle, .. } => attachment.handle().is_ok_and(|own| own.as_str() == handle),
        }
    }

    /// Does it.
    pub(crate) async fn perform<D: Datastore>(&self, ipam: &mut Ipam<D>) -> Result<Vec<IpAddr>, Refusal> {
        let now = at(3600);
        match self {
            Act::Add(ask) => Ok(addresses(&ask.of(ipam).await?)),
            Act::Del(ask) => Ok(ask.end(ipam).await?.addresses),
            Act::Gc { host: of, keep } => {
                let valid: ValidAttachments =
                    keep.iter().map(|&id| (id.to_owned(), "eth0".to_owned())).collect();
                Ok(ipam.collect("net", &valid, &host(of), at(0)).await?.addresses)
            }
            Act::Free { address, sequence, handle } => {
                let meant =
                    Assignment { address: *address, sequence: Some(*sequence), handle: Some(handle.clone()) };
                let freed =
                    ipam.release_address(&meant, at(0), |_| Ok::<_, std::convert::Infallible>(())).await;
                freed.map(|fact| vec![fact.address]).map_err(|error| {
                    let is_answer = !matches!(error, ReleaseError::Engine(_));
                    Refusal { text: error.to_string(), exhausted: None, is_answer }
                })
            }
            Act::GiveUp { host, required } => {
                let outcome = ipam.release_affinities_of(&affinity(host), *required, now).await;
                outcome.map(|_| Vec::new()).map_err(Refusal::from)
            }
            Act::GiveUpBlock { block, required } => {
                let outcome = ipam.release_block_affinity(*block, *required, None, now).await;
                outcome.map(|_| Vec::new()).map_err(Refusal::from)
            }
            Act::RemoveNode { host } => {
                let host: HostName = name(host);
                ipam.remove_node(&host, now).await.map(|_| Vec::new()).map_err(Refusal::from)
            }
            Act::RemovePool { name, force } => {
                ipam.remove_pool(name, *force, now).await.map(|_| Vec::new()).map_err(Refusal::from)
            }
            Act::Join(pod) => Ok(addresses(&pod.join(ipam).await?)),
            Act::Leave(pod, fate) => {
                let (attachment, host) = (pod.attachment(), host(pod.host));
                let released = match fate {
                    Fate::Lives => ipam.release(&attachment, &host, at(0)).await,
                    Fate::Deleted => {
                        let deletion = Deletion { vm: MachineFate::Deleted, ..Deletion::of(&attachment) };
                        ipam.delete(&deletion, &host, at(0)).await
                    }
                };
                Ok(released?.addresses)
            }
            Act::EndMachine => {
                let released = ipam.release_machine(&the_machine(), &host("a"), at(0), |_| true).await;
                Ok(released?.addresses)
            }
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Exhausted { family, .. } => Self { text, exhausted: Some(family), is_answer: true },
            Error::Contended { .. } | Error::Datastore(_) | Error::DamagedBlock { .. } => {
                Self { text, exhausted: None, is_answer: false }
            }
            _ => Self { text, exhausted: None, is_answer: true },
        }
    }
}

impl From<ReleaseAffinityError> for Refusal {
    fn from(error: ReleaseAffinityError) -> Self {
        let is_answer = !matches!(error, ReleaseAffinityError::Engine(_));
        Self { text: error.to_string(), exhausted: None, is_answer }
    }
}

impl From<RemoveError> for Refusal {
    fn from(error: RemoveError) -> Self {
        let is_answer = !matches!(error, RemoveError::Engine(_));
        Self { text: error.to_string(), exhausted: None, is_answer }
    }
}
