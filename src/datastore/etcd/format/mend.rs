//! Values of other versions, brought into the form that our types read. Only what does not parse as it is comes here.

use serde_json::Value;

use super::json::{Members, Unreadable, members, raw, text_of, without_nulls};
use crate::datastore::Key;
use crate::net::{Cidr, parse_address};

/// The time of Go that was never set.
const NEVER: &str = "\"0001-01-01T00:00:00Z\"";

/// What a value may have meant. `None`: it is of no version that is known.
pub(super) fn mended(key: &Key, text: &str) -> Result<Option<String>, Unreadable> {
    // Very old stores have empty values.
    let text = if text.trim().is_empty() { "{}" } else { text };
    let cleared = without_nulls(text)?;
    Ok(members(&cleared).and_then(|all| in_present_form(key, all)))
}

fn in_present_form(key: &Key, mut all: Members) -> Option<String> {
    match key {
        Key::Block(_) => {
            respell_cidr(&mut all);
            drop_member(&mut all, "affinity", "\"\"");
            drop_member(&mut all, "affinity_claim_time", NEVER);
        }
        Key::Handle(_) => {
            let counts = all.get("block").and_then(|block| members(block.get()));
            let counts = counts.unwrap_or_default().into_iter();
            let spelt: Option<Members> =
                counts.map(|(cidr, count)| Some((canonical(&cidr)?, count))).collect();
            let counts = spelt?;
            insert_text(&mut all, "block", &text_of(&counts));
        }
        Key::Pool(_) => {
            add_header(&mut all, "IPPool");
            let mut spec = members(all.get("spec")?.get())?;
            respell_cidr(&mut spec);
            drop_member(&mut spec, "assignmentMode", "\"\"");
            insert_text(&mut all, "spec", &text_of(&spec));
        }
        Key::Reservation(_) => add_header(&mut all, "IPReservation"),
        Key::Node(_) => add_header(&mut all, "Node"),
        Key::Configuration => add_header(&mut all, "IPAMConfiguration"),
        _ => {}
    }
    Some(text_of(&all))
}

fn add_header(all: &mut Members, kind: &str) {
    let mut add = |name: &str, value: Value| {
        all.entry(name.to_owned()).or_insert_with(|| raw(&value));
    };
    add("apiVersion", crate::api::calico::API_VERSION.into());
    add("kind", kind.into());
    add("metadata", Value::Object(serde_json::Map::new()));
    add("spec", Value::Object(serde_json::Map::new()));
}

fn respell_cidr(all: &mut Members) {
    let cidr = all.get("cidr").and_then(|cidr| serde_json::from_str::<String>(cidr.get()).ok());
    if let Some(cidr) = cidr.and_then(|cidr| canonical(&cidr)) {
        all.insert("cidr".to_owned(), raw(&Value::String(cidr)));
    }
}

/// A range in our spelling: one with host bits, or a single address, may stand for it.
fn canonical(text: &str) -> Option<String> {
    let cidr = parse_address(text).map(Cidr::single).or_else(|| Cidr::parse_masking(text).ok())?;
    Some(cidr.to_string())
}

fn drop_member(all: &mut Members, name: &str, meaningless: &str) {
    if all.get(name).is_some_and(|part| part.get() == meaningless) {
        all.remove(name);
    }
}

fn insert_text(all: &mut Members, name: &str, text: &str) {
    if let Ok(text) = serde_json::value::RawValue::from_string(text.to_owned()) {
        all.insert(name.to_owned(), text);
    }
}
