//! A pod of a machine comes: it is given the machine's address, and noted as the one that uses it or may take it over.

use super::{MachineIdentity, are_of, keep_beginning, machine_handle, noted, owners_in, pod_name, since};
use crate::api::HandleId;
use crate::api::calico::VmAddressPersistence;
use crate::datastore::{
    Answer, Datastore, Key, Machine, MachineAttachment, MachineRole, MachinesOf, Revision, Want,
};
use crate::ipam::assign::{Assign, Sharing};
use crate::ipam::block::{Allocation, Block};
use crate::ipam::draft::Draft;
use crate::ipam::owner::key;
use crate::ipam::owners::{OwnerNotes, write_owners};
use crate::ipam::{Attachment, Error, Ipam, Judge, Noted, Whose};

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

    /// Refuses a machine whose handle is another machine's, by the record or, where others wrote the addresses, by their
    /// owners.
    pub(in crate::ipam) fn admit(
        &self,
        draft: &Draft,
        handle: &HandleId,
        network: &str,
    ) -> Result<(), Error> {
        let MachineIdentity { namespace, name, .. } = self.identity;
        let taken = |holder: String| {
            let asked = shown(namespace, name, Some(network));
            Err(Error::VmHandleTaken { handle: handle.clone(), asked, holder })
        };
        if let Some((_, known)) = &self.record {
            return if is_of(known, network, self.identity) {
                Ok(())
            } else {
                taken(shown(&known.namespace, &known.name, Some(&known.network)))
            };
        }
        let owners = draft.blocks().flat_map(|block| owners_in(block, handle));
        let mut owners = owners.flat_map(|(_, (active, alternate))| [active, alternate]);
        let text = |notes: &OwnerNotes, key: &str| notes.get(key).cloned().unwrap_or_default();
        let other = owners.find(|notes| {
            let differs = |key: &str, own: &str| notes.get(key).is_some_and(|noted| noted != own);
            differs(key::NAMESPACE, namespace) || differs(key::VMI_NAME, name)
        });
        other.map_or(Ok(()), |notes| {
            taken(shown(&text(&notes, key::NAMESPACE), &text(&notes, key::VMI_NAME), None))
        })
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
                let (after, is_alternate) = self.owners(request, &before, judge);
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
        judge: &Judge<'_>,
    ) -> ((OwnerNotes, OwnerNotes), bool) {
        let is_me = |notes: &OwnerNotes| {
            are_of(notes, &self.identity.namespace, pod_name(request.owner))
                && !matches!(judge.whose(&Noted::of(notes)), Whose::OtherHost | Whose::SecondMachine)
        };
        let me = |before: &OwnerNotes| {
            if !is_me(before) {
                return self.identity.notes(request.owner, &request.now.to_go_string());
            }
            let mut notes = self.identity.notes(request.owner, &since(before, request.now));
            keep_beginning(&mut notes, before);
            notes
        };
        // A target whose sandbox is built again after it took over is the source now, whatever its pod still says; and
        // where nobody has the address there is nobody to wait for.
        let takes_now = self.identity.role != MachineRole::Target || is_me(active) || active.is_empty();
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
                ownerless_boot: None,
            };
            (None, machine)
        };
        let before = machine.clone();
        let is_this = |known: &MachineAttachment| is_this(known, attachment, judge);
        let known = machine.attachments.iter().find(|known| is_this(known)).cloned();
        let mut notes = request.owner.provenance();
        if let Some(known) = &known {
            keep_beginning(&mut notes, &known.notes);
        }
        // Nothing that is proved dead gets a DEL any more.
        let is_dead = |known: &MachineAttachment| judge.life_of(&noted(known)).is_dead();
        machine.attachments.retain(|known| !is_this(known) && !is_dead(known));
        while machine.attachments.len() >= ATTACHMENTS_MAX {
            machine.attachments.remove(0);
        }
        machine.attachments.push(MachineAttachment {
            container_id: attachment.container_id.clone(),
            ifname: attachment.ifname.clone(),
            role: match self.identity.role {
                _ if waits => MachineRole::Target,
                MachineRole::Unknown => MachineRole::Unknown,
                MachineRole::Source | MachineRole::Target => MachineRole::Source,
            },
            pod: request.owner.pod.as_ref().map(|(_, name)| name.clone()),
            node: request.owner.host.name.clone(),
            since: known.map_or(request.now, |known| known.since),
            notes,
        });
        machine.ownerless_since = None;
        machine.ownerless_boot = None;
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

/// Is an attachment on record this one, on this host?
fn is_this(known: &MachineAttachment, attachment: &Attachment, judge: &Judge<'_>) -> bool {
    known.container_id == attachment.container_id
        && known.ifname == attachment.ifname
        && judge.whose(&noted(known)) == Whose::Ours
}

/// Is a record that of a machine?
fn is_of(known: &Machine, network: &str, machine: &MachineIdentity) -> bool {
    known.network == network && known.namespace == machine.namespace && known.name == machine.name
}

fn shown(namespace: &str, name: &str, network: Option<&str>) -> String {
    let machine = format!("`{}/{}`", namespace.escape_debug(), name.escape_debug());
    network.map_or_else(
        || machine.clone(),
        |network| format!("{machine} on network `{}`", network.escape_debug()),
    )
}

impl<D: Datastore> Ipam<D> {
    /// Decides whether a request for a machine is served as such. An ADD that is asked again answers what it answered,
    /// whatever the configuration says by now: an attachment that has addresses of its own keeps them, and one that has
    /// the machine's keeps those. Otherwise, where machines keep no addresses, a pod of one is a pod.
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
        let handle = machine_handle(&attachment.network, &identity.namespace, &identity.name)?;
        let wants = [Want::Settings, Want::Held(own.clone()), Want::Object(Key::Machine(handle))];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let (_, blocks) = answers.next().map(Answer::held).unwrap_or_default();
        let record = answers.next().and_then(Answer::object).map(crate::datastore::Entry::into::<Machine>);
        let config =
            crate::ipam::Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored));
        let judge = self.judge(request.host);
        let is_own = |allocation: &Allocation<'_>| {
            attachment.owns(&allocation.fields) && judge.whose_is(&allocation.fields) == Whose::Ours
        };
        let has_own = blocks.into_iter().any(|entry| {
            Block::from_wire(entry.into()).is_ok_and(|block| block.held_by(&own).any(|held| is_own(&held)))
        });
        if has_own {
            return Ok(Sharing::Attachment);
        }
        let is_on_record = record.is_some_and(|machine| {
            let mut attachments = machine.attachments.iter();
            is_of(&machine, &attachment.network, identity)
                && attachments.any(|known| is_this(known, attachment, &judge))
        });
        if is_on_record || config.vm_address_persistence == VmAddressPersistence::Enabled {
            return Ok(request.sharing);
        }
        match identity.role {
            MachineRole::Source | MachineRole::Unknown => Ok(Sharing::Attachment),
            MachineRole::Target => Err(Error::PersistenceDisabled {
                machine: format!("{}/{}", identity.namespace, identity.name),
            }),
        }
    }
}
