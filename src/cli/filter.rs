//! Which resources of a kind are meant: by their labels, in Calico's selector language or `kubectl`'s, and by their
//! fields.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::error::Error;
use super::kinds::Kind;
use crate::ipam::selector::Selector;

/// A condition on resources.
#[derive(Debug, Default)]
pub(super) struct Filter {
    labels: Option<Selector>,
    fields: Vec<FieldTest>,
}

/// A condition on one field.
#[derive(Debug, PartialEq, Eq)]
struct FieldTest {
    path: Vec<String>,
    is_wanted: bool,
    value: String,
}

impl Filter {
    /// What `-l` and `--field-selector` say of a kind.
    pub(super) fn parse(kind: Kind, labels: Option<&str>, fields: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            labels: labels.map(selector).transpose()?,
            fields: match fields {
                Some(text) => field_tests(kind, text)?,
                None => Vec::new(),
            },
        })
    }

    /// Whether everything is meant.
    pub(super) const fn is_empty(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    /// Whether a resource is meant.
    pub(super) fn matches(&self, resource: &Value) -> bool {
        let labels = || -> BTreeMap<String, String> {
            let found = resource.pointer("/metadata/labels").and_then(Value::as_object);
            let text = |value: &Value| value.as_str().map(str::to_owned);
            found
                .into_iter()
                .flatten()
                .filter_map(|(label, value)| Some((label.clone(), text(value)?)))
                .collect()
        };
        self.labels.as_ref().is_none_or(|selector| selector.matches(&labels()))
            && self.fields.iter().all(|test| test.holds(resource))
    }
}

