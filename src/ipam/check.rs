//! What an attachment holds: asked by CHECK and by people.

use std::net::IpAddr;

use super::assign::Progress;
use super::machine::{held_by_machine, noted};
use super::owner::Attachment;
use super::pools::Pool;
use super::{Block, Error, Host, Ipam, Whose};
use crate::api::HandleId;
use crate::api::calico::IpamBlock;
use crate::datastore::{Answer, Datastore, Key, Machine, MachinesOf, Want};

/// What an attachment holds, and the pools of the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The addresses of the attachment, ascending.
    pub addresses: Vec<IpAddr>,
    /// Every pool.
    pub pools: Vec<Pool>,
}

impl<D: Datastore> Ipam<D> {
    /// Whether what every call needs can be read.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn readable(&mut self) -> Result<(), Error> {
        self.store.read(&[Want::Settings]).await?;
        Ok(())
    }

    /// Whether a request could be served now. Changes nothing.
    ///
    /// # Errors
    /// What the request would be refused with.
    pub async fn could_assign(&mut self, request: &super::Assign<'_>) -> Result<(), Error> {
        // A container that cannot exist holds nothing, so that a free address is looked for.
        let mut owner = request.owner.clone();
        owner.attachment.container_id = String::from("-");
        self.plan(&super::Assign { owner: &owner, ..*request }, &mut Progress::default())
            .await?
            .ready()
            .map(drop)
    }

    /// The addresses of the virtual machines that an attachment is on record for.
    async fn held_by_machine(
        &mut self,
        attachment: &Attachment,
        container: &HandleId,
        host: &Host,
    ) -> Result<Vec<IpAddr>, Error> {
        let judge = self.judge(host);
        let read = self.store.read(&[Want::Object(Key::MachinesOf(container.clone()))]).await?.pop();
        let machines = read.and_then(Answer::object).map(|entry| entry.into::<MachinesOf>().machines);
        let mut addresses = Vec::new();
        for handle in machines.unwrap_or_default() {
            let wants = [Want::Object(Key::Machine(handle.clone())), Want::Held(handle.clone())];
            let mut answers = self.store.read(&wants).await?.into_iter();
            let record =
                answers.next().and_then(Answer::object).map(crate::datastore::Entry::into::<Machine>);
            let is_its = record.is_some_and(|machine| {
                machine.attachments.iter().any(|known| {
                    known.container_id == attachment.container_id
                        && known.ifname == attachment.ifname
                        && judge.whose(&noted(known)) == Whose::Ours
                })
            });
            if !is_its {
                continue;
            }
            for entry in answers.next().map(Answer::held).unwrap_or_default().1 {
                let wire: IpamBlock = entry.into();
                let cidr = wire.cidr;
                let block =
                    Block::from_wire(wire).map_err(|problem| Error::DamagedBlock { block: cidr, problem })?;
                addresses.extend(held_by_machine(&block, &handle).map(|allocation| allocation.address));
            }
        }
        Ok(addresses)
    }

    /// Looks up what an attachment holds on a host; a virtual machine's pod holds what the machine does. Changes nothing.
    ///
    /// # Errors
    /// When the store cannot be read, or a block of the attachment is damaged.
    pub async fn held(&mut self, attachment: &Attachment, host: &Host) -> Result<Held, Error> {
        let handle = attachment.handle()?;
        let judge = self.judge(host);
        let answers = self.store.read(&[Want::Settings, Want::Held(handle.clone())]).await?;
        let mut answers = answers.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let (_, blocks) = answers.next().map(Answer::held).unwrap_or_default();
        let mut addresses = Vec::new();
        for entry in blocks {
            let wire: IpamBlock = entry.into();
            let cidr = wire.cidr;
            let block =
                Block::from_wire(wire).map_err(|problem| Error::DamagedBlock { block: cidr, problem })?;
            let own = block.held_by(&handle).filter(|allocation| {
                attachment.owns(&allocation.fields) && judge.whose_is(&allocation.fields) == Whose::Ours
            });
            addresses.extend(own.map(|allocation| allocation.address));
        }
        if addresses.is_empty() {
            addresses = self.held_by_machine(attachment, &handle, host).await?;
        }
        addresses.sort_unstable();
        let pools = settings.pools.iter().map(|(_, pool)| Pool::of(pool)).collect();
        Ok(Held { addresses, pools })
    }
}
