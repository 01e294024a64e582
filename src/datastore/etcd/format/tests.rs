//! Every value of Calico's that is known, and what becomes of it.

mod configuration;
mod round_trips;
mod shields;
mod values;

use super::*;
use crate::datastore::{Entry, Error, Key, Object, Revision};

/// What stands at a key.
fn entry(key: &str, value: &str) -> Result<Entry, Error> {
    let key = parse_key(key).unwrap_or_else(|| panic!("{key} is of no object"));
    let object = decode(&key, value.as_bytes(), Revision(7))?;
    Ok(Entry { key, revision: Revision(7), object })
}

/// A value as it is written back over itself.
fn rewritten(key: &Key, object: &Object, stored: &str) -> String {
    let value = encode(key, object, Some(stored.as_bytes())).expect("it may be stored");
    String::from_utf8(value).expect("text")
}

/// JSON with its objects' members in order and its numbers as they are spelt.
fn sorted(text: &str) -> String {
    use std::collections::BTreeMap;

    use serde_json::value::RawValue;

    if let Ok(all) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) {
        let members: Vec<_> =
            all.iter().map(|(name, part)| format!("{name:?}:{}", sorted(part.get()))).collect();
        return format!("{{{}}}", members.join(","));
    }
    if let Ok(all) = serde_json::from_str::<Vec<Box<RawValue>>>(text) {
        let parts: Vec<_> = all.iter().map(|part| sorted(part.get())).collect();
        return format!("[{}]", parts.join(","));
    }
    text.to_owned()
}
