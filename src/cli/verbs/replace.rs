//! `replace`: resources that exist become what a file says, whole.

use serde_json::Value;

use super::super::args::Write;
use super::super::error::Error;
use super::super::kinds::Kind;
use super::super::{Answer, Context, manifest};
use super::milo;
use super::write::{self, Decision, Declined, Tally};
use crate::datastore::Entry;

/// Serves it. Each resource is tried, whatever became of those before it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Write) -> Result<Answer, Error> {
    let manifests = manifest::load(&args.filename, context.stdin)?;
    let trial = args.dry_run.trial()?;
    let mut ipam = context.open_to_write(trial)?;
    let mut tally = Tally::new(trial);
    for manifest in &manifests {
        if let Kind::Milo(kind) = manifest.kind {
            milo::replace(context, &mut ipam, &mut tally, kind, manifest);
            continue;
        }
        tally.edit(&mut ipam, manifest.kind, &manifest.name, |stored| {
            decide(manifest.kind, &manifest.object, stored.ok_or(Declined::Missing)?)
        });
    }
    write::settle(&mut ipam);
    drop(ipam);
    Ok(tally.answer(context))
}

fn decide(kind: Kind, wanted: &Value, stored: &Entry) -> Decision {
    write::check_version(wanted, stored)?;
    Ok(("replaced", Some(write::object(kind, replaced(write::stored_resource(stored), wanted))?)))
}

/// A resource with what a file says in the place of all that people say of it.
pub(super) fn replaced(mut resource: Value, wanted: &Value) -> Value {
    let wanted = write::essence(wanted);
    resource["spec"] = wanted["spec"].clone();
    for key in ["labels", "annotations"] {
        // Whatever else the store or others say of it stays.
        if let Some(metadata) = resource.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove(key);
            if let Some(said) = wanted["metadata"].get(key) {
                metadata.insert(key.to_owned(), said.clone());
            }
        }
    }
    resource
}
