use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use super::kinds::{Kind, Milo};
use super::manifest::Fault;
use super::render::counted;
use super::verbs::release::Kept;
use super::verbs::write::Declined;
use crate::{datastore, ipam};

/// Why a command line could not be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// An argument holds what cannot be meant.
    #[error("{what} is `{}`; expected {expected}", .found.escape_debug())]
    Argument {
        /// The option or argument.
        what: String,
        /// Its text.
        found: String,
        /// What is accepted.
        expected: String,
    },
    /// A text was to be an address.
    #[error("invalid IP address `{}`", .0.escape_debug())]
    Address(String),
    /// A verb was called without saying what to do.
    #[error("{verb} was told nothing to do: {expected}")]
    NothingToDo {
        /// The verb.
        verb: &'static str,
        /// What it needs.
        expected: &'static str,
    },
    /// A word that names no kind.
    #[error("there is no kind `{}`", .0.escape_debug())]
    UnknownKind(String),
    /// A kind of data that this version does not have.
    #[error("{what} is not served by this version")]
    NotServed {
        /// The kind of datastore or resource.
        what: String,
        /// What to use instead.
        instead: &'static str,
    },
    /// Named resources that do not exist.
    #[error("{kind} {} {}", quoted(.names), if .names.len() == 1 { "does not exist" } else { "do not exist" })]
    Missing {
        /// Their kind.
        kind: Kind,
        /// Their names.
        names: Vec<String>,
    },
    /// A verb that changes was asked to change what is only read.
    #[error("{0} is read-only: it is made by assigning addresses")]
    ReadOnly(Kind),
    /// A block, which shows as an allocation, was to be changed as if it were one.
    #[error("IPAllocation `{name}` is a block, kept for {}: it cannot be edited or deleted", .owner.as_ref().map_or_else(|| "nobody".to_owned(), |owner| format!("`{}`", owner.escape_debug())))]
    Projection {
        /// The allocation's name.
        name: String,
        /// Whom the block is kept for.
        owner: Option<String>,
    },
    /// Something was not carved, or what was carved not changed.
    #[error("{kind} `{}`: {error}", .name.escape_debug())]
    Carve {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// Why not.
        error: Box<ipam::CarveError>,
    },
    /// A field that a kind does not have.
    #[error("{kind} has no field `{}`{meant}", .field.escape_debug())]
    UnknownField {
        /// The kind.
        kind: &'static str,
        /// The field, as it was asked for.
        field: String,
        /// The fields that stand where it was looked for.
        known: String,
        /// What was meant, in words; empty: nobody knows.
        meant: String,
    },
    /// Files hold what cannot be stored. Nothing was changed.
    #[error("{}", faults(.0))]
    Manifest(Vec<Fault>),
    /// Files hold nothing.
    #[error("there is no resource in what was given")]
    NoResources,
    /// A verb does not go on with a resource.
    #[error("{kind} `{}`: {reason}", .name.escape_debug())]
    Declined {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// Why not.
        reason: Declined,
    },
    /// A rule between resources forbids it.
    #[error("{kind} `{}`: {rule}", .name.escape_debug())]
    Rule {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The rule.
        rule: ipam::RuleBroken,
    },
    /// What was to be deleted holds addresses.
    #[error("{kind} `{}` was not deleted: it holds {}", .name.escape_debug(), held(.holdings))]
    Holds {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// What it holds.
        holdings: ipam::Holdings,
    },
    /// Whoever was asked did not say yes.
    #[error("nothing was done")]
    NotConfirmed,
    /// A repair would drop commits that were answered, and nobody could be asked. Nothing was done.
    #[error(
        "the journal can be repaired only without some commits that may have been answered; nothing was done"
    )]
    WouldLose(Vec<String>),
    /// The options contradict each other.
    #[error("{0}")]
    Options(crate::api::validate::Problem),
    /// A network configuration does not say which store is meant.
    #[error("{}: {problem}", .path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file could not be read.
    #[error("could not read {}", .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("could not write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} {problem}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another plugin recorded addresses that no pool has. Nothing was imported.
    #[error("{} in no pool; nothing was imported", if .0.len() == 1 { "1 recorded address lies".to_owned() } else { format!("{} recorded addresses lie", .0.len()) })]
    Homeless(Vec<String>),
    /// An address was not released.
    #[error(transparent)]
    Release(#[from] ipam::ReleaseError<Kept>),
    /// A pool was not split.
    #[error(transparent)]
    Split(#[from] ipam::SplitError),
    /// The answer could not be written.
    #[error("could not write to standard output")]
    Output(#[source] io::Error),
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] ipam::Error),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] datastore::Error),
}