impl FieldTest {
    fn holds(&self, resource: &Value) -> bool {
        let found = self.path.iter().try_fold(resource, |value, key| value.get(key));
        let is_it = match found {
            None | Some(Value::Null) => self.value.is_empty(),
            Some(Value::Array(entries)) => entries.iter().any(|entry| text(entry) == self.value),
            Some(value) => text(value) == self.value,
        };
        is_it == self.is_wanted
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A selector in Calico's language, else in `kubectl`'s.
fn selector(given: &str) -> Result<Selector, Error> {
    let calico = Selector::parse(given);
    if let Ok(selector) = calico {
        return Ok(selector);
    }
    let translated = split(given).map(requirement).collect::<Option<Vec<_>>>();
    let read = translated.and_then(|parts| Selector::parse(&parts.join(" && ")).ok());
    read.ok_or_else(|| Error::Argument {
        what: "`--selector`".into(),
        found: given.to_owned(),
        expected: "`zone=north,gpu!=none`, `zone in (a,b)`, `gpu`, `!gpu`, or a selector of Calico such as `zone == \"north\" && !has(gpu)`".into(),
    })
}

/// The parts between commas, save those within parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// One requirement of `kubectl`, in Calico's words; `None`: it is none.
fn requirement(part: &str) -> Option<String> {
    let part = part.trim();
    if let Some((label, value)) = part.split_once("!=") {
        return compared(label, "!=", value);
    }
    if let Some((label, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return compared(label, "==", value);
    }
    if let Some((before, values)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) {
        let mut words = before.split_whitespace();
        let (label, operator) = (label(words.next()?)?, words.next()?);
        let operator = match operator {
            "in" => "in",
            "notin" => "not in",
            _ => return None,
        };
        let quoted: Option<Vec<_>> = values.split(',').map(quoted).collect();
        return words
            .next()
            .is_none()
            .then_some(())
            .and(quoted)
            .map(|values| format!("{label} {operator} {{{}}}", values.join(", ")));
    }
    match part.strip_prefix('!') {
        Some(absent) => Some(format!("!has({})", label(absent)?)),
        None => Some(format!("has({})", label(part)?)),
    }
}

fn compared(name: &str, operator: &str, value: &str) -> Option<String> {
    Some(format!("{} {operator} {}", label(name)?, quoted(value)?))
}

fn label(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_one = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    (!text.is_empty() && text.chars().all(is_one)).then_some(text)
}

/// A label's value: it may be empty, and has no quotes in it.
fn quoted(text: &str) -> Option<String> {
    let text = text.trim();
    let is_one = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    text.chars().all(is_one).then(|| format!("\"{text}\""))
}

fn field_tests(kind: Kind, given: &str) -> Result<Vec<FieldTest>, Error> {
    let refuse = |found: &str, expected: String| Error::Argument {
        what: "`--field-selector`".into(),
        found: found.to_owned(),
        expected,
    };
    let mut tests = Vec::new();
    for part in given.split(',').map(str::trim) {
        let unequal = part.split_once("!=");
        let equal = || part.split_once("==").or_else(|| part.split_once('='));
        let (path, value) = unequal.or_else(equal).ok_or_else(|| {
            refuse(part, "FIELD=VALUE or FIELD!=VALUE, such as `spec.disabled=true`".into())
        })?;
        let is_wanted = unequal.is_none();
        let path: Vec<String> = path.trim().split('.').map(str::to_owned).collect();
        let known = match path.first().map(String::as_str) {
            _ if path.len() < 2 => false,
            Some("metadata") => true,
            Some("status") => matches!(kind, Kind::IpPool | Kind::Milo(_)),
            Some("spec") => {
                let is_known = |field: &&str| path.get(1).is_some_and(|named| named == field);
                kind.schema().is_none_or(|schema| {
                    schema.spec.iter().map(|field| field.name).any(|field| is_known(&field))
                })
            }
            _ => false,
        };
        if !known {
            return Err(refuse(part, fields_of(kind)));
        }
        tests.push(FieldTest { path, is_wanted, value: value.trim().to_owned() });
    }
    Ok(tests)
}

/// The fields that can be asked for, in words.
fn fields_of(kind: Kind) -> String {
    let mut words = String::from("`metadata.name`");
    match kind.schema() {
        Some(schema) => {
            for field in schema.spec {
                let _ = write!(words, ", `spec.{}`", field.name);
            }
        }
        None => words.push_str(" or a field of `spec`"),
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chosen(labels: Option<&str>, fields: Option<&str>) -> Vec<&'static str> {
        let filter = Filter::parse(Kind::IpPool, labels, fields).expect("a filter");
        let pool = |name: &'static str, labels: Value, spec: Value| {
            (name, json!({ "metadata": { "name": name, "labels": labels }, "spec": spec }))
        };
        let pools = [
            pool(
                "a",
                json!({ "zone": "north", "gpu": "none" }),
                json!({ "cidr": "10.0.0.0/16", "blockSize": 26 }),
            ),
            pool("b", json!({ "zone": "south" }), json!({ "cidr": "10.1.0.0/16", "disabled": true })),
            pool("c", Value::Null, json!({ "allowedUses": ["Workload", "Tunnel"] })),
        ];
        pools.into_iter().filter(|(_, pool)| filter.matches(pool)).map(|(name, _)| name).collect()
    }

    #[test]
    fn labels_are_asked_for_in_either_language() {
        for (asked, meant) in [
            ("zone=north", &["a"][..]),
            ("zone==north,gpu=none", &["a"]),
            ("zone!=north", &["b", "c"]),
            ("zone != north , zone", &["b"]),
            ("zone in (north, south),!gpu", &["b"]),
            ("zone notin (north)", &["b", "c"]),
            ("!zone", &["c"]),
            ("", &["a", "b", "c"]),
            ("zone == \"north\" || !has(zone)", &["a", "c"]),
            ("has(gpu)", &["a"]),
        ] {
            assert_eq!(chosen(Some(asked), None), meant, "{asked}");
        }
        for bad in ["zone=a=b", "zone in north", "zone ==", "a b", ",", "zone in (a", "zone='north'x"] {
            let refused = Filter::parse(Kind::IpPool, Some(bad), None);
            assert!(matches!(refused, Err(Error::Argument { .. })) || bad == "zone ==", "{bad}: {refused:?}");
        }
    }

    #[test]
    fn fields_are_asked_for_by_their_paths() {
        for (asked, meant) in [
            ("metadata.name=a", &["a"][..]),
            ("metadata.name!=a", &["b", "c"]),
            ("spec.disabled=true", &["b"]),
            ("spec.blockSize=26,spec.cidr==10.0.0.0/16", &["a"]),
            ("spec.allowedUses=Tunnel", &["c"]),
            ("spec.cidr=", &["c"]),
        ] {
            assert_eq!(chosen(None, Some(asked)), meant, "{asked}");
        }
        for bad in ["name=a", "spec.gateway=x", "spec=x", "metadata.name", "status"] {
            assert!(Filter::parse(Kind::IpPool, None, Some(bad)).is_err(), "{bad}");
        }
    }
}
