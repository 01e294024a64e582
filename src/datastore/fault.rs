//! What can go wrong with a store that is reached through a network.

use super::Class;

/// What kept a server from doing what it was asked. Nothing was changed, unless the commit's own answer says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No server answered in time, or none that could.
    Unreachable,
    /// Who we are, or say that we are, may not do it.
    Denied,
    /// The two do not trust each other's certificates, or one speaks TLS and the other does not.
    Untrusted,
    /// What answers is no etcd, or one without its JSON gateway.
    NoGateway,
    /// The server's own limit of space is reached.
    Full,
    /// One object, or one change, is larger than the server takes.
    TooLarge,
    /// The options that say how it is reached are wrong.
    Options,
    /// The answer is one that no version gives.
    Odd,
}

impl Fault {
    /// What the caller may do next.
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Fault::Unreachable => Class::Retry,
            Fault::Denied | Fault::Untrusted | Fault::NoGateway | Fault::Options => Class::Refused,
            Fault::Full | Fault::TooLarge | Fault::Odd => Class::Broken,
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Fault::Unreachable => {
                "look whether the endpoints are right and a majority of etcd's members run; a runtime asks again by itself"
            }
            Fault::Denied => {
                "give the etcd user a role that may read and write `/calico/` and `/host-affine/`, and name the user and \
                 its password file (`username`, `passwordFile`)"
            }
            Fault::Untrusted => {
                "look whether the endpoint's scheme is right (`https` where etcd speaks TLS), whether the certificate \
                 authority's file vouches for the server under this very name, and whether etcd wants a client certificate"
            }
            Fault::NoGateway => {
                "name etcd's client URL, and start etcd without `--enable-grpc-gateway=false`; versions from 3.4 on have it"
            }
            Fault::Full => {
                "compact and defragment etcd (`etcdctl compact`, `etcdctl defrag`), or raise `--quota-backend-bytes`, then \
                 `etcdctl alarm disarm`; reading works meanwhile"
            }
            Fault::TooLarge => {
                "raise etcd's `--max-request-bytes` or `--max-txn-ops` to at least their defaults"
            }
            Fault::Options => "correct `ipam.datastore` of the network configuration, or the command line",
            Fault::Odd => "look whether something between here and etcd alters what is sent",
        }
    }

    /// What a message begins with; the server and the problem follow.
    pub(super) const fn headline(self) -> &'static str {
        match self {
            Fault::Unreachable => "could not reach etcd at",
            Fault::Denied => "not allowed by etcd at",
            Fault::Untrusted => "could not trust, or was not trusted by, etcd at",
            Fault::NoGateway => "no JSON gateway of etcd v3 at",
            Fault::Full => "no space left in etcd at",
            Fault::TooLarge => "too large for etcd at",
            Fault::Options => "etcd cannot be reached with",
            Fault::Odd => "no answer of etcd's came from",
        }
    }
}
