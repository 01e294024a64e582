//! A pod of a machine goes: it is no owner any more, and the machine keeps its address.

use std::net::IpAddr;

use super::{are_of, held_by_machine, noted, notes_on_record, owners_in, pod_on_record, retention};
use crate::api::HandleId;
use crate::api::calico::IpamHandle;
use crate::clock::Timestamp;
use crate::datastore::{
    Answer, Collection, Datastore, Key, Machine, MachineAttachment, MachineRole, MachinesOf, Revision, Want,
};
use crate::ipam::assign::checked;
use crate::ipam::attempt::{Attempts, Next};
use crate::ipam::draft::Draft;
use crate::ipam::excess::Counts;
use crate::ipam::owner::key;
use crate::ipam::owners::{OwnerNotes, write_owners};
use crate::ipam::policy::Policy;
use crate::ipam::{Attachment, Deletion, Error, Host, Ipam, Judge, Netns, Released, ValidAttachments, Whose};
use crate::net::{AddrSet, Cidr};

/// What is known of the machine whose pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineFate {
    /// It lives, as far as anybody knows.
    Lives,
    /// It is being deleted: with its last pod its addresses go.
    Deleted,
}

impl<D: Datastore> Ipam<D> {
    /// Ends what an attachment is to virtual machines, if it is anything. An alternate owner becomes the active one in
    /// the same commit. The answer: the addresses that went, which is none unless the machine is being deleted and this
    /// was its last pod.
    pub(in crate::ipam) async fn detach(
        &mut self,
        deletion: &Deletion<'_>,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let Ok(container) = deletion.attachment.handle() else {
            return Ok(Released::default());
        };
        let mut attempts = Attempts::default();
        loop {
            let read = self.store.read(&[Want::Object(Key::MachinesOf(container.clone()))]).await?.pop();
            let Some(entry) = read.and_then(Answer::object) else {
                return Ok(Released::default());
            };
            let (at, mut of_container) = (entry.revision, entry.into::<MachinesOf>());
            let before = of_container.machines.clone();
            let mut draft = Draft::default();
            let mut released = Released::default();
            let mut reserved = AddrSet::new();
            let step = Step { deletion, container: &container, host, now, attempts: attempts.so_far() };
            for handle in of_container.machines.clone() {
                let left = self.draft_detach(&mut draft, &handle, &step).await?;
                released.addresses.extend(left.freed);
                reserved = left.reserved;
                if !left.is_still_led_to {
                    of_container.machines.remove(&handle);
                }
            }
            let key = Key::MachinesOf(container.clone());
            if of_container.machines.is_empty() {
                draft.delete_last(key, at);
            } else if of_container.machines != before {
                draft.put_last(key, at, of_container);
            }
            if self.write(draft, &reserved, &mut attempts).await? == Next::Done {
                return Ok(released);
            }
        }
    }

    /// The attachments of a network's virtual machines on this host that a runtime does not declare valid.
    pub(in crate::ipam) async fn gone_of_machines(
        &mut self,
        network: &str,
        valid: &ValidAttachments,
        host: &Host,
    ) -> Result<Vec<Attachment>, Error> {
        let judge = self.judge(host);
        let read = self.store.read(&[Want::All(Collection::Machines)]).await?.pop();
        let mut gone = Vec::new();
        for entry in read.map(Answer::objects).unwrap_or_default() {
            let machine = entry.into::<Machine>();
            if machine.network != network {
                continue;
            }
            for known in machine.attachments {
                let is_ours = judge.whose(&noted(&known)) == Whose::Ours;
                if is_ours && !valid.contains(&(known.container_id.clone(), known.ifname.clone())) {
                    let network = machine.network.clone();
                    let (container_id, ifname) = (known.container_id, known.ifname);
                    gone.push(Attachment { network, container_id, ifname });
                }
            }
        }
        Ok(gone)
    }

    async fn draft_detach(
        &mut self,
        draft: &mut Draft,
        handle: &HandleId,
        step: &Step<'_>,
    ) -> Result<Left, Error> {
        let Step { deletion, host, now, .. } = *step;
        let wants = [
            Want::Settings,
            Want::Object(Key::Node(host.name.clone())),
            Want::Object(Key::Machine(handle.clone())),
            Want::Held(handle.clone()),
        ];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let mut next = || answers.next().expect("an answer for each want");
        let (settings, node, record, (stored, blocks)) =
            (next().settings(), next().object(), next().object(), next().held());
        let policy = Policy::new(settings, node, &host.name, now);
        let mut left = Left { reserved: policy.reserved.clone(), ..Left::default() };
        let Some((at, mut machine)) = record.map(|entry| (entry.revision, entry.into::<Machine>())) else {
            return Ok(left);
        };
        let judge = self.judge(host);
        let gone = take_out(&mut machine, deletion.attachment, &judge, deletion.netns);
        left.is_still_led_to = machine.attachments.iter().any(|other| step.leads_to(&machine, other));
        let Some(gone) = gone else { return Ok(left) };
        let counts = Counts::new(stored.as_ref(), self.is_alone(), step.attempts);
        draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
        let mut cidrs = Vec::new();
        for entry in blocks {
            let (revision, block) = checked(entry, &policy)?;
            cidrs.push(block.cidr());
            draft.load_block(revision, block);
        }
        // A pod with another interface stays the owner.
        let is_other_interface =
            |other: &MachineAttachment| other.container_id == gone.container_id && other.node == gone.node;
        if !machine.attachments.iter().any(is_other_interface) {
            leave(draft, handle, &mut machine, &gone, &judge);
            if !has_owner(draft, handle) {
                if deletion.vm == MachineFate::Deleted {
                    left.freed = self.free_machine(draft, handle, &policy, &counts, &cidrs).await?;
                    draft.delete_last(Key::Machine(handle.clone()), at);
                    return Ok(left);
                }
                retention::begin(&mut machine, host, now);
            }
        }
        keep(draft, handle, at, machine);
        Ok(left)
    }

    /// Frees every address of a machine, and gives up the blocks that become empty.
    pub(super) async fn free_machine(
        &mut self,
        draft: &mut Draft,
        handle: &HandleId,
        policy: &Policy,
        counts: &Counts,
        cidrs: &[Cidr],
    ) -> Result<Vec<IpAddr>, Error> {
        let freed = free_all(draft, handle, policy, counts, cidrs);
        for cidr in cidrs {
            if draft.block(*cidr).is_some_and(|block| block.is_empty()) {
                self.give_back(policy, draft, *cidr).await?;
            }
        }
        Ok(freed)
    }
}

