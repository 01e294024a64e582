//! A pod of a machine comes: it is given the machine's address, and noted as the one that uses it or may take it over.

use super::{MachineIdentity, are_of, noted, pod_name, since};
use crate::api::HandleId;
use crate::datastore::{
    Answer, Datastore, Key, Machine, MachineAttachment, MachineRole, MachinesOf, Revision, Want,
};
use crate::ipam::assign::{Assign, Sharing};
use crate::ipam::block::{Allocation, Block};
use crate::ipam::draft::Draft;
use crate::ipam::owners::{OwnerNotes, write_owners};
use crate::ipam::{Error, Ipam, Judge, Whose};

/// How many attachments a machine's record has at most: what has long gone without a DEL makes room.
const ATTACHMENTS_MAX: usize = 32;

/// What is on record about the machine that a request is for, and about the container that asks.
pub(in crate::ipam) struct Guest<'a> {
    identity: &'a MachineIdentity,
    record: Option<(Revision, Machine)>,
    of_container: Option<(Revision, MachinesOf)>,
    container: HandleId,
}

impl<'a> Guest<'a> {
    /// Reads it.
    pub(in crate::ipam) async fn of<D: Datastore>(
        store: &mut D,
        identity: &'a MachineIdentity,
        handle: &HandleId,
        container: HandleId,
    ) -> Result<Self, Error> {
        let wants =
            [Want::Object(Key::Machine(handle.clone())), Want::Object(Key::MachinesOf(container.clone()))];
        let mut answers = store.read(&wants).await?.into_iter().map(Answer::object);
        let record = answers.next().flatten().map(|entry| (entry.revision, entry.into()));
        let of_container = answers.next().flatten().map(|entry| (entry.revision, entry.into()));
        Ok(Self { identity, record, of_container, container })
    }

    /// Notes the pod at every address of the handle, and its attachment on record. The answer: whether the pod only
    /// waits to take the address over.
    pub(in crate::ipam) fn enter(
        self,
        draft: &mut Draft,
        handle: &HandleId,
        request: &Assign<'_>,
        judge: &Judge<'_>,
    ) -> bool {
        let mut waits = false;
        let owners: Vec<_> = draft.blocks().flat_map(|block| owners_in(block, handle)).collect();
        let current = owners.into_iter().map(|(_, (active, _))| active).find(|active| !active.is_empty());
        for block in draft.blocks_mut() {
            for (ordinal, mut before) in owners_in(block, handle) {
                if let Some(current) = current.as_ref().filter(|_| before.0.is_empty()) {
                    // An address that this request adds to what the machine had.
                    before.0.clone_from(current);
                }
                let (after, is_alternate) = self.owners(request, &before);
                waits |= is_alternate;
                write_owners(block, ordinal, handle, after.0, after.1);
            }
        }
        self.write_records(draft, handle, request, waits, judge);
        waits
    }

    /// Active and alternate owner after the pod has come, and whether the pod is the alternate one.
    fn owners(
        &self,
        request: &Assign<'_>,
        (active, alternate): &(OwnerNotes, OwnerNotes),
    ) -> ((OwnerNotes, OwnerNotes), bool) {
        let is_me = |notes: &OwnerNotes| are_of(notes, &self.identity.namespace, pod_name(request.owner));
        let me = |before: &OwnerNotes| {
            let since = if is_me(before) { since(before, request.now) } else { request.now.to_go_string() };
            self.identity.notes(request.owner, &since)
        };
        // A target whose sandbox is built again after it took over is the source now, whatever its pod still says; and
        // where nobody has the address there is nobody to wait for.
        let takes_now = self.identity.role == MachineRole::Source || is_me(active) || active.is_empty();
        if !takes_now {
            return ((active.clone(), me(alternate)), true);
        }
        let alternate = if is_me(alternate) { OwnerNotes::new() } else { alternate.clone() };
        ((me(active), alternate), false)
    }

