//! A pod of a machine goes: it is no owner any more, and the machine keeps its address.

use super::attach::owners_in;
use super::{are_of, noted};
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
use crate::ipam::owners::{OwnerNotes, write_owners};
use crate::ipam::policy::Policy;
use crate::ipam::{Attachment, Deletion, Error, Host, Ipam, Judge, Netns, Released, ValidAttachments, Whose};

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
            let mut draft = Draft::default();
            let mut released = Released::default();
            let mut reserved = None;
            for handle in of_container.machines.clone() {
                let left = self
                    .draft_detach(&mut draft, &handle, deletion, host, now, attempts.so_far(), &mut released)
                    .await?;
                reserved = Some(left.reserved);
                if !left.has_others_of_container {
                    of_container.machines.remove(&handle);
                }
            }
            let key = Key::MachinesOf(container.clone());
            if of_container.machines.is_empty() {
                draft.delete_last(key, at);
            } else {
                draft.put_last(key, at, of_container);
            }
            let reserved = reserved.unwrap_or_default();
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

    #[expect(clippy::too_many_arguments, reason = "one step of `detach`, in words of its own")]
    async fn draft_detach(
        &mut self,
        draft: &mut Draft,
        handle: &HandleId,
        deletion: &Deletion<'_>,
        host: &Host,
        now: Timestamp,
        attempts: u32,
        released: &mut Released,
    ) -> Result<Left, Error> {
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
        let mut left = Left { reserved: policy.reserved.clone(), has_others_of_container: false };
        let Some((at, mut machine)) = record.map(|entry| (entry.revision, entry.into::<Machine>())) else {
            return Ok(left);
        };
        let Deletion { attachment, netns, vm: fate } = *deletion;
        let judge = self.judge(host);
        let gone = take_out(&mut machine, attachment, &judge, netns);
        let mut of_container =
            machine.attachments.iter().filter(|other| other.container_id == attachment.container_id);
        left.has_others_of_container = of_container.clone().next().is_some();
        let Some(gone) = gone else { return Ok(left) };
        let has_other_interface = of_container.any(|other| other.node == gone.node);
        let counts = Counts::new(stored.as_ref(), self.is_alone(), attempts);
        draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
        let mut cidrs = Vec::new();
        for entry in blocks {
            let (revision, block) = checked(entry, &policy)?;
            cidrs.push(block.cidr());
            draft.load_block(revision, block);
        }
        // The pod has another interface: its owner stays.
        if !has_other_interface {
            let pod = gone.pod.as_deref().unwrap_or(&gone.container_id);
            leave(draft, handle, &mut machine, pod);
        }
        let is_owned = draft
            .blocks()
            .flat_map(|block| owners_in(block, handle))
            .any(|(_, (active, alternate))| !active.is_empty() || !alternate.is_empty());
        if !is_owned && !has_other_interface {
            if fate == MachineFate::Deleted {
                released.addresses.extend(free_all(draft, handle, &policy, &counts, &cidrs));
                for cidr in cidrs {
                    if draft.block(cidr).is_some_and(|block| block.is_empty()) {
                        self.give_back(&policy, draft, cidr).await?;
                    }
                }
                draft.delete_last(Key::Machine(handle.clone()), at);
                return Ok(left);
            }
            machine.ownerless_since.get_or_insert(now);
        }
        keep(draft, handle, at, machine);
        Ok(left)
    }
}

/// Writes a machine's record, unless it has become one of nothing.
fn keep(draft: &mut Draft, handle: &HandleId, at: Revision, machine: Machine) {
    let has_addresses = draft.blocks().any(|block| block.held_by(handle).next().is_some());
    let key = Key::Machine(handle.clone());
    if machine.attachments.is_empty() && !has_addresses {
        draft.delete_last(key, at);
    } else {
        draft.put_last(key, at, machine);
    }
}

/// What is left after a step.
struct Left {
    reserved: crate::net::AddrSet,
    has_others_of_container: bool,
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

/// A pod is no owner any more. Whoever waits for its addresses has them.
fn leave(draft: &mut Draft, handle: &HandleId, machine: &mut Machine, pod: &str) {
    let namespace = machine.namespace.clone();
    let is_it = |notes: &OwnerNotes| are_of(notes, &namespace, pod);
    for block in draft.blocks_mut() {
        for (ordinal, (active, alternate)) in owners_in(block, handle) {
            let after = if is_it(&active) {
                promote_on_record(machine, &alternate);
                (alternate, OwnerNotes::new())
            } else if is_it(&alternate) {
                (active, OwnerNotes::new())
            } else {
                continue;
            };
            write_owners(block, ordinal, handle, after.0, after.1);
        }
    }
}

/// The pod that takes an address over runs the machine from now on.
fn promote_on_record(machine: &mut Machine, notes: &OwnerNotes) {
    let namespace = machine.namespace.clone();
    for attachment in &mut machine.attachments {
        let pod = attachment.pod.as_deref().unwrap_or(&attachment.container_id);
        if are_of(notes, &namespace, pod) {
            attachment.role = MachineRole::Source;
        }
    }
}

/// Frees every address of a handle.
pub(super) fn free_all(
    draft: &mut Draft,
    handle: &HandleId,
    policy: &Policy,
    counts: &Counts,
    cidrs: &[crate::net::Cidr],
) -> Vec<std::net::IpAddr> {
    let mut freed = Vec::new();
    for cidr in cidrs {
        let of_block = counts.change(draft, handle, *cidr, |block| {
            let held: Vec<_> = block.held_by(handle).map(|a| (a.ordinal, a.address)).collect();
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
