use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use super::kinds::Kind;
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
    /// Named resources that do not exist. The answer is no.
    #[error("{kind} {} {}", quoted(.names), if .names.len() == 1 { "does not exist" } else { "do not exist" })]
    Missing {
        /// Their kind.
        kind: Kind,
        /// Their names.
        names: Vec<String>,
    },
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
    /// Whether it is an answer, and that is no.
    pub(super) fn is_no(&self) -> bool {
        matches!(self, Error::Missing { .. })
    }

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
            Error::Engine(error) => error.details(),
            Error::UnknownKind(_) => {
                vec![format!("known: {}", Kind::ALL.map(|kind| kind.info().singular).join(", "))]
            }
            _ => Vec::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Engine(error) => Some(error.hint()),
            Error::Store(error) => Some(error.hint()),
            Error::NotServed { instead, .. } => Some((*instead).to_owned()),
            Error::Missing { kind: Kind::IpamConfiguration, .. } => Some(
                "every option has its default then; `host-affine ipam show --show-configuration` lists them"
                    .to_owned(),
            ),
            Error::Missing { kind, .. } => {
                Some(format!("run `host-affine get {}` for those that exist", kind.info().plural))
            }
            Error::NothingToDo { verb, .. } => Some(format!("run `host-affine {verb} --help`")),
            Error::Argument { .. }
            | Error::Address(_)
            | Error::UnknownKind(_)
            | Error::Options(_)
            | Error::Configuration { .. }
            | Error::Read { .. }
            | Error::Output(_) => None,
        }
    }
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    quoted.join(", ")
}
