//! Members with their paths, so that every complaint names what it is about.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use crate::cni::failure::Failure;
use crate::cni::json::{Kind, Object, Raw};
use crate::cni::suggest;
use crate::net::{Cidr, parse_address};

/// Where a value stands, such as `ipam.pools[2].cidr`. Nothing is written out until it is needed.
#[derive(Clone, Copy)]
pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                let dot = if self.parent.is_some() { "." } else { "" };
                let quote = if key.contains('.') { "\"" } else { "" };
                write!(f, "{dot}{quote}{}{quote}", key.escape_debug())
            }
        }
    }
}

/// An object and where it stands.
pub(super) struct Section<'a, 'p> {
    object: Object<'a>,
    /// `None`: the whole configuration.
    path: Option<Path<'p>>,
}

impl<'a> Section<'a, 'static> {
    /// The whole configuration.
    pub(super) fn root(object: Object<'a>) -> Self {
        Self { object, path: None }
    }
}

impl<'a> Section<'a, '_> {
    /// A member; `null` counts as absent.
    pub(super) fn get<'s>(&'s self, key: &'s str) -> Option<Value<'a, 's>> {
        self.object.get(key).map(|raw| self.value(key, raw))
    }

    /// A member; `null` and the empty string count as absent.
    pub(super) fn given<'s>(&'s self, key: &'s str) -> Option<Value<'a, 's>> {
        self.get(key).filter(|value| value.raw.string().as_deref() != Some(""))
    }

    /// A member, `null` or not.
    pub(super) fn get_or_null<'s>(&'s self, key: &'s str) -> Option<Value<'a, 's>> {
        self.object.get_or_null(key).map(|raw| self.value(key, raw))
    }

    fn value<'s>(&'s self, key: &'s str, raw: Raw<'a>) -> Value<'a, 's> {
        Value { raw, path: Path { parent: self.path.as_ref(), step: Step::Key(key) } }
    }

    pub(super) fn object(&self) -> &Object<'a> {
        &self.object
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&str, Raw<'a>)> {
        self.object.iter()
    }

    /// A text. `None`: absent or empty.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Failure> {
        let text = self.get(key).map(Value::string).transpose()?;
        Ok(text.filter(|text| !text.is_empty()).map(Cow::into_owned))
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, Failure> {
        self.get(key).map(Value::bool).transpose()
    }

    /// A list of texts. Empty: absent or empty.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, Failure> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        value.list()?.map(|text| Ok(text.string()?.into_owned())).collect()
    }

    /// An address. `None`: absent or empty.
    pub(super) fn address(&self, key: &str) -> Result<Option<IpAddr>, Failure> {
        self.given(key).map(Value::address).transpose()
    }

    /// A network. `None`: absent or empty.
    pub(super) fn cidr(&self, key: &str) -> Result<Option<Cidr>, Failure> {
        self.given(key).map(Value::cidr).transpose()
    }

    /// A number of 32 bits. `None`: absent.
    pub(super) fn number(&self, key: &str) -> Result<Option<u32>, Failure> {
        self.get(key).map(Value::number).transpose()
    }

    /// A section inside this one. `None`: absent.
    pub(super) fn section<'s>(&'s self, key: &'s str) -> Result<Option<Section<'a, 's>>, Failure> {
        self.get(key).map(Value::section).transpose()
    }

    /// What is wrong with this section as a whole.
    pub(super) fn problem(&self, problem: impl fmt::Display) -> Failure {
        match &self.path {
            Some(path) => Failure::config(format!("`{path}` {problem}")),
            None => Failure::config(problem),
        }
    }

    /// Refuses the first key that is not among `known`, with the one that may have been meant.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Failure> {
        let is_known = |key: &str| known.iter().any(|known| known.eq_ignore_ascii_case(key));
        let Some((key, raw)) = self.members().find(|(key, _)| !is_known(key)) else {
            return Ok(());
        };
        let failure = Failure::unsupported(self.value(key, raw).path, shown(raw));
        let way_out = match suggest::closest(key, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("expected one of {}", listed(known)),
        };
        Err(match suggest::closest(key, known) {
            Some(_) => Failure { msg: format!("{}; {way_out}", failure.msg), ..failure },
            None => failure.with_details(way_out),
        })
    }
}

/// A value and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Value<'a, 'p> {
    pub(super) raw: Raw<'a>,
    path: Path<'p>,
}

impl<'a, 'p> Value<'a, 'p> {
    pub(super) fn string(self) -> Result<Cow<'a, str>, Failure> {
        self.raw.string().ok_or_else(|| self.expected("a string"))
    }

    pub(super) fn bool(self) -> Result<bool, Failure> {
        self.raw.bool().ok_or_else(|| self.expected("true or false"))
    }

    pub(super) fn number(self) -> Result<u32, Failure> {
        self.raw
            .unsigned()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.expected("a whole number from 0 to 4294967295"))
    }

    pub(super) fn address(self) -> Result<IpAddr, Failure> {
        let text = self.string()?;
        parse_address(&text).ok_or_else(|| self.expected("an IPv4 or IPv6 address"))
    }

    pub(super) fn cidr(self) -> Result<Cidr, Failure> {
        self.string()?.parse().map_err(|problem| self.problem(problem))
    }

    /// One of a few words, in exactly this letter case.
    pub(super) fn word(self, words: &[&'static str]) -> Result<&'static str, Failure> {
        let text = self.string()?;
        words.iter().copied().find(|word| *word == text).ok_or_else(|| self.expected(listed(words)))
    }

    pub(super) fn section(self) -> Result<Section<'a, 'p>, Failure> {
        let object = self.raw.object().ok_or_else(|| self.expected("an object"))?;
        Ok(Section { object, path: Some(self.path) })
    }

    pub(super) fn list<'s>(&'s self) -> Result<impl Iterator<Item = Value<'a, 's>>, Failure> {
        let list = self.raw.array().ok_or_else(|| self.expected("a list"))?;
        Ok(list.enumerate().map(|(index, raw)| Value {
            raw,
            path: Path { parent: Some(&self.path), step: Step::Index(index) },
        }))
    }

    /// The complaint that this is not what it should be. Code 7.
    pub(super) fn expected(self, what: impl fmt::Display) -> Failure {
        let found = shown(self.raw);
        match self.raw.kind() {
            kind @ (Kind::Object | Kind::Array | Kind::Null) => {
                self.is(format_args!("{kind}; expected {what}"))
            }
            Kind::String if found.is_empty() => self.is(format_args!("empty; expected {what}")),
            _ => self.is(format_args!("`{found}`; expected {what}")),
        }
    }

    /// A complaint in the caller's words, behind the path and a colon. Code 7.
    pub(super) fn problem(self, problem: impl fmt::Display) -> Failure {
        Failure::config(format!("`{}`: {problem}", self.path))
    }

    fn is(self, what: fmt::Arguments<'_>) -> Failure {
        Failure::config(format!("`{}` is {what}", self.path))
    }
}

/// A value as a message shows it: short, in one line, a string without its quotes.
fn shown(raw: Raw<'_>) -> String {
    const SHOWN_MAX: usize = 80;
    let text = raw.string().unwrap_or_else(|| raw.source());
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        match c {
            _ if count == SHOWN_MAX => {
                shown.push('…');
                break;
            }
            '"' | '\'' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

fn listed(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
