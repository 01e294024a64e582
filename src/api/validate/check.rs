//! Holding an object against the schema of its kind.

use serde_json::{Map, Value};

use super::{Path, Problem};
use crate::api::schema::{Field, METADATA, Naming, Schema, Type};
use crate::net::{Cidr, parse_address};

/// The longest CIDR that is taken. Source: the schema of Calico's resource.
const CIDR_LENGTH_MAX: usize = 48;
/// The longest selector that is taken. Source: the schema of Calico's resource.
const SELECTOR_LENGTH_MAX: usize = 1024;
/// The longest name. Source: RFC 1123 by way of Kubernetes.
const NAME_LENGTH_MAX: usize = 253;

/// Everything that the schema does not allow.
pub(super) fn check(schema: &Schema, object: &Value) -> Vec<Problem> {
    let mut checker = Checker { kind: schema.kind, problems: Vec::new() };
    let root = Path::root();
    let Some(members) = object.as_object() else {
        checker.refuse(&root, format!("is {}; expected an object", describe(object)));
        return checker.problems;
    };
    for key in members.keys() {
        if !["apiVersion", "kind", "metadata", "spec", "status"].contains(&key.as_str()) {
            checker.unknown(&root, key, &["metadata", "spec"]);
        }
    }
    checker.metadata(schema, members.get("metadata").unwrap_or(&Value::Null));
    let nothing = Value::Object(Map::new());
    let spec = members.get("spec").filter(|spec| !spec.is_null()).unwrap_or(&nothing);
    checker.value(&Type::Object(schema.spec), spec, &root.key("spec"));
    checker.problems
}

struct Checker {
    kind: &'static str,
    problems: Vec<Problem>,
}

impl Checker {
    fn refuse(&mut self, path: &Path, reason: impl Into<String>) {
        self.problems.push(Problem::new(path.clone(), reason));
    }

    fn unknown(&mut self, parent: &Path, key: &str, known: &[&str]) {
        let meant =
            closest_field(key, known).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        let known: Vec<_> = known.iter().map(|known| format!("`{known}`")).collect();
        let reason = format!("is no field of {}{meant} (known: {})", self.kind, known.join(", "));
        self.refuse(&parent.key(key), reason);
    }

    fn metadata(&mut self, schema: &Schema, metadata: &Value) {
        let path = Path::root().key("metadata");
        let named = metadata.get("name").and_then(Value::as_str);
        if let Some(namespace) = metadata.get("namespace").filter(|namespace| !namespace.is_null()) {
            let (found, kind) = (describe(namespace), self.kind);
            match schema.namespace {
                None => {
                    let reason = format!("is {found}, but {kind} is not namespaced; leave it out");
                    self.refuse(&path.key("namespace"), reason);
                }
                Some(only) if namespace.as_str() != Some(only) => {
                    let reason = format!("is {found}; every {kind} is in `{only}`: leave it out");
                    self.refuse(&path.key("namespace"), reason);
                }
                Some(_) => {}
            }
        }
        self.value(&Type::Object(&METADATA), metadata, &path);
        match named {
            Some(name) => self.name(schema, name, &path.key("name")),
            None if metadata.get("name").is_none_or(Value::is_null) => {
                self.refuse(&path.key("name"), "is missing");
            }
            None => {}
        }
    }

    fn name(&mut self, schema: &Schema, name: &str, path: &Path) {
        let shown = name.escape_debug();
        match schema.naming {
            Naming::Singleton(only) if name != only => {
                self.refuse(path, format!("is `{shown}`; the only {} is `{only}`", self.kind));
            }
            Naming::DnsSubdomain if !is_dns_subdomain(name) => {
                let rule =
                    "lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit";
                self.refuse(
                    path,
                    format!("is `{shown}`; expected {rule}, {NAME_LENGTH_MAX} characters at most"),
                );
            }
            Naming::Host => {
                if let Err(problem) = crate::api::HostName::new(name) {
                    self.refuse(path, format!("is no name of a host: {problem}"));
                }
            }
            Naming::Singleton(_) | Naming::DnsSubdomain => {}
        }
    }

    fn value(&mut self, expected: &Type, value: &Value, path: &Path) {
        if value.is_null() {
            // Absent; whether it may be, its object knows.
            return;
        }
        match expected {
            Type::Any => {}
            Type::Object(fields) | Type::Named(_, fields) => self.object(fields, value, path),
            Type::List { of, most, unique } => self.list(of, *most, *unique, value, path),
            Type::Texts => self.texts(value, path),
            _ => {
                if let Some(reason) = scalar(expected, value) {
                    self.refuse(path, reason);
                }
            }
        }
    }

    fn object(&mut self, fields: &'static [Field], value: &Value, path: &Path) {
        let Some(members) = value.as_object() else {
            self.refuse(path, format!("is {}; expected an object", describe(value)));
            return;
        };
        let is_open = fields.iter().any(|field| field.name == "*");
        for (key, value) in members {
            match fields.iter().find(|field| field.name == key) {
                Some(field) => self.value(&field.of, value, &path.key(key)),
                None if is_open => {}
                None => {
                    let known: Vec<_> = fields.iter().map(|field| field.name).collect();
                    self.unknown(path, key, &known);
                }
            }
        }
        // That the object itself has a name is looked at with the name.
        let is_metadata = std::ptr::eq(fields, METADATA.as_slice());
        for field in fields.iter().filter(|field| field.required && !(is_metadata && field.name == "name")) {
            if members.get(field.name).is_none_or(Value::is_null) {
                self.refuse(&path.key(field.name), "is missing");
            }
        }
    }

