//! Ending assignments: by attachment, by handle, by what a runtime declares valid.

use std::net::IpAddr;

use super::assign::checked;
use super::attempt::{Attempts, Next};
use super::block::{Allocation, Ordinal};
use super::draft::Draft;
use super::excess::Counts;
use super::machine::MachineFate;
use super::owner::{self, Attachment, ValidAttachments, noted};
use super::policy::Policy;
use super::{Block, Error, Host, Ipam};
use crate::api::HandleId;
use crate::api::calico::{AttributeFields, IpamHandle};
use crate::clock::Timestamp;
use crate::datastore::{Answer, BATCH_MAX, Datastore, Key, Want};

/// Blocks of one handle in one batch. Each is a change of the block and one of its affinity; the handle changes too, and a
/// store may have to write down something of each block that goes.
const BLOCKS_AT_ONCE: usize = (BATCH_MAX - 32) / 2;

/// Where a handle's addresses are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Among {
    /// In the blocks that the handle names.
    Named,
    /// And in this host's own: others write to a store of many machines too, and may have lost the handle, or never
    /// have written it.
    OwnBlocks,
}

/// What was freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
}

impl<D: Datastore> Ipam<D> {
    /// Frees what an attachment holds. Nothing is an answer too: it may have been freed before.
    ///
    /// # Errors
    /// Only when the store cannot be reached, read or written; then the addresses may still be held.
    pub async fn release(
        &mut self,
        attachment: &Attachment,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let Ok(handle) = attachment.handle() else {
            return Ok(Released::default());
        };
        self.release_attachment(attachment, &handle, host, MachineFate::Lives, now).await
    }

    /// Frees what an attachment of a virtual machine's pod holds, now that the machine is being deleted: with its last pod
    /// its addresses go too.
    ///
    /// # Errors
    /// As [`Ipam::release`].
    pub async fn release_with_machine(
        &mut self,
        attachment: &Attachment,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let Ok(handle) = attachment.handle() else {
            return Ok(Released::default());
        };
        self.release_attachment(attachment, &handle, host, MachineFate::Deleted, now).await
    }

    async fn release_attachment(
        &mut self,
        attachment: &Attachment,
        handle: &HandleId,
        host: &Host,
        fate: MachineFate,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let own = |allocation: &Allocation<'_>| attachment.owns(&allocation.fields);
        let released = self.release_where(handle, host, now, own).await?;
        if !released.addresses.is_empty() {
            return Ok(released);
        }
        // Nothing went by the container's own handle: it may be a virtual machine's pod.
        let detached = self.detach(attachment, host, fate, now).await?;
        if !detached.addresses.is_empty() || self.store.is_one_machine() {
            return Ok(detached);
        }
        self.release_among(Among::OwnBlocks, handle, host, now, own).await
    }

    /// Frees everything that a handle holds.
    ///
    /// # Errors
    /// As [`Ipam::release`].
    pub async fn release_handle(
        &mut self,
        handle: &HandleId,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        self.release_where(handle, host, now, |_| true).await
    }

