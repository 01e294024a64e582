//! The engine: who gets which address, and what is written down about it.
//!
//! It decides on values and never does I/O: it knows the [`Datastore`] trait, and no file, socket, environment
//! variable, clock or runtime. Time, host facts and labels are parameters.
//!
//! Every change is drafted from one consistent reading and committed as one batch ([`draft`]); when another caller was
//! faster, the whole attempt starts over from a new reading ([`attempt`]).

pub mod affinity;
mod assign;
mod attempt;
mod audit;
mod block;
pub mod carve;
mod carving;
mod census;
mod check;
mod config;
mod configure;
mod draft;
mod error;
mod excess;
mod facts;
mod give_back;
mod held;
mod import;
mod ledger;
mod liveness;
mod lookup;
pub mod machine;
mod migrate;
mod network;
mod own_addresses;
mod owner;
mod owners;
mod policy;
mod pools;
mod portrait;
mod preview;
mod provenance;
mod refusal;
mod release;
mod release_address;
mod release_affinity;
mod remove;
mod repair;
mod reservation;
mod resources;
mod search;
pub mod selector;
mod split;
mod survey;
mod usage;
pub mod walk;

use std::time::Duration;

use crate::datastore::Datastore;

pub use assign::{Assign, Assigned, AssignedAddress, Sharing, Wanted};
pub use attempt::CAS_ATTEMPTS_MAX;
pub use audit::{Finding, audit};
pub use block::{Allocation, Block, Ordinal};
pub use carving::{CarveError, IfExists, Outcome, PoolShown};
pub use census::{Census, Damage};
pub use check::Held;
pub use config::{AffinityRule, Config, MAX_BLOCKS_PER_HOST};
pub use configure::{Configuration, ConfigureError};
pub use error::{Error, Holder, Limit, PoolReport};
pub use facts::Facts;
pub use import::{Claim, HostLocalLease, HostLocalRecords, ImportSource, Look, Scan};
pub use liveness::{Blind, Inhabited, Judge, Life, NamespaceFile, Namespaces, Probe, Whose, process_of};
pub use lookup::{AddressReport, Loan, Loans, Standing};
pub use machine::{MachineFate, MachineIdentity, MachineReport, PromoteError, machine_handle};
pub use migrate::{LeaseFate, Migrate};
pub use network::{PoolAsked, gateways_of};
pub use own_addresses::{NoOwnAddresses, OwnAddresses};
pub use owner::{Attachment, HOST_ADDRESS_HANDLE, Owner, ValidAttachments, key as owner_key, noted};
pub use owners::{Expected, OwnerChange, OwnerNotes, OwnersError, Side};
pub use pools::{ChoiceError, Ineligible, Pool, PoolChoice};
pub use portrait::{Portrait, PortraitAddress, PortraitBlock};
pub use preview::{Outcome as PreviewOutcome, PoolVerdict, Preview, Source};
pub use provenance::{FileId, Netns, Noted, ProcessId};
pub use release::{Deletion, LeftAlone, Released};
pub use release_address::{Assignment, ReleaseError};
pub use release_affinity::{Emptiness, ReleaseAffinityError};
pub use remove::{CarvedCounts, Force, Holdings, RemoveError, Removed};
pub use reservation::{default_gateway, subnet_addresses, subnet_reservation_name};
pub use resources::{Edit, EditError, RuleBroken, Trial, check_selectors};
pub use split::{PARTS_MAX, SplitError};
pub use survey::{AddressFact, Survey};
pub use usage::{BlockUsage, PoolUsage, Usage};

use crate::api::HostName;
use crate::clock::Timestamp;

/// The host on whose behalf a call is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name in the store.
    pub name: HostName,
    /// The ID of its boot, where the kernel tells.
    pub boot: Option<String>,
    /// The beginning of that boot.
    pub booted: Option<Timestamp>,
    /// The time since that boot began, by a clock that cannot be set.
    pub uptime: Option<Duration>,
    /// The network namespace in which the call runs.
    pub netns: Option<FileId>,
    /// Is the name only a stand-in, because nothing tells it? Then boot and network namespace say whose something is.
    pub is_nameless: bool,
}

impl Host {
    /// A host of which nothing is known but its name.
    #[must_use]
    pub const fn named(name: HostName) -> Self {
        Self { name, boot: None, booted: None, uptime: None, netns: None, is_nameless: false }
    }
}

/// The public verbs over a datastore.
pub struct Ipam<D> {
    store: D,
    namespaces: &'static dyn Namespaces,
}

impl<D: std::fmt::Debug> std::fmt::Debug for Ipam<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ipam").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<D: Datastore> Ipam<D> {
    /// An engine over a store, which knows of no attachment whether it is alive.
    pub const fn new(store: D) -> Self {
        Self { store, namespaces: &Blind }
    }

    /// The same engine, with a view of the system's namespaces and processes.
    #[must_use]
    pub fn looking_at(self, namespaces: &'static dyn Namespaces) -> Self {
        Self { namespaces, ..self }
    }

    /// The judge of attachments for a host.
    pub fn judge<'a>(&self, host: &'a Host) -> Judge<'a> {
        Judge { host, one_kernel: self.store.is_one_kernel(), namespaces: self.namespaces }
    }

    /// The store.
    pub const fn store_mut(&mut self) -> &mut D {
        &mut self.store
    }

    /// The store, when the engine is done with it.
    pub fn into_store(self) -> D {
        self.store
    }
}
