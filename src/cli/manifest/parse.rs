//! From text to values that know their places.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;
use serde_saphyr::granit_parser::{Event, Parser};
use serde_saphyr::{Location, Spanned};

use super::node::{At, Content, Member, Node};

/// How many nodes of YAML are taken: all blocks of a large store have 8 million.
const YAML_NODES_MAX: usize = 64_000_000;

type Fault = (At, String);

/// The documents of a file. JSON and YAML are told apart by the text, unless the file's name says JSON.
pub(super) fn documents(text: &str, is_json: bool) -> Result<Vec<Node>, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_json {
        return json(text);
    }
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml(text);
    }
    // YAML's own braces look the same.
    json(text).or_else(|fault| yaml(text).map_err(|_| fault))
}

fn json(text: &str) -> Result<Vec<Node>, Fault> {
    let mut nodes = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let raw = document.map_err(|error| json_fault(&error))?;
        nodes.push(json_node(text, raw)?);
    }
    Ok(nodes)
}

fn json_fault(error: &serde_json::Error) -> Fault {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let at = At { line: number(error.line()), column: number(error.column()).max(1) };
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    (at, format!("is not valid JSON: {reason}"))
}

fn json_node(text: &str, raw: &RawValue) -> Result<Node, Fault> {
    let at = place(text, raw.get());
    let fault = |error: serde_json::Error| (at, format!("is not valid JSON: {error}"));
    let content = match raw.get().as_bytes().first() {
        Some(b'{') => {
            let mut members: Vec<Member> = Vec::new();
            let entries: Entries<'_> = serde_json::from_str(raw.get()).map_err(fault)?;
            for (raw_key, value) in entries.0 {
                let key: String = serde_json::from_str(raw_key.get()).map_err(fault)?;
                let at = place(text, raw_key.get());
                if members.iter().any(|member| member.key == key) {
                    return Err((at, format!("`{}` is given twice", key.escape_debug())));
                }
                members.push(Member { at, key, value: json_node(text, value)? });
            }
            Content::Map(members)
        }
        Some(b'[') => {
            let entries: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(fault)?;
            Content::List(entries.into_iter().map(|entry| json_node(text, entry)).collect::<Result<_, _>>()?)
        }
        _ => serde_json::from_str::<Scalar>(raw.get()).map_err(fault)?.0,
    };
    Ok(Node { at, content })
}

/// Where a part of a text starts.
fn place(text: &str, part: &str) -> At {
    let offset = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    let before = text.get(..offset).unwrap_or_default();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX).saturating_add(1);
    let line = before.rsplit('\n').next().unwrap_or_default();
    At { line: count(before.matches('\n').count()), column: count(line.chars().count()) }
}

/// The members of a JSON object as they were written, with repetitions.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

fn yaml(text: &str) -> Result<Vec<Node>, Fault> {
    refuse_tags(text)?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: YAML_NODES_MAX,
            max_events: YAML_NODES_MAX.saturating_mul(4),
            max_documents: YAML_NODES_MAX,
        },
        strict_booleans: true,
    };
    serde_saphyr::from_multiple_with_options::<Node>(text, options).map_err(|error| {
        let at = error.location().map_or(At::START, at);
        let text = error.without_snippet().to_string();
        (at, format!("is not valid YAML: {}", text.lines().next().unwrap_or_default()))
    })
}

/// Refuses what YAML takes for a tag: `!all()` without quotes is one, and its text would be lost without a word.
fn refuse_tags(text: &str) -> Result<(), Fault> {
    for event in Parser::new_from_str(text) {
        // What is no YAML at all is found again, and said better, when it is read.
        let Ok((event, span)) = event else { return Ok(()) };
        let (Event::Scalar(_, _, _, tag) | Event::SequenceStart(_, _, tag) | Event::MappingStart(_, _, tag)) =
            event
        else {
            continue;
        };
        if let Some(tag) = tag.as_ref().filter(|tag| tag.is_custom()) {
            let tag = tag.original();
            let end = offset(text, span.start.line(), span.start.col());
            let start = text.get(..end).and_then(|before| before.rfind(&tag)).unwrap_or(end);
            let at = place(text, text.get(start..).unwrap_or_default());
            return Err((at, format!("`{tag}` is a YAML tag, and no text; write it in quotes: \"{tag}\"")));
        }
    }
    Ok(())
}

/// The offset of a line, counted from 1, and a column in it, counted from 0.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let line = text.get(before..).unwrap_or_default();
    before + line.char_indices().nth(column).map_or(line.len(), |(place, _)| place)
}

fn at(location: Location) -> At {
    At { line: location.line(), column: location.column() }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Node { at: at(spanned.referenced), content: spanned.value })
    }
}

/// A value without parts.
struct Scalar(Content);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Content::deserialize(deserializer).map(Scalar)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyContent)
    }
}

struct AnyContent;

impl<'de> Visitor<'de> for AnyContent {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Content, E> {
        Number::from_f64(value)
            .map(Content::Number)
            .ok_or_else(|| E::custom(format!("{value} is no finite number")))
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Content, E> {
        Err(E::custom(format!("{value} is out of range")))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Content, E> {
        Err(E::custom(format!("{value} is out of range")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element()? {
            entries.push(entry);
        }
        Ok(Content::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut members: Vec<Member> = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value()?;
            if members.iter().any(|member| member.key == key.value) {
                return Err(A::Error::custom(format!("`{}` is given twice", key.value.escape_debug())));
            }
            members.push(Member { at: at(key.referenced), key: key.value, value });
        }
        Ok(Content::Map(members))
    }
}
