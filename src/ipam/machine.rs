//! Virtual machines: one handle per machine and network, one address of each family, and two owners.
//!
//! A machine keeps its address over its pods: the handle names the machine, the active owner the pod that it runs in, the
//! alternate one a pod that it migrates to. A record beside the handle lists the attachments of those pods, so that a DEL,
//! which knows no machine, finds them. When the active pod's DEL comes while an alternate is set, that becomes the active
//! one in the same commit.
//!
//! Source: `kubevirt.io` support of Calico's IPAM, whose handles and owner attributes these are.

mod attach;
mod detach;
mod handle;
mod promote;
mod release;
mod report;

pub(super) use attach::Guest;
pub use detach::MachineFate;
pub use handle::{machine_handle, parse_machine_handle};
pub use promote::PromoteError;
pub use report::MachineReport;

use super::owner::{Owner, key};
use super::owners::OwnerNotes;
use super::provenance::Noted;
use crate::clock::Timestamp;
use crate::datastore::{MachineAttachment, MachineRole};

/// A virtual machine, and what the pod that asks is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineIdentity {
    /// The machine's namespace.
    pub namespace: String,
    /// The machine's name: that of its `VirtualMachineInstance`, which is the machine's own where one owns it.
    pub name: String,
    /// Whether the machine runs in the pod, or migrates to it.
    pub role: MachineRole,
    /// The `VirtualMachineInstance`, if it is known.
    pub vmi_uid: Option<String>,
    /// The `VirtualMachine`, if one owns the instance and it is known.
    pub vm_uid: Option<String>,
    /// The migration, if the pod is a target and it is known.
    pub migration_uid: Option<String>,
}

impl MachineIdentity {
    /// What a pod of the machine is noted down as. A pod without a name is known by its sandbox.
    fn notes(&self, owner: &Owner, since: &str) -> OwnerNotes {
        let mut notes = OwnerNotes::new();
        let mut note = |key: &str, value: &str| drop(notes.insert(key.to_owned(), value.to_owned()));
        note(key::NAMESPACE, &self.namespace);
        note(key::POD, pod_name(owner));
        note(key::NODE, owner.host.name.as_str());
        note(key::TIMESTAMP, since);
        note(key::VMI_NAME, &self.name);
        for (key, value) in [
            (key::VMI_UID, &self.vmi_uid),
            (key::VM_UID, &self.vm_uid),
            (key::MIGRATION_UID, &self.migration_uid),
        ] {
            if let Some(value) = value {
                note(key, value);
            }
        }
        notes.extend(owner.provenance());
        notes
    }
}

fn pod_name(owner: &Owner) -> &str {
    owner.pod.as_ref().map_or(owner.attachment.container_id.as_str(), |(_, name)| name)
}

/// The notes about the place of an attachment.
pub(super) fn noted(known: &MachineAttachment) -> Noted<'_> {
    Noted::of_attachment(known.node.as_str(), known.since, &known.notes)
}

/// Whether notes are those of a pod.
fn are_of(notes: &OwnerNotes, namespace: &str, pod: &str) -> bool {
    notes.get(key::NAMESPACE).map(String::as_str) == Some(namespace)
        && notes.get(key::POD).map(String::as_str) == Some(pod)
}

/// Notes of a pod that has been noted before keep the time.
fn since(before: &OwnerNotes, now: Timestamp) -> String {
    before.get(key::TIMESTAMP).cloned().unwrap_or_else(|| now.to_go_string())
}