/// One attempt of a DEL.
struct Step<'a> {
    deletion: &'a Deletion<'a>,
    /// The handle of the container that goes.
    container: &'a HandleId,
    host: &'a Host,
    now: Timestamp,
    attempts: u32,
}

impl Step<'_> {
    /// Does the container's handle lead to an attachment of a machine? Another container may have the same handle.
    fn leads_to(&self, machine: &Machine, other: &MachineAttachment) -> bool {
        let rest = self.container.as_str().strip_prefix(&machine.network);
        rest.and_then(|rest| rest.strip_prefix('.')) == Some(&other.container_id)
    }
}

/// The result of a step, besides its draft.
#[derive(Default)]
struct Left {
    reserved: AddrSet,
    /// The container's handle still leads to an attachment of the machine.
    is_still_led_to: bool,
    freed: Vec<IpAddr>,
}

/// Writes a machine's record, unless it has become one of nothing.
fn keep(draft: &mut Draft, handle: &HandleId, at: Revision, machine: Machine) {
    let has_addresses = draft.blocks().any(|block| held_by_machine(block, handle).next().is_some());
    let key = Key::Machine(handle.clone());
    if machine.attachments.is_empty() && !has_addresses {
        draft.delete_last(key, at);
    } else {
        draft.put_last(key, at, machine);
    }
}

