use crate::api::validate::Problem;
use crate::datastore::ProjectName;
use crate::ipam::Error;
use crate::ipam::carve::{Clash, Exhausted};
use crate::ipam::pools::Ineligible;
use crate::net::Family;

/// Why something was not carved, changed or deleted. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CarveError {
    /// There is no such pool, or it is another project's and not shared.
    #[error("there is no pool `{}` that serves this project", pool.escape_debug())]
    PoolMissing {
        /// The pool asked for.
        pool: String,
    },
    /// No pool that serves the project has the labels.
    #[error("no pool that serves this project matches `spec.poolSelector`")]
    NoPoolSelected,
    /// The pool is of another family.
    #[error("`spec.ipFamily` is {asked}, and pool `{pool}` hands out {hands_out}")]
    Family {
        /// The pool.
        pool: String,
        /// The family asked for.
        asked: Family,
        /// The pool's.
        hands_out: Family,
    },
    /// Nothing new may come from the pool.
    #[error("pool `{pool}` {reason}")]
    PoolClosed {
        /// The pool.
        pool: String,
        /// Why.
        reason: Ineligible,
    },
    /// The pool gives no network of that length.
    #[error("pool `{pool}`: {bounds}")]
    Length {
        /// The pool.
        pool: String,
        /// What it gives.
        bounds: crate::api::milo::OutOfBounds,
    },
    /// No network of that length is free.
    #[error("pool `{pool}` is exhausted: {exhausted}")]
    Exhausted {
        /// The pool.
        pool: String,
        /// What is left, and what breaks it up.
        exhausted: Box<Exhausted>,
    },
    /// The network that was asked for lies outside, or somebody has some of it.
    #[error("pool `{pool}`: {clash}")]
    Clash {
        /// The pool.
        pool: String,
        /// What is in the way.
        clash: Clash,
    },
    /// What was asked for contradicts what stands there.
    #[error("{} cannot be changed so", if .0.len() == 1 { "a field" } else { "fields" })]
    Immutable(Vec<Problem>),
    /// What was asked for cannot be.
    #[error("the manifest is not valid")]
    Invalid(Vec<Problem>),
    /// It was to be made, and is there.
    #[error("it exists already")]
    Exists,
    /// It was to be deleted or replaced, and is not there.
    #[error("it does not exist")]
    Missing,
    /// A claim holds the allocation.
    #[error("IPClaim `{}` holds it", .0.name.escape_debug())]
    Bound(ProjectName),
    /// A resource says which state it was read as, and is in another.
    #[error("it was changed since it was read (resource version {read}, now {now})")]
    Changed {
        /// What was read.
        read: String,
        /// What it is now.
        now: String,
    },
    /// The pool is not the project's that wants to change it.
    #[error("it belongs to {}", .owner.as_ref().map_or_else(|| "no project".to_owned(), |owner| format!("project `{}`", owner.escape_debug())))]
    OthersPool {
        /// The project that it belongs to, if it does to one.
        owner: Option<String>,
    },
    /// A root pool overlaps another.
    #[error(transparent)]
    Rule(#[from] crate::ipam::RuleBroken),
    /// The datastore applies batches in order.
    #[error("this datastore has no transactions, so that nothing can be carved out of its pools")]
    NotAtomic,
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl CarveError {
    /// The facts behind it, a line each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        match self {
            CarveError::Immutable(problems) | CarveError::Invalid(problems) => {
                problems.iter().map(ToString::to_string).collect()
            }
            CarveError::Exhausted { exhausted, .. } => {
                exhausted.in_the_way.iter().map(ToString::to_string).collect()
            }
            CarveError::Engine(error) => error.details(),
            _ => Vec::new(),
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            CarveError::PoolMissing { .. } | CarveError::NoPoolSelected => {
                "run `host-affine get ippools.ipam.miloapis.com` for those that exist".into()
            }
            CarveError::Family { .. } => "name a pool of that family".into(),
            CarveError::PoolClosed { .. } => "name another pool, or open this one again".into(),
            CarveError::Length { .. } => "ask for a length that the pool gives".into(),
            CarveError::Exhausted { exhausted, .. } => match exhausted.largest_free_prefix {
                Some(largest) => format!("ask for a /{largest} or longer, or delete what is in the way"),
                None => "delete allocations, or name another pool".into(),
            },
            CarveError::Clash { .. } => "ask for another CIDR, or leave it to the pool".into(),
            CarveError::Immutable(_) => "delete it and make it again: it will get another CIDR".into(),
            CarveError::Invalid(_) => "correct the manifest".into(),
            CarveError::Exists => "use `apply`, or another name".into(),
            CarveError::Missing => "run `host-affine get` for those that exist".into(),
            CarveError::Bound(claim) => format!("delete IPClaim {claim} instead"),
            CarveError::Changed { .. } => "read it again".into(),
            CarveError::OthersPool { .. } => "leave `--project` out, or name that project".into(),
            CarveError::Rule(_) => "choose a range that no pool has".into(),
            CarveError::NotAtomic => "use a file store or etcd".into(),
            CarveError::Engine(error) => error.hint(),
        }
    }
}
