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
mod retention;

pub(super) use attach::Guest;
pub use detach::MachineFate;
pub use handle::{machine_handle, parse_machine_handle};
pub use promote::PromoteError;
pub use report::MachineReport;

use super::block::{Allocation, Block, Ordinal};
use super::owner::{self, Owner, key};
use super::owners::OwnerNotes;
use super::provenance::Noted;
use crate::api::HandleId;
use crate::clock::Timestamp;
use crate::datastore::{Machine, MachineAttachment, MachineRole};

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
        let mut notes =
            pod_notes([&self.namespace, &self.name, pod_name(owner), owner.host.name.as_str(), since]);
        for (key, value) in [
            (key::VMI_UID, &self.vmi_uid),
            (key::VM_UID, &self.vm_uid),
            (key::MIGRATION_UID, &self.migration_uid),
        ] {
            if let Some(value) = value {
                notes.insert(key.to_owned(), value.clone());
            }
        }
        notes.extend(owner.provenance());
        notes
    }
}

/// The notes about a pod: the machine's namespace and name, the pod's name, its node, and the time of its ADD.
fn pod_notes([namespace, machine, pod, node, since]: [&str; 5]) -> OwnerNotes {
    let notes = [
        (key::NAMESPACE, namespace),
        (key::VMI_NAME, machine),
        (key::POD, pod),
        (key::NODE, node),
        (key::TIMESTAMP, since),
    ];
    notes.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// The notes about a pod that is on record.
fn notes_on_record(machine: &Machine, known: &MachineAttachment) -> OwnerNotes {
    let since = known.since.to_go_string();
    let mut notes =
        pod_notes([&machine.namespace, &machine.name, pod_on_record(known), known.node.as_str(), &since]);
    notes.extend(known.notes.clone());
    notes
}

fn pod_on_record(known: &MachineAttachment) -> &str {
    known.pod.as_deref().unwrap_or(&known.container_id)
}

/// Keeps the noted beginning of a boot that goes on: it is reckoned from the wall clock, which may be set.
fn keep_beginning(notes: &mut OwnerNotes, before: &OwnerNotes) {
    if let Some(began) = before.get(key::BOOTED)
        && notes.get(key::BOOT) == before.get(key::BOOT)
    {
        notes.insert(key::BOOTED.to_owned(), began.clone());
    }
}

/// The addresses in a block that belong to the virtual machine of a handle, and to no container of that name.
pub(super) fn held_by_machine<'a>(
    block: &'a Block,
    handle: &'a HandleId,
) -> impl Iterator<Item = Allocation<'a>> {
    block.held_by(handle).filter(|held| owner::is_virtual_machine(&held.fields))
}

/// Both owners of each address that a virtual machine has in a block.
fn owners_in(block: &Block, handle: &HandleId) -> Vec<(Ordinal, (OwnerNotes, OwnerNotes))> {
    let of = |held: Allocation<'_>| {
        let fields = held.fields;
        let owners = (fields.active_owner.unwrap_or_default(), fields.alternate_owner.unwrap_or_default());
        (held.ordinal, owners)
    };
    held_by_machine(block, handle).map(of).collect()
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