/// Takes an attachment off a machine's record.
fn take_out(
    machine: &mut Machine,
    attachment: &Attachment,
    judge: &Judge<'_>,
    netns: Option<&Netns>,
) -> Option<MachineAttachment> {
    let is_named = |known: &MachineAttachment| {
        known.container_id == attachment.container_id && known.ifname == attachment.ifname
    };
    let find = |meant: &dyn Fn(&MachineAttachment) -> bool| {
        machine.attachments.iter().position(|known| is_named(known) && meant(known))
    };
    let ours = |known: &MachineAttachment| judge.whose(&noted(known)) == Whose::Ours;
    let before = |known: &MachineAttachment| judge.may_end_noted(&noted(known), netns);
    let place = find(&ours).or_else(|| find(&before))?;
    Some(machine.attachments.remove(place))
}

fn has_owner(draft: &Draft, handle: &HandleId) -> bool {
    let mut owners = draft.blocks().flat_map(|block| owners_in(block, handle));
    owners.any(|(_, (active, alternate))| !active.is_empty() || !alternate.is_empty())
}

/// A pod is no owner any more. The alternate owner becomes the active one; if there is none, the latest pod that may run
/// the machine does.
fn leave(
    draft: &mut Draft,
    handle: &HandleId,
    machine: &mut Machine,
    gone: &MachineAttachment,
    judge: &Judge<'_>,
) {
    let runs_on = may_run(machine, judge).map(|known| notes_on_record(machine, known)).unwrap_or_default();
    let namespace = machine.namespace.clone();
    for block in draft.blocks_mut() {
        for (ordinal, before) in owners_in(block, handle) {
            let (mut active, mut alternate) = before.clone();
            if is_attachment(&alternate, &namespace, gone) {
                alternate.clear();
            }
            if is_attachment(&active, &namespace, gone) {
                active = std::mem::take(&mut alternate);
                promote_on_record(machine, &active);
            }
            if active.is_empty() && alternate.is_empty() {
                active.clone_from(&runs_on);
            }
            if (&active, &alternate) != (&before.0, &before.1) {
                write_owners(block, ordinal, handle, active, alternate);
            }
        }
    }
}

/// The latest attachment that may run a machine although nobody said so: its role is not known, and nothing proves it
/// dead.
fn may_run<'m>(machine: &'m Machine, judge: &Judge<'_>) -> Option<&'m MachineAttachment> {
    let may = |known: &&MachineAttachment| {
        known.role == MachineRole::Unknown && !judge.life_of(&noted(known)).is_dead()
    };
    machine.attachments.iter().rev().find(may)
}

/// Are notes about the pod of an attachment? Pods of two hosts may have one name, if a runtime passes on no names of pods.
fn is_attachment(notes: &OwnerNotes, namespace: &str, known: &MachineAttachment) -> bool {
    are_of(notes, namespace, pod_on_record(known))
        && notes.get(key::NODE).is_none_or(|node| node == known.node.as_str())
}

/// The pod that takes an address over runs the machine from now on.
fn promote_on_record(machine: &mut Machine, notes: &OwnerNotes) {
    let namespace = machine.namespace.clone();
    for attachment in &mut machine.attachments {
        if attachment.role == MachineRole::Target && is_attachment(notes, &namespace, attachment) {
            attachment.role = MachineRole::Source;
        }
    }
}

/// Frees every address of a machine.
fn free_all(
    draft: &mut Draft,
    handle: &HandleId,
    policy: &Policy,
    counts: &Counts,
    cidrs: &[Cidr],
) -> Vec<IpAddr> {
    let mut freed = Vec::new();
    for cidr in cidrs {
        let of_block = counts.change(draft, handle, *cidr, |block| {
            let held: Vec<_> = held_by_machine(block, handle).map(|a| (a.ordinal, a.address)).collect();
            for (ordinal, _) in &held {
                block.release(*ordinal, policy.config.cooldown, policy.now);
            }
            held
        });
        freed.extend(of_block.into_iter().flatten().map(|(_, address)| address));
    }
    counts.forget_missing(draft, handle);
    freed
}
