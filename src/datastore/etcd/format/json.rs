//! JSON whose parts keep their spelling: a number of a stored value that no type of ours holds exactly stays as it is.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// An object's members, each as its text.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

/// The members of a text that is an object.
pub(super) fn members(text: &str) -> Option<Members> {
    serde_json::from_str(text).ok()
}

/// An object's text.
///
/// # Panics
/// Never: text keys and JSON texts make JSON.
pub(super) fn text_of(members: &Members) -> String {
    serde_json::to_string(members).expect("text keys and JSON texts are JSON")
}

/// A text as JSON.
///
/// # Panics
/// Never: a text is JSON.
pub(super) fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a value is JSON")
}

/// What is to be written over `stored`, with those members of it that a writer who knows only `known` cannot have meant.
pub(super) fn keep_unknown(new: String, stored: &str, known: &[&str]) -> String {
    let Some(mut kept) = members(stored) else { return new };
    kept.retain(|name, _| !known.contains(&name.as_str()));
    if kept.is_empty() {
        return new;
    }
    let Some(mut all) = members(&new) else { return new };
    all.extend(kept);
    text_of(&all)
}

/// What is to be written over `stored`, with every part that says the same spelt as it was. Nothing is added.
pub(super) fn respelt(new: &str, stored: &str) -> String {
    if let (Some(mut new), Some(old)) = (members(new), members(stored)) {
        for (name, part) in &mut new {
            if let Some(old) = old.get(name) {
                respell(part, old);
            }
        }
        return text_of(&new);
    }
    let lists = |text| serde_json::from_str::<Vec<Box<RawValue>>>(text).ok();
    if let (Some(mut new), Some(old)) = (lists(new), lists(stored)) {
        for (part, old) in new.iter_mut().zip(&old) {
            respell(part, old);
        }
        return serde_json::to_string(&new).expect("JSON texts are JSON");
    }
    let value = |text| serde_json::from_str::<Value>(text).ok();
    if value(new).is_some_and(|new| Some(new) == value(stored)) { stored } else { new }.to_owned()
}

fn respell(part: &mut Box<RawValue>, old: &RawValue) {
    if part.get() != old.get()
        && let Ok(text) = RawValue::from_string(respelt(part.get(), old.get()))
    {
        *part = text;
    }
}

/// Levels of nesting that are read; `serde_json` has the same limit.
const DEPTH_MAX: usize = 128;

/// A text that is not JSON, or nests deeper than [`DEPTH_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    NotJson,
    TooDeep,
}

/// Removes the `null` members of objects, which to Go mean the same as absent ones. Lists are kept as they are.
///
/// One pass over the text without recursion: anybody who may write to etcd chooses its length and depth.
pub(super) fn without_nulls(text: &str) -> Result<String, Unreadable> {
    // Checks the syntax, without recursion. The pass below relies on it.
    serde_json::from_str::<&RawValue>(text).map_err(|_| Unreadable::NotJson)?;
    let mut kept = String::with_capacity(text.len());
    let (mut depth, mut lists, mut member) = (0_usize, 0_usize, 0);
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let length = token_length(rest, first);
        let (token, after) = rest.split_at(length);
        rest = after;
        match first {
            b' ' | b'\t' | b'\r' | b'\n' | b',' => continue,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                lists = lists.saturating_sub(usize::from(first == b']'));
            }
            b':' => {}
            b'n' if lists == 0 && kept.ends_with(':') => {
                kept.truncate(member);
                continue;
            }
            _ => {
                member = kept.len();
                if !kept.is_empty() && !kept.ends_with(['{', '[', ':']) {
                    kept.push(',');
                }
                depth += usize::from(matches!(first, b'{' | b'['));
                lists += usize::from(first == b'[');
            }
        }
        if depth > DEPTH_MAX {
            return Err(Unreadable::TooDeep);
        }
        kept.push_str(token);
    }
    Ok(kept)
}

