use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text cannot be a name in the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{}` {problem}", .name.escape_debug())]
pub struct InvalidName {
    what: &'static str,
    name: String,
    problem: &'static str,
}

fn check(what: &'static str, name: &str) -> Result<(), InvalidName> {
    let problem = if name.is_empty() {
        "is empty"
    } else if name.contains('/') {
        "holds a `/`, which separates names in a datastore"
    } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        "holds white space or a control character"
    } else {
        return Ok(());
    };
    Err(InvalidName { what, name: name.to_owned(), problem })
}

/// Checks the namespace of a virtual machine. Without a dot in it, a handle `<network>.vmi.<namespace>.<name>` leads back to
/// one namespace and name.
///
/// # Errors
/// When it is no name, or holds a dot.
pub fn check_vm_namespace(namespace: &str) -> Result<(), InvalidName> {
    let what = "virtual machine namespace";
    check(what, namespace)?;
    let problem = "holds a dot, which no Kubernetes namespace does";
    if namespace.contains('.') {
        Err(InvalidName { what, name: namespace.to_owned(), problem })
    } else {
        Ok(())
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes a name that may stand in a key of a datastore.
            ///
            /// # Errors
            /// When it is empty, or holds `/`, white space or a control character.
            pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
                let name = name.into();
                check($what, &name).map(|()| Self(name))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(name: String) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// A node's name as IPAM records it. Kept apart from the Kubernetes object of that name.
    HostName, "host name"
}

name_type! {
    /// The key of everything assigned to one attachment or virtual machine: `<network>.<container ID>` for an attachment.
    HandleId, "handle"
}

/// The owner that a block is kept for; on the wire `host:NAME` or `virtual:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Affinity {
    /// A node.
    Host(HostName),
    /// Not a node: `virtual:load-balancer` holds the addresses of services.
    Virtual(HostName),
}

impl Affinity {
    /// `host` or `virtual`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Affinity::Host(_) => "host",
            Affinity::Virtual(_) => "virtual",
        }
    }

    /// The name without its kind.
    #[must_use]
    pub const fn name(&self) -> &HostName {
        match self {
            Affinity::Host(name) | Affinity::Virtual(name) => name,
        }
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), self.name())
    }
}

impl FromStr for Affinity {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let invalid = |problem| InvalidName { what: "affinity", name: text.to_owned(), problem };
        match text.split_once(':') {
            Some(("host", name)) => HostName::new(name).map(Affinity::Host),
            Some(("virtual", name)) => HostName::new(name).map(Affinity::Virtual),
            _ => Err(invalid("starts with neither `host:` nor `virtual:`")),
        }
    }
}

impl Serialize for Affinity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Affinity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_segment_of_a_key() {
        for bad in ["", "a/b", "../x", "a b", "a\n", "a\u{a0}b"] {
            assert!(HostName::new(bad).is_err(), "{bad:?} was taken");
        }
        assert_eq!(HandleId::new("a.b.c").expect("handle").to_string(), "a.b.c");
    }

    #[test]
    fn an_affinity_comes_back_from_its_text() {
        for text in ["host:node-1", "virtual:load-balancer", "host:a:b"] {
            assert_eq!(text.parse::<Affinity>().expect(text).to_string(), text);
        }
        for bad in ["node-1", "host:", "hosts:a", ""] {
            assert!(bad.parse::<Affinity>().is_err(), "{bad} was taken");
        }
    }
}
