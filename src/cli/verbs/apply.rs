//! `apply`: what a file says is made so; what an earlier file said and this one does not is taken back; the rest stays.

use serde_json::{Map, Value};

use super::super::args::Write;
use super::super::error::Error;
use super::super::kinds::Kind;
use super::super::{Answer, Context, manifest};
use super::milo;
use super::write::{self, Decision, Tally};
use crate::datastore::Entry;

/// Where the last file is noted: `kubectl`'s place, so that either may go on where the other stopped.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Write) -> Result<Answer, Error> {
    let manifests = manifest::load(&args.filename, context.stdin)?;
    let trial = args.dry_run.trial()?;
    let mut ipam = context.open_to_write(trial)?;
    let mut tally = Tally::new(trial);
    for manifest in &manifests {
        if let Kind::Milo(kind) = manifest.kind {
            milo::apply(context, &mut ipam, &mut tally, kind, manifest);
            continue;
        }
        tally.edit(&mut ipam, manifest.kind, &manifest.name, |stored| {
            decide(context, manifest.kind, &manifest.object, stored)
        });
    }
    write::settle(&mut ipam);
    drop(ipam);
    Ok(tally.answer(context))
}

fn decide(context: &Context<'_>, kind: Kind, wanted: &Value, stored: Option<&Entry>) -> Decision {
    let (mut wanted, note) = noted(wanted);
    let Some(stored) = stored else {
        annotations(&mut wanted).insert(LAST_APPLIED.into(), note.into());
        return Ok(("created", Some(write::object(kind, write::fresh(context, wanted))?)));
    };
    let live = write::stored_resource(stored);
    let last = last_applied(&live);
    if last.as_ref() == Some(&wanted) && is_so(&live, &wanted) {
        return Ok(("unchanged", None));
    }
    let object = write::object(kind, merged(live, &wanted, note))?;
    Ok(if object == stored.object { ("unchanged", None) } else { ("configured", Some(object)) })
}

/// What a file says of a resource, without what is nobody's wish, and the note of it.
pub(super) fn noted(wanted: &Value) -> (Value, String) {
    let mut wanted = write::essence(wanted);
    annotations(&mut wanted).remove(LAST_APPLIED);
    drop_empty(&mut wanted);
    let note = wanted.to_string();
    (wanted, note)
}

/// What becomes of a resource, or of none, by what a file says now.
pub(super) fn merged(mut live: Value, wanted: &Value, note: String) -> Value {
    let last = last_applied(&live);
    merge_members(&mut live, last.as_ref(), wanted);
    annotations(&mut live).insert(LAST_APPLIED.into(), note.into());
    live
}

fn last_applied(live: &Value) -> Option<Value> {
    let note = live.pointer("/metadata/annotations").and_then(|annotations| annotations.get(LAST_APPLIED));
    note.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok())
}

/// Whether everything that is wanted is so.
fn is_so(live: &Value, wanted: &Value) -> bool {
    let mut merged = live.clone();
    merge_members(&mut merged, Some(wanted), wanted);
    merged == *live
}

/// Labels, annotations and specification; names and kinds agree already.
fn merge_members(live: &mut Value, last: Option<&Value>, wanted: &Value) {
    for path in [&["metadata", "labels"][..], &["metadata", "annotations"], &["spec"]] {
        let part = |whole: &Value| {
            path.iter().try_fold(whole, |value, key| value.get(key)).and_then(Value::as_object).cloned()
        };
        let (last, wanted) = (last.and_then(part).unwrap_or_default(), part(wanted).unwrap_or_default());
        if !last.is_empty() || !wanted.is_empty() {
            merge(object_at(live, path), &last, &wanted);
        }
    }
}

/// Takes back what was wanted last time and is not now, and sets what is wanted. Lists are replaced as a whole.
fn merge(live: &mut Map<String, Value>, last: &Map<String, Value>, wanted: &Map<String, Value>) {
    live.retain(|key, _| !last.contains_key(key) || wanted.contains_key(key));
    for (key, value) in wanted {
        match (live.get_mut(key), value) {
            (Some(Value::Object(live)), Value::Object(value)) => {
                let nothing = Map::new();
                merge(live, last.get(key).and_then(Value::as_object).unwrap_or(&nothing), value);
            }
            _ => drop(live.insert(key.clone(), value.clone())),
        }
    }
}

fn annotations(resource: &mut Value) -> &mut Map<String, Value> {
    object_at(resource, &["metadata", "annotations"])
}

/// An object in a resource, made where it is not.
fn object_at<'a>(resource: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let found = path.iter().fold(resource, |value, key| {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        &mut value[key]
    });
    if !found.is_object() {
        *found = Value::Object(Map::new());
    }
    match found {
        Value::Object(members) => members,
        _ => unreachable!("it was just made one"),
    }
}

/// No labels are the same as an empty object of labels.
fn drop_empty(resource: &mut Value) {
    if let Some(metadata) = resource.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| value.as_object().is_none_or(|members| !members.is_empty()));
    }
}
