//! The fields of the kinds that people write: what is accepted, what absence means, and what it is for. Validation and
//! `explain` read the same table.

mod calico;
pub mod milo;

pub use calico::{IP_POOL, IP_RESERVATION, IPAM_CONFIGURATION, METADATA, NODE};

/// A kind that people write.
#[derive(Debug)]
pub struct Schema {
    /// Group and version.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Which names it may have.
    pub naming: Naming,
    /// The namespace that it is in; `None`: in none.
    pub namespace: Option<&'static str>,
    /// The fields of its specification.
    pub spec: &'static [Field],
    /// The fields of its status, which are read-only. Empty: not described.
    pub status: &'static [Field],
}

/// Which names a resource may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// This one alone.
    Singleton(&'static str),
    /// Lower-case letters, digits, `-` and `.`.
    DnsSubdomain,
    /// Whatever a host may be called.
    Host,
}

/// A field of an object.
#[derive(Debug)]
pub struct Field {
    /// Its name; `*`: any other.
    pub name: &'static str,
    /// What it holds.
    pub of: Type,
    /// Whether it must be given.
    pub required: bool,
    /// What absence means; empty: nothing.
    pub default: &'static str,
    /// What it is for.
    pub doc: &'static str,
}

/// What a field holds.
#[derive(Debug)]
pub enum Type {
    /// true or false.
    Bool,
    /// A whole number.
    Whole {
        /// The smallest.
        least: u32,
        /// The largest.
        most: u32,
    },
    /// Any text.
    Text,
    /// A time.
    Time,
    /// A network without host bits.
    Cidr,
    /// A network; host bits are masked away.
    CidrMasked,
    /// A network without host bits, or one address.
    CidrOrAddress,
    /// A condition on labels.
    Selector,
    /// One of these.
    Words(&'static [&'static str]),
    /// Several of a kind.
    List {
        /// Of what.
        of: &'static Type,
        /// How many at most.
        most: usize,
        /// Whether an entry may stand there once only.
        unique: bool,
    },
    /// Texts by name.
    Texts,
    /// An object of its own.
    Object(&'static [Field]),
    /// An object of a type that has a name.
    Named(&'static str, &'static [Field]),
    /// Whatever others keep there.
    Any,
}

impl Type {
    /// The word for it in `explain`.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Type::Bool => "boolean".to_owned(),
            Type::Whole { .. } => "integer".to_owned(),
            Type::Text
            | Type::Time
            | Type::Cidr
            | Type::CidrMasked
            | Type::CidrOrAddress
            | Type::Selector
            | Type::Words(_) => "string".to_owned(),
            Type::List { of, .. } => format!("[]{}", of.word()),
            Type::Texts => "map[string]string".to_owned(),
            Type::Named(name, _) => (*name).to_owned(),
            Type::Object(_) | Type::Any => "Object".to_owned(),
        }
    }

    /// What is accepted, in words; empty: anything of its kind.
    #[must_use]
    pub fn accepted(&self) -> String {
        match self {
            Type::Bool => "true, false".to_owned(),
            Type::Whole { least, most } => format!("{least} to {most}"),
            Type::Words(words) => words.join(", "),
            Type::Cidr => "a CIDR without host bits".to_owned(),
            Type::CidrMasked => "a CIDR; host bits are masked away".to_owned(),
            Type::CidrOrAddress => "a CIDR without host bits, or an address".to_owned(),
            Type::Selector => "a selector, such as all(), has(gpu) or zone == \"north\"".to_owned(),
            Type::List { of, .. } => match of.accepted() {
                each if each.is_empty() => each,
                each => format!("each {each}"),
            },
            Type::Text | Type::Time | Type::Texts | Type::Object(_) | Type::Named(..) | Type::Any => {
                String::new()
            }
        }
    }

    /// The fields of the object, or of the objects of the list, that it holds.
    #[must_use]
    pub fn fields(&self) -> &'static [Field] {
        match self {
            Type::Object(fields) | Type::Named(_, fields) => fields,
            Type::List { of, .. } => of.fields(),
            _ => &[],
        }
    }
}