/// The length of the token of valid JSON that starts `text` with the byte `first`.
fn token_length(text: &str, first: u8) -> usize {
    let bytes = text.as_bytes();
    let end = match first {
        b'"' => {
            let mut is_escaped = false;
            let quote = bytes.iter().skip(1).position(|&byte| {
                let is_end = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                is_end
            });
            quote.map(|place| place + 2)
        }
        b'-' | b'0'..=b'9' | b'a'..=b'z' => bytes
            .iter()
            .position(|byte| matches!(byte, b',' | b':' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')),
        _ => Some(1),
    };
    end.unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_we_cannot_hold_keeps_its_digits() {
        let stored = r#"{"a":123456789012345678901234567890,"b":[1.10,{"c":1e2}],"gone":1}"#;
        let new = serde_json::to_string(&serde_json::from_str::<Value>(stored).expect("json")).expect("json");
        assert!(!new.contains("123456789012345678901234567890"), "{new}");
        let new = new.replace(r#","gone":1"#, r#","new":2.5"#);
        assert_eq!(
            respelt(&new, stored),
            r#"{"a":123456789012345678901234567890,"b":[1.10,{"c":1e2}],"new":2.5}"#
        );
        // Read and written as a number with fewer digits, it is still the same.
        let long = format!(r#"{{"a":4{}.{}}}"#, "6".repeat(71), "6".repeat(40));
        let shorter =
            serde_json::to_string(&serde_json::from_str::<Value>(&long).expect("json")).expect("json");
        assert!(shorter.len() < long.len(), "{shorter}");
        assert_eq!(respelt(&shorter, &long), long);
        assert_eq!(respelt(r#"{"a":2}"#, stored), r#"{"a":2}"#, "a change stays a change");
    }

    #[test]
    fn a_writer_keeps_what_it_does_not_know() {
        let kept = keep_unknown(
            r#"{"state":"confirmed"}"#.into(),
            r#"{"state":"pending","old":1,"next":{"x":18446744073709551616}}"#,
            &["state", "old"],
        );
        assert_eq!(kept, r#"{"next":{"x":18446744073709551616},"state":"confirmed"}"#);
        assert_eq!(keep_unknown("{}".into(), "", &[]), "{}");
    }

    #[test]
    fn a_null_member_is_an_absent_one() {
        for (text, kept) in [
            (r#"{"a":null,"b":{"c":null},"d":[null]}"#, r#"{"b":{},"d":[null]}"#),
            (r#" { "a" : 1.10 , "b" : null , "c" : "x, \"y\\" } "#, r#"{"a":1.10,"c":"x, \"y\\"}"#),
            (r#"{"a":[{"b":null},[],2],"c":null,"d":null,"e":true}"#, r#"{"a":[{"b":null},[],2],"e":true}"#),
            (r#"{"a":"null","null":null,"b":["x","y"]}"#, r#"{"a":"null","b":["x","y"]}"#),
            ("null", "null"),
            ("{}", "{}"),
        ] {
            assert_eq!(without_nulls(text).as_deref(), Ok(kept), "{text}");
        }
        assert_eq!(without_nulls("{"), Err(Unreadable::NotJson));
    }

    #[test]
    fn nulls_in_deep_and_in_long_text() {
        let deep = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert_eq!(without_nulls(&deep(128)), Ok(deep(128)));
        assert_eq!(without_nulls(&deep(129)), Err(Unreadable::TooDeep));
        assert_eq!(without_nulls(&deep(200_000)), Err(Unreadable::TooDeep));
        assert_eq!(without_nulls(&("[".repeat(600_000) + &"]".repeat(600_000))), Err(Unreadable::TooDeep));
        // Work that grows with the square of 10 MB would not end.
        let flat = |member: &str| format!(r#"{{{}"end":1}}"#, member.repeat(500_000));
        assert_eq!(without_nulls(&flat(r#""a":{"b":null,"c":1},"#)), Ok(flat(r#""a":{"c":1},"#)));
        assert_eq!(without_nulls(&flat(r#""a-long-name":null,"#)).as_deref(), Ok(r#"{"end":1}"#));
    }
}