    fn list(&mut self, of: &Type, most: usize, unique: bool, value: &Value, path: &Path) {
        let Some(entries) = value.as_array() else {
            self.refuse(path, format!("is {}; expected a list", describe(value)));
            return;
        };
        if entries.len() > most {
            self.refuse(path, format!("has {} entries; expected {most} at most", entries.len()));
        }
        for (index, entry) in entries.iter().enumerate() {
            let path = path.index(index);
            if entry.is_null() {
                self.refuse(&path, "is empty");
            } else if unique && entries.iter().take(index).any(|earlier| earlier == entry) {
                self.refuse(&path, format!("is {} again", describe(entry)));
            } else {
                self.value(of, entry, &path);
            }
        }
    }

    fn texts(&mut self, value: &Value, path: &Path) {
        let Some(members) = value.as_object() else {
            self.refuse(path, format!("is {}; expected an object", describe(value)));
            return;
        };
        for (key, value) in members.iter().filter(|(_, value)| !value.is_string()) {
            self.refuse(
                &path.key(key),
                format!("is {}; expected a text: write it in quotes", describe(value)),
            );
        }
    }
}

/// What is wrong with a value that has no parts. `None`: nothing.
fn scalar(expected: &Type, value: &Value) -> Option<String> {
    let found = describe(value);
    let unquoted = if value.is_string() { ", without quotes" } else { "" };
    let refuse = |expected: String| Some(format!("is {found}; expected {expected}"));
    match expected {
        Type::Bool if value.is_boolean() => None,
        Type::Bool => refuse(format!("true or false{unquoted}")),
        Type::Whole { least, most } => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) if (*least..=*most).contains(&number) => None,
            _ => refuse(format!("a whole number from {least} to {most}{unquoted}")),
        },
        Type::Words(words) => match value.as_str() {
            Some(word) if words.contains(&word) => None,
            _ => refuse(any_of(words)),
        },
        Type::Text | Type::Time if value.is_string() => None,
        Type::Text | Type::Time => refuse("a text: write it in quotes".to_owned()),
        Type::Selector => match value.as_str() {
            Some(text) if text.chars().count() <= SELECTOR_LENGTH_MAX => None,
            Some(text) => Some(format!(
                "has {} characters; expected {SELECTOR_LENGTH_MAX} at most",
                text.chars().count()
            )),
            None => refuse("a selector: write it in quotes".to_owned()),
        },
        Type::Cidr => match value.as_str() {
            Some(text) if text.len() <= CIDR_LENGTH_MAX => {
                text.parse::<Cidr>().err().map(|_| format!("is {found}; expected {}", cidr_meant(text)))
            }
            _ => refuse("a CIDR such as \"10.0.0.0/16\"".to_owned()),
        },
        Type::CidrMasked => match value.as_str() {
            Some(text) if text.len() <= CIDR_LENGTH_MAX && Cidr::parse_masking(text).is_ok() => None,
            _ => refuse("a CIDR such as \"10.0.0.0/16\"".to_owned()),
        },
        Type::CidrOrAddress => match value.as_str().map(str::trim) {
            Some(text) if parse_address(text).is_some() || text.parse::<Cidr>().is_ok() => None,
            Some(text) if text.len() <= CIDR_LENGTH_MAX => refuse(cidr_meant(text)),
            _ => refuse("a CIDR or an address, such as \"10.0.0.0/28\" or \"10.0.0.1\"".to_owned()),
        },
        Type::Any | Type::Object(_) | Type::Named(..) | Type::List { .. } | Type::Texts => None,
    }
}

/// What is expected in place of a text that is no CIDR: the network that it may have been meant for.
fn cidr_meant(text: &str) -> String {
    match (Cidr::parse_masking(text), text.split_once('/').and_then(|(address, _)| parse_address(address))) {
        (Ok(cidr), Some(address)) => {
            format!(
                "a network without host bits: `{cidr}`, or `{}` for the one address",
                Cidr::single(address)
            )
        }
        _ => "a CIDR such as \"10.0.0.0/16\"".to_owned(),
    }
}

fn any_of(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// A value in words.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => {
            let start: String = text.chars().take(80).collect();
            format!("the text {start:?}")
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Whether a text may name a resource, or a project: lower-case letters, digits, `-` and `.`.
#[must_use]
pub fn is_dns_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        ends(label.chars().next())
            && ends(label.chars().last())
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= NAME_LENGTH_MAX && name.split('.').all(label)
}

/// The known field that a mistyped one was meant to be: equal but for case, `_` and `-`, or one letter away.
#[must_use]
pub fn closest_field<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        // A bound, so that a megabyte of key costs nothing.
        text.chars().take(64).filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
    };
    let typed = plain(typed);
    let of_distance = |limit| known.iter().copied().find(|known| is_within(limit, &typed, &plain(known)));
    of_distance(0).or_else(|| of_distance(1))
}

/// Whether one word becomes the other by at most so many letters put in, left out, replaced, or swapped in pairs.
fn is_within(limit: usize, a: &[char], b: &[char]) -> bool {
    match (a, b) {
        ([], rest) | (rest, []) => rest.len() <= limit,
        ([first, a_rest @ ..], [same, b_rest @ ..]) if first == same => is_within(limit, a_rest, b_rest),
        ([_, a_rest @ ..], [_, b_rest @ ..]) => {
            let is_swapped = || match (a, b) {
                ([first, second, a_rest @ ..], [b_first, b_second, b_rest @ ..]) => {
                    (first, second) == (b_second, b_first) && is_within(limit - 1, a_rest, b_rest)
                }
                _ => false,
            };
            limit > 0
                && (is_within(limit - 1, a_rest, b_rest)
                    || is_swapped()
                    || is_within(limit - 1, a_rest, b)
                    || is_within(limit - 1, a, b_rest))
        }
    }
}
