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
use super::{Block, Error, Host, Ipam, Netns, Whose};
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

/// The addresses that were freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// Addresses of the same attachment on other hosts, which were left alone. Only if nothing was freed.
    pub left: Vec<LeftAlone>,
}

/// An address that a release found and left alone, because it is another host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// The address.
    pub address: IpAddr,
    /// The node that holds it.
    pub node: Option<String>,
    network: Option<String>,
    ifname: Option<String>,
}

impl LeftAlone {
    fn of(allocation: &Allocation<'_>) -> Self {
        let note = |key: &str| noted(&allocation.fields, key).map(str::to_owned);
        Self {
            address: allocation.address,
            node: note(owner::key::NODE),
            network: note(owner::key::NETWORK),
            ifname: note(owner::key::IFNAME),
        }
    }

    fn of_attachment(&self, attachment: &Attachment) -> bool {
        self.network.as_ref().is_none_or(|network| *network == attachment.network)
            && self.ifname.as_ref().is_none_or(|ifname| *ifname == attachment.ifname)
    }
}

/// The words of a DEL.
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    /// The attachment.
    pub attachment: &'a Attachment,
    /// The network namespace of the container, as the DEL names it.
    pub netns: Option<&'a Netns>,
    /// The virtual machine, if the attachment is that of its pod.
    pub vm: MachineFate,
}

impl<'a> Deletion<'a> {
    /// A deletion that names no namespace, of a virtual machine's pod that lives on.
    #[must_use]
    pub const fn of(attachment: &'a Attachment) -> Self {
        Self { attachment, netns: None, vm: MachineFate::Lives }
    }
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
        self.delete(&Deletion::of(attachment), host, now).await
    }

    /// Serves a DEL: frees what the attachment holds on this host. If nothing is found under this host's name, it also
    /// frees what this host held under an earlier name, and, on a store of one kernel, what an earlier boot left.
    ///
    /// # Errors
    /// As [`Ipam::release`].
    pub async fn delete(
        &mut self,
        deletion: &Deletion<'_>,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let Ok(handle) = deletion.attachment.handle() else {
            return Ok(Released::default());
        };
        self.release_attachment(deletion, &handle, host, now).await
    }

    async fn release_attachment(
        &mut self,
        deletion: &Deletion<'_>,
        handle: &HandleId,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let Deletion { attachment, netns, .. } = *deletion;
        let judge = self.judge(host);
        let is_named = |allocation: &Allocation<'_>| attachment.owns(&allocation.fields);
        let ours = |allocation: &Allocation<'_>| {
            is_named(allocation) && judge.whose_is(&allocation.fields) == Whose::Ours
        };
        let mut released = self.release_where(handle, host, now, ours).await?;
        if !released.addresses.is_empty() {
            return Ok(Released { left: Vec::new(), ..released });
        }
        // Nothing went by the container's own handle: it may be a virtual machine's pod.
        let detached = self.detach(deletion, host, now).await?;
        if !detached.addresses.is_empty() {
            return Ok(detached);
        }
        let mut left = std::mem::take(&mut released.left);
        left.retain(|other| other.of_attachment(attachment));
        if !left.is_empty() {
            let before = |allocation: &Allocation<'_>| {
                is_named(allocation) && judge.may_end(&allocation.fields, netns)
            };
            released = self.release_where(handle, host, now, before).await?;
            if !released.addresses.is_empty() {
                return Ok(Released { left: Vec::new(), ..released });
            }
        }
        if !self.store.is_exclusive() {
            released = self.release_among(Among::OwnBlocks, handle, host, now, ours).await?;
        }
        Ok(Released { left, ..released })
    }

    /// Frees everything that a handle holds on this host.
    ///
    /// # Errors
    /// As [`Ipam::release`].
    pub async fn release_handle(
        &mut self,
        handle: &HandleId,
        host: &Host,
        now: Timestamp,
    ) -> Result<Released, Error> {
        let judge = self.judge(host);
        self.release_where(handle, host, now, |allocation| judge.whose_is(&allocation.fields) == Whose::Ours)
            .await
    }

    /// Frees those addresses of a handle that are meant.
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
            let counts = Counts::new(stored.as_ref(), self.is_alone(), attempts.so_far());
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
                let freed =
                    counts.change(&mut draft, handle, cidr, |block| free(block, handle, &policy, &meant));
                if let Some(block) = draft.block(cidr) {
                    released.left.extend(block.held_by(handle).map(|allocation| LeftAlone::of(&allocation)));
                }
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
    /// another node's, and that of a second machine of this name.
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
        let judge = self.judge(host);
        let mut gone: Vec<Attachment> = Vec::new();
        for entry in blocks {
            let wire: crate::api::calico::IpamBlock = entry.into();
            let Ok(block) = Block::from_wire(wire) else {
                continue;
            };
            for allocation in block.allocations() {
                if let Some(attachment) = attachment_of(network, &allocation.fields)
                    && judge.whose_is(&allocation.fields) == Whose::Ours
                    && !valid.contains(&(attachment.container_id.clone(), attachment.ifname.clone()))
                    && !gone.contains(&attachment)
                {
                    gone.push(attachment);
                }
            }
        }
        for gone in self.gone_of_machines(network, valid, host).await? {
            // Its machine keeps the address.
            self.detach(&Deletion::of(&gone), host, now).await?;
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
