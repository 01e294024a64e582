//! Reads JSON as Go programs do, since that is what writes and reads network configurations.
//!
//! [`document`] checks a whole text once, without recursion; what comes out of it is looked at in place, and only
//! where somebody asks. So a megabyte of another plugin's settings costs one pass and no memory.
//!
//! As in Go: keys match in any letter case, the last of two equal keys counts, `null` is as good as absent, broken UTF-8
//! and lone surrogates become U+FFFD, values nest up to 10,000 deep, and neither a byte order mark nor anything behind
//! the value is allowed.

use std::borrow::Cow;
use std::fmt;

mod check;
mod scan;
mod text;

use scan::Scanner;

pub use check::{SyntaxError, document};

/// A value inside a checked document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Exactly the value, without white space around it. Holds at least one byte.
    text: &'a [u8],
}

impl<'a> Raw<'a> {
    /// What kind of value it is.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.text.first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    /// The string. `None`: it is something else.
    #[must_use]
    pub fn string(self) -> Option<Cow<'a, str>> {
        let inner = self.text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        Some(text::decode(inner))
    }

    /// The truth value. `None`: it is something else.
    #[must_use]
    pub fn bool(self) -> Option<bool> {
        match self.text {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The whole number, 0 or more. `None`: it is something else, has a fraction or exponent, or does not fit.
    #[must_use]
    pub fn unsigned(self) -> Option<u64> {
        std::str::from_utf8(self.text).ok()?.parse().ok()
    }

    /// The list. `None`: it is something else.
    #[must_use]
    pub fn array(self) -> Option<impl Iterator<Item = Raw<'a>>> {
        let mut scanner = Scanner::new(self.text);
        scanner.open(b'[').then(|| std::iter::from_fn(move || scanner.element()))
    }

    /// The members. `None`: it is something else.
    #[must_use]
    pub fn object(self) -> Option<Object<'a>> {
        let mut scanner = Scanner::new(self.text);
        scanner.open(b'{').then(|| {
            let members = std::iter::from_fn(|| scanner.member());
            Object { members: members.map(|(key, value)| (text::decode(key), value)).collect() }
        })
    }

    /// The value as it is written; broken UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn source(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }
}

impl fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source())
    }
}

/// The members of an object, in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Raw<'a>)>,
}

impl<'a> Object<'a> {
    /// A member's value; `null` counts as absent.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Raw<'a>> {
        self.get_or_null(key).filter(|value| value.kind() != Kind::Null)
    }

    /// A member's value, `null` or not. The key in its own letter case is preferred to others.
    #[must_use]
    pub fn get_or_null(&self, key: &str) -> Option<Raw<'a>> {
        let mut other_case = None;
        for (name, value) in self.members.iter().rev().filter(|(name, _)| name.len() == key.len()) {
            if name == key {
                return Some(*value);
            }
            if other_case.is_none() && name.eq_ignore_ascii_case(key) {
                other_case = Some(*value);
            }
        }
        other_case
    }

    /// All members, `null` ones and repeated ones included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Raw<'a>)> {
        self.members.iter().map(|(key, value)| (key.as_ref(), *value))
    }
}

/// The kinds of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list.
    Array,
    /// An object.
    Object,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Null => "null",
            Kind::Bool => "true or false",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "a list",
            Kind::Object => "an object",
        })
    }
}

#[cfg(test)]
mod tests;
