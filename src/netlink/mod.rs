//! Questions to the kernel about interfaces and their addresses. Reads only: no interface here is ours to change.

mod namespaces;
mod rtnetlink;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

pub use rtnetlink::Rtnetlink;

/// Who knows what addresses an interface has: the kernel ([`Rtnetlink`]) or a table ([`Fixed`]).
pub trait Links {
    /// The addresses of the interface `ifname` in the network namespace whose file is `netns`, each with the
    /// prefix length the interface has it with, link-local ones included.
    ///
    /// # Errors
    /// When the question could not be answered. That namespace or interface is not there is an answer.
    fn addresses_of(&self, netns: &Path, ifname: &str) -> Result<Answer, Error>;

    /// The addresses of all interfaces of the namespace this process is in, ascending, each once; without the
    /// loopback (`127.0.0.0/8`, `::1`) and link-local ones (`169.254.0.0/16`, `fe80::/10`), which every host has.
    ///
    /// # Errors
    /// When the question could not be answered.
    fn host_addresses(&self) -> Result<Vec<IpAddr>, Error>;

    /// The addresses of all interfaces in all network namespaces of this host: those under `/run/netns`, and those of
    /// every process.
    ///
    /// # Errors
    /// When one of them could not be looked at: then an address that was not found may be there.
    fn addresses_everywhere(&self) -> Result<BTreeSet<IpAddr>, Error>;
}

/// What is known of an interface in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The namespace is not there, is none, or is not ours to enter. Nothing is known of the interface.
    NoNamespace {
        /// What the kernel said to the attempt, for the log.
        reason: Errno,
    },
    /// The namespace has no interface of that name.
    NoInterface,
    /// The interface has these addresses, each with its prefix length; maybe none.
    Addresses(Vec<(IpAddr, u8)>),
}

/// Why the kernel gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no asking: no thread, no socket, no entering of a namespace that is there.
    #[error("could not begin to ask the kernel for {question}")]
    Unasked {
        /// What was to be asked.
        question: Question,
        /// What stood in the way.
        source: io::Error,
    },
    /// The kernel refused, or what it said makes no sense.
    #[error("could not learn {question} from the kernel")]
    Unanswered {
        /// What was asked.
        question: Question,
        /// What came instead of an answer.
        source: io::Error,
    },
}

/// What was asked, for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// [`Links::addresses_of`].
    Interface {
        /// The file of the network namespace.
        netns: PathBuf,
        /// The name of the interface.
        ifname: String,
    },
    /// [`Links::host_addresses`].
    Host,
    /// [`Links::addresses_everywhere`].
    Everywhere {
        /// The namespace, or the directory of namespaces, that gave no answer.
        path: PathBuf,
    },
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Interface { netns, ifname } => {
                write!(f, "the addresses of `{ifname}` in network namespace `{}`", netns.display())
            }
            Question::Host => f.write_str("the addresses of the host"),
            Question::Everywhere { path } => write!(f, "the addresses in `{}`", path.display()),
        }
    }
}

/// Answers from a table, so that what depends on the kernel's can be tried without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// The namespaces there are, and the interfaces of each.
    pub namespaces: BTreeMap<PathBuf, BTreeMap<String, Vec<(IpAddr, u8)>>>,
    /// The addresses of the host, given as they are.
    pub host: Vec<IpAddr>,
}

impl Links for Fixed {
    fn addresses_of(&self, netns: &Path, ifname: &str) -> Result<Answer, Error> {
        let Some(interfaces) = self.namespaces.get(netns) else {
            return Ok(Answer::NoNamespace { reason: Errno::ENOENT });
        };
        Ok(interfaces.get(ifname).map_or(Answer::NoInterface, |found| Answer::Addresses(found.clone())))
    }

    fn host_addresses(&self) -> Result<Vec<IpAddr>, Error> {
        Ok(self.host.clone())
    }

    fn addresses_everywhere(&self) -> Result<BTreeSet<IpAddr>, Error> {
        let of_namespaces = self.namespaces.values().flat_map(BTreeMap::values).flatten();
        Ok(of_namespaces.map(|(address, _)| *address).chain(self.host.iter().copied()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_no_namespace_from_no_interface_from_no_address() {
        let interfaces = BTreeMap::from([("eth0".to_owned(), Vec::new())]);
        let fixed = Fixed { namespaces: BTreeMap::from([("/ns".into(), interfaces)]), ..Fixed::default() };
        let answer =
            |netns: &str, ifname| fixed.addresses_of(Path::new(netns), ifname).expect("a table answers");
        assert_eq!(answer("/other", "eth0"), Answer::NoNamespace { reason: Errno::ENOENT });
        assert_eq!(answer("/ns", "eth1"), Answer::NoInterface);
        assert_eq!(answer("/ns", "eth0"), Answer::Addresses(Vec::new()));
    }

    #[test]
    fn an_error_says_what_was_asked() {
        let question = Question::Interface { netns: "/run/netns/a".into(), ifname: "eth0".to_owned() };
        let source = io::Error::from(Errno::EMFILE);
        assert_eq!(
            Error::Unasked { question, source }.to_string(),
            "could not begin to ask the kernel for the addresses of `eth0` in network namespace `/run/netns/a`"
        );
        let source = io::Error::from(Errno::ENOBUFS);
        assert_eq!(
            Error::Unanswered { question: Question::Host, source }.to_string(),
            "could not learn the addresses of the host from the kernel"
        );
    }
}
