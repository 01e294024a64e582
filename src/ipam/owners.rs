//! Who uses an address, and who may take it over: changed by themselves, while the address stays where it is.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::assign::checked;
use super::attempt::{Attempts, Next};
use super::block::{Block, Ordinal};
use super::draft::Draft;
use super::owner::{key, sanitised};
use super::policy::Policy;
use super::{Error, Ipam};
use crate::api::calico::{Attribute, AttributeFields};
use crate::api::{HandleId, HostName};
use crate::clock::Timestamp;
use crate::datastore::{Answer, Datastore, Want};
use crate::net::Cidr;

/// What is noted about an owner; empty: there is none.
pub type OwnerNotes = BTreeMap<String, String>;

/// What becomes of one owner of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerChange {
    /// It stays, and nothing is expected of it.
    Leave,
    /// It becomes another, or nobody where that is empty, if it is who is expected.
    Become(OwnerNotes, Expected),
}

/// Who an owner must be for a change to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Whoever it is.
    Anybody,
    /// There must be none.
    Nobody,
    /// A pod, by namespace and name.
    Pod(String, String),
}

/// Which of the two owners of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who uses it.
    Active,
    /// Who may take it over, or had it before.
    Alternate,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Active => "active",
            Side::Alternate => "alternate",
        })
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Anybody => f.write_str("anybody"),
            Expected::Nobody => f.write_str("nobody"),
            Expected::Pod(namespace, name) => {
                write!(f, "pod {}/{}", namespace.escape_debug(), name.escape_debug())
            }
        }
    }
}

impl Expected {
    /// The pod that notes name, or nobody.
    #[must_use]
    pub fn of(notes: &OwnerNotes) -> Self {
        match (notes.get(key::NAMESPACE), notes.get(key::POD)) {
            (Some(namespace), Some(name)) => Expected::Pod(namespace.clone(), name.clone()),
            _ if notes.is_empty() => Expected::Nobody,
            _ => Expected::Anybody,
        }
    }

    /// Whether an owner is who is expected.
    #[must_use]
    pub fn is(&self, notes: &OwnerNotes) -> bool {
        match self {
            Expected::Anybody => true,
            Expected::Nobody => notes.is_empty(),
            Expected::Pod(namespace, name) => {
                notes.get(key::NAMESPACE) == Some(namespace) && notes.get(key::POD) == Some(name)
            }
        }
    }
}

/// Why owners were not changed. Nothing was.
#[derive(Debug, thiserror::Error)]
pub enum OwnersError {
    /// Nobody has the address: it is free, or cools down.
    #[error("{0} is not assigned")]
    Unassigned(IpAddr),
    /// The address belongs to another handle.
    #[error("{address} is not assigned to handle `{handle}`{}", found.as_ref().map_or_else(String::new, |found| format!(": it belongs to `{}`", found.escape_debug())))]
    OtherHandle {
        /// The address.
        address: IpAddr,
        /// The handle that was meant.
        handle: HandleId,
        /// The handle that has it, if it is noted.
        found: Option<String>,
    },
    /// An owner is not who was expected.
    #[error("the {side} owner of {address} is {found}, not {expected}")]
    OtherOwner {
        /// The address.
        address: IpAddr,
        /// Which owner.
        side: Side,
        /// Who was expected.
        expected: Box<Expected>,
        /// Who it is.
        found: Box<Expected>,
    },
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl<D: Datastore> Ipam<D> {
    /// Changes the owners of an address of a handle, both in one commit. Its pool may be disabled, or gone: the address is
    /// its owner's all the same. The number that the address was assigned at stays.
    ///
    /// # Errors
    /// When nobody has the address, another handle has it, or an owner is not who was expected.
    ///
    /// # Source
    /// The reference engine's `SetOwnerAttributes`, save that it refuses addresses of disabled pools.
    pub async fn set_owners(
        &mut self,
        address: IpAddr,
        handle: &HandleId,
        active: &OwnerChange,
        alternate: &OwnerChange,
        now: Timestamp,
    ) -> Result<(), OwnersError> {
        let mut attempts = Attempts::default();
        loop {
            let wants = [Want::Settings, Want::Blocks(Cidr::single(address))];
            let mut answers = self.store.read(&wants).await.map_err(Error::from)?.into_iter();
            let settings = answers.next().map(Answer::settings).unwrap_or_default();
            let entry = answers.next().map(Answer::objects).unwrap_or_default().into_iter().next();
            let nobody = HostName::new("-").map_err(Error::from)?;
            let policy = Policy::new(settings, None, &nobody, now);
            let entry = entry.ok_or(OwnersError::Unassigned(address))?;
            let (revision, block) = checked(entry, &policy)?;
            let mut draft = Draft::default();
            change(draft.load_block(revision, block), address, handle, active, alternate)?;
            if self.write(draft, &policy.reserved, &mut attempts).await? == Next::Done {
                return Ok(());
            }
        }
    }
}

/// Changes the owners of an address in its block, if they are who is expected.
fn change(
    block: &mut Block,
    address: IpAddr,
    handle: &HandleId,
    active: &OwnerChange,
    alternate: &OwnerChange,
) -> Result<(), OwnersError> {
    let holder = block.holder(address).filter(|holder| holder.fields.released_at.is_none());
    let holder = holder.ok_or(OwnersError::Unassigned(address))?;
    let found = holder.fields.handle_id.as_deref().map(sanitised);
    if found != Some(handle.as_str()) {
        let (handle, found) = (handle.clone(), found.map(str::to_owned));
        return Err(OwnersError::OtherHandle { address, handle, found });
    }
    let ordinal = holder.ordinal;
    let before = [
        (Side::Active, active, holder.fields.active_owner.clone()),
        (Side::Alternate, alternate, holder.fields.alternate_owner.clone()),
    ];
    let mut after = Vec::new();
    for (side, change, notes) in before {
        let notes = notes.unwrap_or_default();
        match change {
            OwnerChange::Leave => after.push(notes),
            OwnerChange::Become(_, expected) if !expected.is(&notes) => {
                let (expected, found) = (Box::new(expected.clone()), Box::new(Expected::of(&notes)));
                return Err(OwnersError::OtherOwner { address, side, expected, found });
            }
            OwnerChange::Become(becomes, _) => after.push(becomes.clone()),
        }
    }
    let (alternate, active) = (after.pop().unwrap_or_default(), after.pop().unwrap_or_default());
    write_owners(block, ordinal, handle, active, alternate);
    Ok(())
}

/// Writes both owners of an allocated ordinal. Another ordinal that shared its attribute keeps that.
pub(super) fn write_owners(
    block: &mut Block,
    ordinal: Ordinal,
    handle: &HandleId,
    active: OwnerNotes,
    alternate: OwnerNotes,
) {
    let some = |notes: OwnerNotes| (!notes.is_empty()).then_some(notes);
    let attribute = Attribute::new(&AttributeFields {
        handle_id: Some(handle.as_str().into()),
        active_owner: some(active),
        alternate_owner: some(alternate),
        released_at: None,
    });
    block.reassign(ordinal, &attribute);
}
