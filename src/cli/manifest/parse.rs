//! From text to values that know their places.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;
use serde_saphyr::granit_parser::{Event, Parser};
use serde_saphyr::{Location, Spanned};

use super::node::{At, Content, Member, Node};

/// How many nodes of YAML are taken: all blocks of a large store have 8 million.
const YAML_NODES_MAX: usize = 64_000_000;

/// Levels of nesting of JSON that are read: as many as `serde_json` reads of a value by itself.
const JSON_DEPTH_MAX: usize = 128;

/// Levels of nesting of YAML that are read. Each takes much more of the stack than one of JSON.
const YAML_DEPTH_MAX: usize = 48;

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
    let mut cursor = Cursor::new(text);
    for document in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let raw = document.map_err(|error| json_fault(&error))?;
        nodes.push(json_node(&mut cursor, raw, 1)?);
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

/// Reads a value at a depth. Each level is parsed again, so that parts know their places; the depth is bounded.
fn json_node(cursor: &mut Cursor<'_>, raw: &RawValue, depth: usize) -> Result<Node, Fault> {
    let at = cursor.advance_to(raw.get());
    let fault = |error: serde_json::Error| (at, format!("is not valid JSON: {error}"));
    let first = raw.get().as_bytes().first();
    if depth > JSON_DEPTH_MAX && matches!(first, Some(b'{' | b'[')) {
        return Err((at, format!("nests deeper than {JSON_DEPTH_MAX} levels")));
    }
    let content = match first {
        Some(b'{') => {
            let mut members: Vec<Member> = Vec::new();
            let mut keys = HashSet::new();
            let entries: Entries<'_> = serde_json::from_str(raw.get()).map_err(fault)?;
            for (raw_key, value) in entries.0 {
                let key: String = serde_json::from_str(raw_key.get()).map_err(fault)?;
                let at = cursor.advance_to(raw_key.get());
                if !keys.insert(key.clone()) {
                    return Err((at, format!("`{}` is given twice", key.escape_debug())));
                }
                members.push(Member { at, key, value: json_node(cursor, value, depth + 1)? });
            }
            Content::Map(members)
        }
        Some(b'[') => {
            let entries: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(fault)?;
            let entries = entries.into_iter().map(|entry| json_node(cursor, entry, depth + 1));
            Content::List(entries.collect::<Result<_, _>>()?)
        }
        _ => serde_json::from_str::<Scalar>(raw.get()).map_err(fault)?.0,
    };
    Ok(Node { at, content })
}

/// Line and column of parts of a text that are asked for in their order: each character is counted once.
struct Cursor<'a> {
    text: &'a str,
    offset: usize,
    at: At,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, offset: 0, at: At::START }
    }

    /// The place where a later part of the text starts.
    fn advance_to(&mut self, part: &str) -> At {
        let offset = part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let passed = self.text.get(self.offset..offset).unwrap_or_default();
        for character in passed.chars() {
            if character == '\n' {
                self.at = At { line: self.at.line.saturating_add(1), column: 1 };
            } else {
                self.at.column = self.at.column.saturating_add(1);
            }
        }
        self.offset = self.offset.max(offset);
        self.at
    }
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
            max_depth: YAML_DEPTH_MAX,
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
            let at = Cursor::new(text).advance_to(text.get(start..).unwrap_or_default());
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
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value()?;
            if !keys.insert(key.value.clone()) {
                return Err(A::Error::custom(format!("`{}` is given twice", key.value.escape_debug())));
            }
            members.push(Member { at: at(key.referenced), key: key.value, value });
        }
        Ok(Content::Map(members))
    }
}
