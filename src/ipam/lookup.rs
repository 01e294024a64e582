//! Who has an address, and who uses addresses of another's blocks: asked by people.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::pools::Pool;
use super::{Block, Config, Error, Ipam, noted, owner_key, reservation};
use crate::api::Affinity;
use crate::api::calico::{AttributeFields, IpamBlock};
use crate::clock::Timestamp;
use crate::datastore::{Answer, Carved, CarvedFor, Datastore, Inspect, Key, Visit, Want};
use crate::net::Cidr;

/// Everything that is known about an address.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressReport {
    /// The address.
    pub address: IpAddr,
    /// The pool that it lies in, whatever its state.
    pub pool: Option<Pool>,
    /// The block that it lies in, if that exists.
    pub block: Option<Cidr>,
    /// Whom the block is kept for.
    pub affinity: Option<Affinity>,
    /// The network that it was carved out with, and what for, if that is something other than a block.
    pub carved: Option<(Cidr, CarvedFor)>,
    /// Names of the reservations that keep it from being handed out automatically.
    pub reservations: Vec<String>,
    /// Whether somebody has it.
    pub standing: Standing,
}

/// Whether somebody has an address.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Nobody has it.
    Free,
    /// It was released, and may not be used again yet.
    Cooling {
        /// When it was released.
        since: Timestamp,
    },
    /// Somebody has it.
    Held {
        /// By what it is freed; `None`: by its address alone.
        handle: Option<String>,
        /// Who uses it.
        active: BTreeMap<String, String>,
        /// Who may take it over.
        alternate: BTreeMap<String, String>,
        /// The block's number when it was assigned.
        sequence: u64,
    },
}

/// An address that a host uses from a block that is not its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Loan {
    /// The address.
    pub address: IpAddr,
    /// The host that uses it.
    pub borrower: String,
    /// The block.
    pub block: Cidr,
    /// Whom the block is kept for; `None`: nobody.
    pub owner: Option<Affinity>,
    /// Who uses it, in the words of its attributes.
    pub active: BTreeMap<String, String>,
}

/// All loans of a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loans {
    /// Ascending.
    pub loans: Vec<Loan>,
    /// Addresses that are in use, or cool down, without a host being noted: nobody knows whether they are borrowed.
    pub without_host: u64,
    /// What could not be read, as the store says it.
    pub damaged: Vec<String>,
}

impl<D: Datastore> Ipam<D> {
    /// The options in effect.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn config(&mut self) -> Result<Config, Error> {
        let settings =
            self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default();
        Ok(Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored)))
    }

    /// Looks an address up, also one of a disabled pool or of none. `now` judges whether it still cools down.
    ///
    /// # Errors
    /// When the store cannot be read, or the block of the address is damaged.
    pub async fn look_up(&mut self, address: IpAddr, now: Timestamp) -> Result<AddressReport, Error> {
        let single = Cidr::single(address);
        let wants = [Want::Settings, Want::Blocks(single), Want::CarvedCidrs(single)];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let entry = answers.next().map(Answer::objects).unwrap_or_default().into_iter().next();
        let carved = answers.next().map(Answer::cidrs).unwrap_or_default();
        let config = Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored));
        let reserving = settings.reservations.iter().map(|(_, reservation)| reservation);
        let mut report = AddressReport {
            address,
            pool: settings
                .pools
                .iter()
                .map(|(_, pool)| Pool::of(pool))
                .filter(|pool| pool.cidr.contains_address(address))
                .max_by_key(|pool| pool.cidr.prefix()),
            block: None,
            affinity: None,
            carved: self.carved_for(carved).await?,
            reservations: reserving
                .filter(|one| reservation::addresses(&one.spec).contains(address))
                .map(|one| one.name().to_owned())
                .collect(),
            standing: Standing::Free,
        };
        if let Some(entry) = entry {
            let mut block = whole(entry.into())?;
            block.collect(config.cooldown, now);
            report.block = Some(block.cidr());
            report.affinity = block.affinity().cloned();
            if let Some(allocation) = block.holder(address) {
                report.standing = standing(allocation.fields, block.sequence_of(allocation.ordinal));
            }
        }
        Ok(report)
    }

    /// The innermost of some carved networks that is no pool, and what it is for.
    async fn carved_for(&mut self, networks: Vec<Cidr>) -> Result<Option<(Cidr, CarvedFor)>, Error> {
        let wants: Vec<_> = networks.into_iter().map(|cidr| Want::Object(Key::Carved(cidr))).collect();
        let entries = self.store.read(&wants).await?.into_iter().filter_map(Answer::object);
        let owned = entries.filter_map(|entry| match entry.key {
            Key::Carved(cidr) => Some((cidr, entry.into::<Carved>().owner)),
            _ => None,
        });
        let own = owned.filter(|(_, owner)| !matches!(owner, CarvedFor::ChildPool(_)));
        Ok(own.max_by_key(|(cidr, _)| cidr.prefix()))
    }
}

impl<D: Inspect> Ipam<D> {
    /// Every address that a host uses from a block that is not its own.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn loans(&mut self) -> Result<Loans, Error> {
        let mut loans = Loans::default();
        let mut visit = |Visit { block, .. }: Visit| match block {
            Ok(wire) => match whole(wire) {
                Ok(block) => loans.look_at(&block),
                Err(damaged) => loans.damaged.push(damaged.to_string()),
            },
            Err(damaged) => loans.damaged.push(damaged.to_string()),
        };
        self.store.each_block(&mut visit).await?;
        loans.loans.sort_by_key(|loan| loan.address);
        Ok(loans)
    }
}

impl Loans {
    fn look_at(&mut self, block: &Block) {
        let owner = block.affinity().map(|affinity| affinity.name().as_str());
        for allocation in block.allocations() {
            match noted(&allocation.fields, owner_key::NODE) {
                None => self.without_host += 1,
                Some(node) if Some(node) == owner => {}
                Some(node) => self.loans.push(Loan {
                    address: allocation.address,
                    borrower: node.to_owned(),
                    block: block.cidr(),
                    owner: block.affinity().cloned(),
                    active: allocation.fields.active_owner.clone().unwrap_or_default(),
                }),
            }
        }
    }
}

fn whole(wire: IpamBlock) -> Result<Block, Error> {
    let cidr = wire.cidr;
    Block::from_wire(wire).map_err(|problem| Error::DamagedBlock { block: cidr, problem })
}

fn standing(fields: AttributeFields<'_>, sequence: u64) -> Standing {
    if let Some(since) = fields.released_at {
        return Standing::Cooling { since };
    }
    Standing::Held {
        handle: fields.handle_id.map(|handle| super::owner::sanitised(&handle).to_owned()),
        active: fields.active_owner.unwrap_or_default(),
        alternate: fields.alternate_owner.unwrap_or_default(),
        sequence,
    }
}
