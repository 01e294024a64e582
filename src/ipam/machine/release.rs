//! A machine's addresses go: its deletion is known, or it had no pod for long enough.

use std::time::Duration;

use super::retention;
use crate::api::HandleId;
use crate::api::calico::IpamHandle;
use crate::clock::Timestamp;
use crate::datastore::{Answer, Collection, Datastore, Key, Machine, MachinesOf, Want};
use crate::ipam::assign::checked;
use crate::ipam::attempt::{Attempts, Next};
use crate::ipam::draft::Draft;
use crate::ipam::excess::Counts;
use crate::ipam::policy::Policy;
use crate::ipam::{Attachment, Error, Host, Ipam, Released};

impl<D: Datastore> Ipam<D> {
    /// Frees the addresses of a machine, and forgets its pods. `only_if` is asked about its record, if it has one.
    ///
    /// # Errors
    /// When the store failed, or others were faster each time.
    ///
    /// # Panics
    /// When the store answers fewer wants than it was asked: its own fault.
    pub async fn release_machine(
        &mut self,
        handle: &HandleId,
        host: &Host,
        now: Timestamp,
        only_if: impl Fn(Option<&Machine>) -> bool,
    ) -> Result<Released, Error> {
        let mut attempts = Attempts::default();
        loop {
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
            let record = record.map(|entry| (entry.revision, entry.into::<Machine>()));
            if !only_if(record.as_ref().map(|(_, machine)| machine)) {
                return Ok(Released::default());
            }
            let mut draft = Draft::default();
            let counts = Counts::new(stored.as_ref(), self.is_alone(), attempts.so_far());
            draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
            let mut cidrs = Vec::new();
            for entry in blocks {
                let (revision, block) = checked(entry, &policy)?;
                cidrs.push(block.cidr());
                draft.load_block(revision, block);
            }
            let addresses = self.free_machine(&mut draft, handle, &policy, &counts, &cidrs).await?;
            if let Some((at, machine)) = record {
                for attachment in &machine.attachments {
                    self.forget(&mut draft, handle, &machine.network, &attachment.container_id).await?;
                }
                draft.delete_last(Key::Machine(handle.clone()), at);
            }
            if self.write(draft, &policy.reserved, &mut attempts).await? == Next::Done {
                return Ok(Released { addresses, ..Released::default() });
            }
        }
    }

    /// A container leads to a machine no more.
    async fn forget(
        &mut self,
        draft: &mut Draft,
        handle: &HandleId,
        network: &str,
        container_id: &str,
    ) -> Result<(), Error> {
        let attachment = Attachment {
            network: network.to_owned(),
            container_id: container_id.to_owned(),
            ifname: String::new(),
        };
        let Ok(container) = attachment.handle() else { return Ok(()) };
        let key = Key::MachinesOf(container);
        let read = self.store.read(&[Want::Object(key.clone())]).await?.pop();
        if let Some(entry) = read.and_then(Answer::object) {
            let (at, mut of) = (entry.revision, entry.into::<MachinesOf>());
            of.machines.remove(handle);
            if of.machines.is_empty() {
                draft.delete_last(key, at);
            } else {
                draft.put_last(key, at, of);
            }
        }
        Ok(())
    }

    /// Frees the addresses of machines of a network that had no pod for as long as `retention`, as [`super::retention`] counts time.
    ///
    /// # Errors
    /// As [`Ipam::release_machine`].
    pub async fn release_ownerless(
        &mut self,
        network: &str,
        retention: Duration,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let read = self.store.read(&[Want::All(Collection::Machines)]).await?.pop();
        let is_over = |machine: &Machine| {
            machine.network == network
                && retention::without_a_pod(machine, host, now).is_some_and(|time| time >= retention)
        };
        let mut released = Released::default();
        for entry in read.map(Answer::objects).unwrap_or_default() {
            let Key::Machine(handle) = entry.key.clone() else { continue };
            if !is_over(&entry.into::<Machine>()) {
                continue;
            }
            let freed =
                self.release_machine(&handle, host, now, |record| record.is_some_and(is_over)).await?;
            released.addresses.extend(freed.addresses);
        }
        Ok(released)
    }
}