    /// Frees those addresses of a handle that are meant, as far as they are this host's.
    pub(super) async fn release_where(
        &mut self,
        handle: &HandleId,
        host: &Host,
        now: Timestamp,
        meant: impl Fn(&Allocation<'_>) -> bool,
    ) -> Result<Released, Error> {
        self.release_among(Among::Named, handle, host, now, meant).await
    }

    async fn release_among(
        &mut self,
        among: Among,
        handle: &HandleId,
        host: &Host,
        now: Timestamp,
        meant: impl Fn(&Allocation<'_>) -> bool,
    ) -> Result<Released, Error> {
        let mut attempts = Attempts::default();
        let mut before = Vec::new();
        loop {
            let mut wants =
                vec![Want::Settings, Want::Object(Key::Node(host.name.clone())), Want::Held(handle.clone())];
            if among == Among::OwnBlocks {
                let own = self.store.read(&[Want::AffinityCidrs(host.name.clone().into())]).await?.pop();
                let own = own.map(Answer::cidrs).unwrap_or_default();
                wants.extend(own.into_iter().map(|cidr| Want::Object(Key::Block(cidr))));
            }
            let mut answers = self.store.read(&wants).await?.into_iter();
            let mut next = || answers.next().expect("an answer for each want");
            let (settings, node, (stored, named)) = (next().settings(), next().object(), next().held());
            let policy = Policy::new(settings, node, &host.name, now);
            let mut blocks =
                named.into_iter().map(|entry| checked(entry, &policy)).collect::<Result<Vec<_>, _>>()?;
            // Nothing says that an own block which is damaged has anything of this handle.
            for other in answers.filter_map(Answer::object).filter_map(|entry| checked(entry, &policy).ok()) {
                if blocks.iter().all(|(_, block)| block.cidr() != other.1.cidr()) {
                    blocks.push(other);
                }
            }
            let mut draft = Draft::default();
            let (one_machine, alone) = (self.store.is_one_machine(), self.is_alone());
            let counts = Counts::new(stored.as_ref(), alone, attempts.so_far());
            draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
            let mut released = Released::default();
            let mut emptied = Vec::new();
            let mut is_all = true;
            for (revision, block) in blocks {
                let cidr = block.cidr();
                draft.load_block(revision, block);
                if draft.len() > BLOCKS_AT_ONCE {
                    is_all = false;
                    continue;
                }
                let ours = |allocation: &Allocation<'_>| {
                    meant(allocation) && is_near(&allocation.fields, host, one_machine)
                };
                let freed =
                    counts.change(&mut draft, handle, cidr, |block| free(block, handle, &policy, ours));
                let freed = freed.unwrap_or_default();
                if !freed.is_empty() && draft.block(cidr).is_some_and(|block| block.is_empty()) {
                    emptied.push(cidr);
                }
                released.addresses.extend(freed);
            }
            counts.forget_missing(&mut draft, handle);
            for cidr in emptied {
                self.give_back(&policy, &mut draft, cidr).await?;
            }
            let changes = draft.len() > 0;
            if self.write(draft, &policy.reserved, &mut attempts).await? == Next::Done {
                if !changes {
                    self.store.make_durable().await?;
                }
                before.append(&mut released.addresses);
                if is_all || !changes {
                    released.addresses = before;
                    return Ok(released);
                }
            }
        }
    }

    /// Frees what a network's attachments on this host hold, save those that the runtime declares valid.
    ///
    /// An address that does not say which network it is for is left alone: doubt means keep. So is a virtual machine's,
    /// and, where hosts are different machines, another node's.
    ///
    /// # Errors
    /// As [`Ipam::release`], after all that could be freed was.
    pub async fn collect(
        &mut self,
        network: &str,
        valid: &ValidAttachments,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let blocks =
            self.store.read(&[Want::AllBlocks]).await?.pop().map(Answer::objects).unwrap_or_default();
        let one_machine = self.store.is_one_machine();
        let mut gone: Vec<Attachment> = Vec::new();
        for entry in blocks {
            let wire: crate::api::calico::IpamBlock = entry.into();
            let Ok(block) = Block::from_wire(wire) else {
                continue;
            };
            for allocation in
                block.allocations().filter(|allocation| is_near(&allocation.fields, host, one_machine))
            {
                if let Some(attachment) = attachment_of(network, &allocation.fields)
                    && !valid.contains(&(attachment.container_id.clone(), attachment.ifname.clone()))
                    && !gone.contains(&attachment)
                {
                    gone.push(attachment);
                }
            }
        }
        for gone in self.gone_of_machines(network, valid, host).await? {
            // Its machine keeps the address.
            self.detach(&gone, host, MachineFate::Lives, now).await?;
        }
        let mut released = Released::default();
        let mut failed = None;
        for attachment in gone {
            match self.release(&attachment, host, now).await {
                Ok(freed) => released.addresses.extend(freed.addresses),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(released), Err)
    }
}

/// The attachment that an address is for, if it is one of `network`. Only what we wrote says so; a virtual machine's
/// addresses are not its pods'.
fn attachment_of(network: &str, fields: &AttributeFields<'_>) -> Option<Attachment> {
    if noted(fields, owner::key::NETWORK) != Some(network) || owner::is_virtual_machine(fields) {
        return None;
    }
    let handle = owner::sanitised(fields.handle_id.as_deref()?);
    let container_id = handle.strip_prefix(network)?.strip_prefix('.')?.to_owned();
    let ifname = noted(fields, owner::key::IFNAME)?.to_owned();
    Some(Attachment { network: network.to_owned(), container_id, ifname })
}

/// Whether an address was assigned on this host. In a store of one machine any node's counts: a host may have changed
/// its name.
fn is_near(fields: &AttributeFields<'_>, host: &Host, one_machine: bool) -> bool {
    one_machine || noted(fields, owner::key::NODE).is_none_or(|node| node == host.name.as_str())
}

/// Frees the addresses of a handle that are meant.
fn free(
    block: &mut Block,
    handle: &HandleId,
    policy: &Policy,
    meant: impl Fn(&Allocation<'_>) -> bool,
) -> Vec<IpAddr> {
    let held: Vec<(Ordinal, IpAddr)> = block
        .held_by(handle)
        .filter(|allocation| meant(allocation))
        .map(|allocation| (allocation.ordinal, allocation.address))
        .collect();
    for (ordinal, _) in &held {
        block.release(*ordinal, policy.config.cooldown, policy.now);
    }
    held.into_iter().map(|(_, address)| address).collect()
}

pub(super) fn count(block: &Block, handle: &HandleId) -> u32 {
    u32::try_from(block.held_by(handle).count()).unwrap_or(u32::MAX)
}