impl Error {
    /// The text for standard error: what happened, the numbers behind it, and the way out.
    pub(super) fn report(&self) -> String {
        let mut text = format!("error: {self}");
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        text.push('\n');
        for detail in self.details() {
            let _ = writeln!(text, "  {detail}");
        }
        if let Some(hint) = self.hint() {
            let _ = writeln!(text, "hint: {hint}");
        }
        text
    }

    fn details(&self) -> Vec<String> {
        match self {
            Error::Engine(error)
            | Error::Release(ipam::ReleaseError::Engine(error))
            | Error::Split(ipam::SplitError::Engine(error)) => error.details(),
            Error::UnknownKind(_) => {
                vec![format!("known: {}", Kind::ALL.map(Kind::singular).join(", "))]
            }
            Error::Carve { error, .. } => error.details(),
            Error::Manifest(faults) if faults.len() > 1 => faults.iter().map(ToString::to_string).collect(),
            Error::UnknownField { known, .. } => vec![format!("known: {known}")],
            Error::WouldLose(commits) => commits.iter().map(|commit| format!("lost: {commit}")).collect(),
            Error::Homeless(addresses) => vec![addresses.join(", ")],
            Error::Holds { holdings, .. } if holdings.cooling > 0 => {
                vec![format!("{} of them were released, and cool down", holdings.cooling)]
            }
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Engine(error)
            | Error::Release(ipam::ReleaseError::Engine(error))
            | Error::Split(ipam::SplitError::Engine(error)) => Some(error.hint()),
            Error::Release(error) => release_hint(error).map(str::to_owned),
            Error::Split(ipam::SplitError::Missing(_)) => {
                Some("run `host-affine get ippools` for those that exist".to_owned())
            }
            Error::Store(error) => Some(error.hint()),
            Error::NotServed { instead, .. } => Some((*instead).to_owned()),
            Error::Missing { kind: Kind::IpamConfiguration, .. } => Some(
                "every option has its default then; `host-affine ipam show --show-configuration` lists them"
                    .to_owned(),
            ),
            Error::Missing { kind: kind @ Kind::Milo(Milo::Allocation | Milo::Claim), .. } => Some(format!(
                "run `host-affine get {} --all-projects` for those that exist, and name theirs with `--project`",
                kind.word()
            )),
            Error::Missing { kind, .. } => {
                Some(format!("run `host-affine get {}` for those that exist", kind.word()))
            }
            Error::NothingToDo { verb, .. } => Some(format!("run `host-affine {verb} --help`")),
            Error::Carve { kind, error, .. } => Some(carve_hint(*kind, error)),
            Error::Projection { .. } => Some(
                "it goes when its host gives it up; `host-affine delete node` takes its blocks from a host"
                    .to_owned(),
            ),
            Error::Holds { holdings, .. } => Some(holds_hint(holdings).to_owned()),
            Error::Declined { reason, .. } => reason.hint().map(str::to_owned),
            Error::Rule { rule, .. } => Some(rule_hint(rule).to_owned()),
            Error::Homeless(_) => Some(
                "name the network's configuration with `--conf`, or make a pool for them with `host-affine apply`"
                    .to_owned(),
            ),
            Error::NotConfirmed => Some("answer `y`, or use `--yes`".to_owned()),
            Error::WouldLose(_) => Some(
                "copy the store, stop the containers that lost their address, and use `--yes`; or put a backup in an empty directory"
                    .to_owned(),
            ),
            Error::Split(_)
            | Error::ReadOnly(_)
            | Error::UnknownField { .. }
            | Error::Manifest(_)
            | Error::NoResources
            | Error::Argument { .. }
            | Error::Address(_)
            | Error::UnknownKind(_)
            | Error::Options(_)
            | Error::Configuration { .. }
            | Error::Read { .. }
            | Error::Write { .. }
            | Error::File { .. }
            | Error::Output(_) => None,
        }
    }
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    quoted.join(", ")
}

