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

/// A text without the members of its objects that are `null`, which to Go means the same as their absence.
pub(super) fn without_nulls(text: &str) -> String {
    let Some(mut all) = members(text) else { return text.to_owned() };
    all.retain(|_, part| part.get() != "null");
    for part in all.values_mut() {
        if let Ok(cleared) = RawValue::from_string(without_nulls(part.get())) {
            *part = cleared;
        }
    }
    text_of(&all)
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
        assert_eq!(without_nulls(r#"{"a":null,"b":{"c":null},"d":[null]}"#), r#"{"b":{},"d":[null]}"#);
    }
}
