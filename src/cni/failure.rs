//! The error object.

use std::fmt;

use serde::Serialize;

use super::version::Version;

/// Why a call failed, as the runtime is told.
///
/// # Source
/// CNI 1.1.0, section 5, *Error*.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{msg}")]
pub struct Failure {
    /// What kind of failure it is.
    pub code: Code,
    /// What happened to whom, in one line.
    pub msg: String,
    /// The numbers and the way out. `None`: nothing to add.
    pub details: Option<String>,
}

impl Failure {
    /// A failure without details.
    pub fn new(code: Code, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: None }
    }

    /// The same with details, in place of those it had.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = Some(details.into());
        self
    }

    /// The network configuration says something that cannot be meant.
    pub fn config(problem: impl fmt::Display) -> Self {
        Self::new(Code::InvalidConfig, format!("network config: {problem}"))
    }

    /// The network configuration asks for something that this plugin does not have.
    pub fn unsupported(key: impl fmt::Display, value: impl fmt::Display) -> Self {
        Self::new(
            Code::UnsupportedField,
            format!("network config: `{key}` with value `{value}` is not supported"),
        )
    }

    /// An environment variable is missing or cannot be used; `msg` names it.
    pub fn environment(msg: impl Into<String>) -> Self {
        Self::new(Code::InvalidEnvironment, msg)
    }

    /// Standard input is not what it should be.
    pub fn decode(msg: impl Into<String>) -> Self {
        Self::new(Code::Decode, msg)
    }

    /// The error object. `version` is the configuration's, or the newest one when that is not known.
    ///
    /// Two phrases are put in other words: containerd takes a DEL whose error holds one of them for a success,
    /// and the address would be lost.
    #[must_use]
    pub fn render(&self, version: Version) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Object<'a> {
            cni_version: Version,
            code: u32,
            msg: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<String>,
        }
        let object = Object {
            cni_version: version,
            code: self.code.number(),
            msg: &unmistakable(&self.msg),
            details: self.details.as_deref().filter(|details| !details.is_empty()).map(unmistakable),
        };
        // Strings and a number cannot fail to be written.
        serde_json::to_string(&object).unwrap_or_default()
    }
}

fn unmistakable(text: &str) -> String {
    text.replace("not found", "missing").replace("no such file or directory", "file or directory is missing")
}

/// The kinds of failure. Below 100 they are the specification's, from 100 on this plugin's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 1: the configuration's version is not one of ours, or has no such verb.
    IncompatibleVersion,
    /// 2: a field, or a value of it, that this plugin does not have.
    UnsupportedField,
    /// 4: an environment variable is missing or wrong.
    InvalidEnvironment,
    /// 5: standard input could not be read, or the result not be written.
    Io,
    /// 6: standard input could not be decoded.
    Decode,
    /// 7: the network configuration is wrong.
    InvalidConfig,
    /// 11: a passing condition, such as a lock that is held for too long.
    TryAgainLater,
    /// 50: STATUS: ADD could not be served.
    NotAvailable,
    /// 100: the store cannot be reached, read or written.
    Store,
    /// 101: no address is free where this host may take one.
    NoFreeAddress,
    /// 102: none is free in blocks of this host, and strict affinity forbids others.
    StrictAffinity,
    /// 103: this host has as many blocks as it may.
    BlockLimit,
    /// 104: there is no pool.
    NoPool,
    /// 105: the pool is disabled.
    PoolDisabled,
    /// 106: no pool selects this host, namespace or use.
    PoolNotSelected,
    /// 107: the requested address belongs to another.
    AddressTaken,
    /// 108: the requested address lies outside the pools.
    AddressOutsidePools,
    /// 109: the requested address is a network's own: network, gateway or broadcast address.
    AddressReserved,
    /// 110: the store holds something that cannot be.
    StoreDamaged,
    /// 111: a pool of the configuration contradicts a stored one.
    PoolsConflict,
    /// 112: CHECK: the attachment does not have what it was given.
    NotAsGiven,
    /// 113: a virtual machine cannot migrate to this pod.
    NoMigration,
    /// 114: another virtual machine has the same handle.
    VmHandleTaken,
    /// 199: a fault of this program.
    Internal,
}

impl Code {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Code::IncompatibleVersion => 1,
            Code::UnsupportedField => 2,
            Code::InvalidEnvironment => 4,
            Code::Io => 5,
            Code::Decode => 6,
            Code::InvalidConfig => 7,
            Code::TryAgainLater => 11,
            Code::NotAvailable => 50,
            Code::Store => 100,
            Code::NoFreeAddress => 101,
            Code::StrictAffinity => 102,
            Code::BlockLimit => 103,
            Code::NoPool => 104,
            Code::PoolDisabled => 105,
            Code::PoolNotSelected => 106,
            Code::AddressTaken => 107,
            Code::AddressOutsidePools => 108,
            Code::AddressReserved => 109,
            Code::StoreDamaged => 110,
            Code::PoolsConflict => 111,
            Code::NotAsGiven => 112,
            Code::NoMigration => 113,
            Code::VmHandleTaken => 114,
            Code::Internal => 199,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_object_with_version_code_and_message() {
        let failure =
            Failure::new(Code::NoFreeAddress, "no free address for host `a`").with_details("a\n\"b\"");
        assert_eq!(
            failure.render(Version::V1_0_0),
            r#"{"cniVersion":"1.0.0","code":101,"msg":"no free address for host `a`","details":"a\n\"b\""}"#
        );
        assert_eq!(
            Failure::decode("x").render(Version::LATEST),
            r#"{"cniVersion":"1.1.0","code":6,"msg":"x"}"#,
            "no details, no member"
        );
    }

    #[test]
    fn no_text_is_one_that_containerd_takes_for_a_success() {
        let failure =
            Failure::new(Code::Store, "open /x: no such file or directory").with_details("block not found");
        let text = failure.render(Version::LATEST);
        assert!(!text.contains("not found") && !text.contains("no such file or directory"), "{text}");
    }
}
