//! What the one who asks has already, and which wants that answers. Pure.

use std::net::IpAddr;

use super::assign::{Assign, Sharing, Wanted};
use super::block::{Allocation, Block, Ordinal};
use super::policy::Policy;
use super::pools::PoolChoice;
use super::{Error, Judge, Whose, owner};
use crate::api::HandleId;
use crate::net::{Cidr, Family};

/// An address that is had already.
pub(super) struct Mine {
    pub(super) address: IpAddr,
    pub(super) block: Cidr,
    ordinal: Ordinal,
}

/// What is had already.
pub(super) enum Held {
    /// By the attachment: each address answers one want.
    Own(Vec<Mine>),
    /// By a handle that others use too.
    Shared {
        /// The addresses.
        held: Vec<Mine>,
        /// The handle.
        handle: HandleId,
        /// The most that it may have of a family.
        most: u32,
        /// What this request adds to them, of each family.
        added: Vec<Family>,
        /// How many wants were answered with what was held, of each family.
        answered: Vec<Family>,
    },
}

impl Held {
    pub(super) fn new(sharing: Sharing<'_>, handle: &HandleId) -> Self {
        match sharing {
            Sharing::Attachment => Held::Own(Vec::new()),
            Sharing::Handle { handle, most } => Held::Shared {
                held: Vec::new(),
                handle: handle.clone(),
                most,
                added: Vec::new(),
                answered: Vec::new(),
            },
            Sharing::Machine(_) => Held::Shared {
                held: Vec::new(),
                handle: handle.clone(),
                most: 1,
                added: Vec::new(),
                answered: Vec::new(),
            },
        }
    }

    /// Takes in what is had in a block. An attachment's own addresses are renewed to its present boot and namespace.
    pub(super) fn take_in(
        &mut self,
        block: &mut Block,
        handle: &HandleId,
        request: &Assign<'_>,
        judge: &Judge<'_>,
    ) {
        match self {
            Held::Own(mine) => mine.extend(renew(block, handle, request, judge)),
            Held::Shared { held, .. } => {
                let cidr = block.cidr();
                let is_vm = matches!(request.sharing, Sharing::Machine(_));
                // A container may be called like a virtual machine's handle: its addresses are its own.
                let is_shared = |held: &Allocation<'_>| !is_vm || owner::is_virtual_machine(&held.fields);
                held.extend(block.held_by(handle).filter(is_shared).map(|allocation| Mine {
                    address: allocation.address,
                    block: cidr,
                    ordinal: allocation.ordinal,
                }));
            }
        }
    }

    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let (Held::Own(mine) | Held::Shared { held: mine, .. }) = self;
        mine.iter().map(|mine| mine.address).collect()
    }

    /// The address that answers a want of `all`, if one is had that does. Wants for a particular address come first.
    pub(super) fn answer(
        &mut self,
        wanted: &Wanted,
        all: &[Wanted],
        policy: &Policy,
    ) -> Result<Option<Mine>, Error> {
        let (held, handle, most, added, answered) = match self {
            Held::Own(mine) => return take_own(mine, wanted, all, policy),
            Held::Shared { held, handle, most, added, answered } => (held, handle, *most, added, answered),
        };
        let family = wanted.family;
        let of_family: Vec<&Mine> = held.iter().filter(|held| Family::of(held.address) == family).collect();
        if let Some(asked) = wanted.address
            && let Some(held) = of_family.iter().find(|held| held.address == asked)
        {
            return Ok(Some(held.copy()));
        }
        let count = |families: &[Family]| families.iter().filter(|&&other| other == family).count();
        if of_family.len() + count(added) < usize::try_from(most).unwrap_or(usize::MAX) {
            added.push(family);
            return Ok(None);
        }
        let next = count(answered);
        match (wanted.address, of_family.is_empty()) {
            (None, false) => {
                let held = of_family[next % of_family.len()].copy();
                answered.push(family);
                Ok(Some(held))
            }
            (asked, _) => Err(Error::HandleFull {
                asked,
                handle: handle.clone(),
                held: of_family.iter().map(|held| held.address).collect(),
                most,
            }),
        }
    }
}

impl Mine {
    fn copy(&self) -> Self {
        Self { address: self.address, block: self.block, ordinal: self.ordinal }
    }
}

/// The addresses that the attachment has in a block, renewed to the present boot and namespace.
fn renew(block: &mut Block, handle: &HandleId, request: &Assign<'_>, judge: &Judge<'_>) -> Vec<Mine> {
    let attachment = &request.owner.attachment;
    let cidr = block.cidr();
    let mut mine = Vec::new();
    let mut renewed = Vec::new();
    let is_own = |allocation: &Allocation<'_>| {
        attachment.owns(&allocation.fields) && judge.whose_is(&allocation.fields) == Whose::Ours
    };
    for allocation in block.held_by(handle).filter(is_own) {
        mine.push(Mine { address: allocation.address, block: cidr, ordinal: allocation.ordinal });
        if !request.owner.is_noted_in(&allocation.fields) {
            renewed
                .push((allocation.ordinal, request.owner.renewed(handle, &allocation.fields, request.now)));
        }
    }
    for (ordinal, attribute) in renewed {
        block.reassign(ordinal, &attribute);
    }
    mine
}

/// The address held already that answers a want of `all`, if there is one. Those that want a particular address are
/// asked first.
fn take_own(
    mine: &mut Vec<Mine>,
    wanted: &Wanted,
    all: &[Wanted],
    policy: &Policy,
) -> Result<Option<Mine>, Error> {
    let of_family = |held: &Mine| Family::of(held.address) == wanted.family;
    if let Some(asked) = wanted.address {
        if let Some(place) = mine.iter().position(|held| held.address == asked) {
            return Ok(Some(mine.swap_remove(place)));
        }
        // What answers another want is in nobody's way.
        let is_asked = |held: &Mine| all.iter().any(|wanted| wanted.address == Some(held.address));
        let undecided = all.iter().filter(|other| other.family == wanted.family && other.address.is_none());
        let mut others = mine.iter().filter(|held| of_family(held) && !is_asked(held));
        return match others.nth(undecided.count()) {
            Some(other) => Err(Error::HoldsAnother { asked, held: other.address }),
            None => Ok(None),
        };
    }
    // Of several networks' pools and several wants of one family, each gets its own back.
    mine.sort_by_key(|held| (held.block, held.ordinal));
    let chosen = |held: &Mine| match &wanted.choice {
        PoolChoice::Any => true,
        PoolChoice::OfNetwork(cidrs) => cidrs.iter().any(|cidr| cidr.contains_address(held.address)),
        PoolChoice::Requested(names) => policy.pool_of(held.block).is_some_and(|pool| {
            names.iter().any(|name| name == pool.name() || *name == pool.spec.cidr.to_string())
        }),
    };
    let best = mine.iter().position(|held| of_family(held) && chosen(held));
    let place = best.or_else(|| mine.iter().position(of_family));
    Ok(place.map(|place| mine.remove(place)))
}