    fn write_records(
        self,
        draft: &mut Draft,
        handle: &HandleId,
        request: &Assign<'_>,
        waits: bool,
        judge: &Judge<'_>,
    ) {
        let attachment = &request.owner.attachment;
        let (at, mut machine) = if let Some((revision, machine)) = self.record {
            (Some(revision), machine)
        } else {
            let machine = Machine {
                network: attachment.network.clone(),
                namespace: self.identity.namespace.clone(),
                name: self.identity.name.clone(),
                attachments: Vec::new(),
                ownerless_since: None,
            };
            (None, machine)
        };
        let before = machine.clone();
        let is_this = |known: &MachineAttachment| {
            known.container_id == attachment.container_id
                && known.ifname == attachment.ifname
                && judge.whose(&noted(known)) == Whose::Ours
        };
        let known = machine.attachments.iter().find(|known| is_this(known)).map(|known| known.since);
        // An attachment of an earlier boot of this host gets no DEL any more.
        let is_dead = |known: &MachineAttachment| {
            let noted = noted(known);
            judge.whose(&noted) == Whose::Ours && judge.life_of(&noted).is_dead()
        };
        machine.attachments.retain(|known| !is_this(known) && !is_dead(known));
        while machine.attachments.len() >= ATTACHMENTS_MAX {
            machine.attachments.remove(0);
        }
        machine.attachments.push(MachineAttachment {
            container_id: attachment.container_id.clone(),
            ifname: attachment.ifname.clone(),
            role: if waits { MachineRole::Target } else { MachineRole::Source },
            pod: request.owner.pod.as_ref().map(|(_, name)| name.clone()),
            node: request.owner.host.name.clone(),
            since: known.unwrap_or(request.now),
            notes: request.owner.provenance(),
        });
        machine.ownerless_since = None;
        let (of_at, mut of_container) = match self.of_container {
            Some((revision, of)) => (Some(revision), of),
            None => (None, MachinesOf::default()),
        };
        if of_container.machines.insert(handle.clone()) {
            draft.put_first(Key::MachinesOf(self.container), of_at, of_container);
        }
        if machine != before || at.is_none() {
            draft.put_first(Key::Machine(handle.clone()), at, machine);
        }
    }
}

/// Both owners of each address that a handle has in a block.
pub(super) fn owners_in(
    block: &Block,
    handle: &HandleId,
) -> Vec<(crate::ipam::Ordinal, (OwnerNotes, OwnerNotes))> {
    let of = |allocation: crate::ipam::Allocation<'_>| {
        let fields = allocation.fields;
        let owners = (fields.active_owner.unwrap_or_default(), fields.alternate_owner.unwrap_or_default());
        (allocation.ordinal, owners)
    };
    block.held_by(handle).map(of).collect()
}

impl<D: Datastore> Ipam<D> {
    /// Whether a request for a machine is served as such. An attachment that has addresses of its own, from before
    /// machines kept theirs, keeps them; where machines keep no addresses, a pod of one is a pod.
    ///
    /// # Errors
    /// [`Error::PersistenceDisabled`] for a pod that a machine migrates to.
    pub(in crate::ipam) async fn settle_sharing<'a>(
        &mut self,
        request: &Assign<'a>,
    ) -> Result<Sharing<'a>, Error> {
        let Sharing::Machine(identity) = request.sharing else {
            return Ok(request.sharing);
        };
        let attachment = &request.owner.attachment;
        let own = attachment.handle()?;
        let answers = self.store.read(&[Want::Settings, Want::Held(own.clone())]).await?;
        let mut answers = answers.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let (_, blocks) = answers.next().map(Answer::held).unwrap_or_default();
        let config =
            crate::ipam::Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored));
        if config.vm_address_persistence == crate::api::calico::VmAddressPersistence::Disabled {
            return match identity.role {
                MachineRole::Source => Ok(Sharing::Attachment),
                MachineRole::Target => Err(Error::PersistenceDisabled {
                    machine: format!("{}/{}", identity.namespace, identity.name),
                }),
            };
        }
        let judge = self.judge(request.host);
        let is_own = |allocation: &Allocation<'_>| {
            attachment.owns(&allocation.fields) && judge.whose_is(&allocation.fields) == Whose::Ours
        };
        let has_own = blocks.into_iter().any(|entry| {
            Block::from_wire(entry.into()).is_ok_and(|block| block.held_by(&own).any(|held| is_own(&held)))
        });
        Ok(if has_own { Sharing::Attachment } else { request.sharing })
    }
}