fn faults(faults: &[Fault]) -> String {
    match faults {
        [fault] => fault.to_string(),
        several => format!("{} faults; nothing was changed", several.len()),
    }
}

/// What blocks hold, in words.
pub(super) fn held(holdings: &ipam::Holdings) -> String {
    let mut parts = Vec::new();
    if holdings.blocks > 0 {
        let addresses = counted(holdings.addresses + holdings.cooling, "address", "addresses");
        parts.push(format!("{addresses} in {}", counted(holdings.blocks, "block", "blocks")));
    }
    let carved = holdings.carved;
    for (count, one, several) in [
        (carved.allocations, "IPAllocation", "IPAllocations"),
        (carved.claims, "IPClaim", "IPClaims"),
        (carved.child_pools, "child pool", "child pools"),
    ] {
        if count > 0 {
            parts.push(counted(count, one, several));
        }
    }
    parts.join(", ")
}

fn holds_hint(holdings: &ipam::Holdings) -> &'static str {
    match (holdings.blocks > 0, holdings.carved.total() > 0) {
        (_, false) => {
            "delete their containers first, or use `--force`: then the blocks give nothing more, and go with their last address"
        }
        (false, true) => {
            "delete what is carved out of it first, or use `--force`: then that keeps its ranges, without a pool"
        }
        (true, true) => {
            "delete containers and what is carved out of it first, or use `--force`: then the blocks give nothing more, and all that is left keeps its addresses"
        }
    }
}

fn release_hint(error: &ipam::ReleaseError<Kept>) -> Option<&'static str> {
    match error {
        ipam::ReleaseError::Declined(Kept::Alive { .. }) => {
            Some("delete its container, or use `--force`: then two may have the address")
        }
        ipam::ReleaseError::Declined(Kept::VirtualMachine { .. }) => {
            Some("use `--vm=NAMESPACE/NAME`, or `--force`")
        }
        ipam::ReleaseError::Reassigned { .. } => {
            Some("run `host-affine ipam check` again for a fresh report")
        }
        ipam::ReleaseError::Unassigned { in_pool: true, .. } => {
            Some("`host-affine ipam show --ip` says what is known of it")
        }
        ipam::ReleaseError::Unassigned { in_pool: false, .. } => {
            Some("run `host-affine get ippools` for the ranges that are managed here")
        }
        ipam::ReleaseError::Cooling(_)
        | ipam::ReleaseError::Declined(Kept::DryRun(_))
        | ipam::ReleaseError::Engine(_) => None,
    }
}

fn carve_hint(kind: Kind, error: &ipam::CarveError) -> String {
    match error {
        ipam::CarveError::Immutable(_) if kind == Kind::Milo(Milo::Pool) => NEW_POOL.to_owned(),
        error => error.hint(),
    }
}

const NEW_POOL: &str = "make a new pool, disable this one, and delete it when it is empty";

fn rule_hint(rule: &ipam::RuleBroken) -> &'static str {
    match rule {
        ipam::RuleBroken::Overlap { .. } => "choose another CIDR, or delete that pool first",
        ipam::RuleBroken::OtherBlocks { .. } => {
            "use the same `blockSize`, or wait until the last address of these blocks is released"
        }
        ipam::RuleBroken::Fixed { .. } | ipam::RuleBroken::LoadBalancer => NEW_POOL,
    }
}
