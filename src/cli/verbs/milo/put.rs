//! Making and changing: what is wanted is worked out here, and the engine carves, or refuses.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::super::Context;
use super::super::super::error::Error;
use super::super::super::kinds::{Kind, Milo};
use super::super::super::manifest::{self, Manifest};
use super::super::super::store::Store;
use super::super::write::{self, Declined, Tally};
use super::super::{apply as three_way, replace as whole};
use super::{failure, read, remove};
use crate::datastore::{ProjectName, run_in_place};
use crate::ipam::{CAS_ATTEMPTS_MAX, CarveError, IfExists, Ipam, Outcome, Trial};

/// Makes a resource what a file says; what an earlier file said and this one does not is taken back.
pub(in crate::cli::verbs) fn apply(
    context: &Context<'_>,
    ipam: &mut Ipam<Store>,
    tally: &mut Tally,
    kind: Milo,
    manifest: &Manifest,
) {
    let words = Words { created: "created", changed: "configured", unchanged: "unchanged" };
    let done = put(context, ipam, tally.trial(), (kind, &manifest.name), words, IfExists::Change, |live| {
        let (wanted, note) = three_way::noted(&manifest.object);
        let live = live.cloned().unwrap_or_else(|| wanted.clone());
        Ok(three_way::merged(live, &wanted, note))
    });
    tally.note(Kind::Milo(kind), &manifest.name, done);
}

/// Makes a resource that does not exist yet.
pub(in crate::cli::verbs) fn create(
    context: &Context<'_>,
    ipam: &mut Ipam<Store>,
    tally: &mut Tally,
    kind: Milo,
    manifest: &Manifest,
) {
    let words = Words { created: "created", changed: "created", unchanged: "created" };
    let done = put(context, ipam, tally.trial(), (kind, &manifest.name), words, IfExists::Refuse, |live| {
        if live.is_some() { Err(Declined::Exists) } else { Ok(write::essence(&manifest.object)) }
    });
    tally.note(Kind::Milo(kind), &manifest.name, done);
}

/// Makes a resource that exists what a file says, whole.
pub(in crate::cli::verbs) fn replace(
    context: &Context<'_>,
    ipam: &mut Ipam<Store>,
    tally: &mut Tally,
    kind: Milo,
    manifest: &Manifest,
) {
    let words = Words { created: "replaced", changed: "replaced", unchanged: "replaced" };
    let done = put(context, ipam, tally.trial(), (kind, &manifest.name), words, IfExists::Change, |live| {
        let live = live.ok_or(Declined::Missing)?;
        write::check_state(&manifest.object, version(live))?;
        Ok(whole::replaced(live.clone(), &manifest.object))
    });
    tally.note(Kind::Milo(kind), &manifest.name, done);
}

/// Changes some fields of a resource that exists.
pub(in crate::cli::verbs) fn patch(
    context: &Context<'_>,
    ipam: &mut Ipam<Store>,
    tally: &mut Tally,
    kind: Milo,
    name: &str,
    patched: impl Fn(&Value) -> Result<Value, Declined>,
) {
    let words = Words { created: "patched", changed: "patched", unchanged: "patched (no change)" };
    let done = put(context, ipam, tally.trial(), (kind, name), words, IfExists::Change, |live| {
        let live = live.ok_or(Declined::Missing)?;
        let mut after = patched(live)?;
        write::check_state(&after, version(live))?;
        after["metadata"]["resourceVersion"] = version(live).into();
        manifest::strip_nulls(&mut after);
        Ok(after)
    });
    tally.note(Kind::Milo(kind), name, done);
}

/// What is said about each outcome.
#[derive(Clone, Copy)]
struct Words {
    created: &'static str,
    changed: &'static str,
    unchanged: &'static str,
}

/// Puts what `wanted` makes of a resource as it stands now; it is asked again when that changed meanwhile.
fn put(
    context: &Context<'_>,
    ipam: &mut Ipam<Store>,
    trial: Trial,
    (kind, name): (Milo, &str),
    words: Words,
    if_exists: IfExists,
    wanted: impl Fn(Option<&Value>) -> Result<Value, Declined>,
) -> Result<(&'static str, Value), Error> {
    let declined = |reason| Error::Declined { kind: Kind::Milo(kind), name: name.to_owned(), reason };
    let reserved = || {
        let reason = "names with `block-` are those of hosts' blocks, which the plugin makes";
        declined(Declined::Invalid(reason.to_owned()))
    };
    remove::refuse_block(ipam, kind, name, reserved)?;
    let of_project = ProjectName { project: context.project()?, name: name.to_owned() };
    for _ in 0..CAS_ATTEMPTS_MAX {
        let live = read::one(ipam, kind, &of_project)?;
        let resource = wanted(live.as_ref()).map_err(declined)?;
        match carve(context, ipam, trial, (kind, &of_project), if_exists, resource)? {
            Ok(Outcome::Created(shown)) => return Ok((words.created, shown)),
            Ok(Outcome::Configured(shown)) => return Ok((words.changed, shown)),
            Ok(Outcome::Unchanged(shown)) => return Ok((words.unchanged, shown)),
            Err(CarveError::Changed { .. }) => {}
            // A sentence that every kind has.
            Err(CarveError::Exists) => return Err(declined(Declined::Exists)),
            Err(error) => return Err(failure(kind, name, error)),
        }
    }
    Err(crate::ipam::Error::Contended { attempts: CAS_ATTEMPTS_MAX, applied: 0 }.into())
}

/// Lets the engine put a resource.
fn carve(
    context: &Context<'_>,
    ipam: &mut Ipam<Store>,
    trial: Trial,
    (kind, name): (Milo, &ProjectName),
    if_exists: IfExists,
    resource: Value,
) -> Result<Result<Outcome<Value>, CarveError>, Error> {
    fn typed<T: DeserializeOwned>(kind: Milo, name: &ProjectName, resource: Value) -> Result<T, Error> {
        serde_json::from_value(resource).map_err(|error| Error::Declined {
            kind: Kind::Milo(kind),
            name: name.name.clone(),
            reason: Declined::Invalid(error.to_string()),
        })
    }
    fn shown<T: Serialize>(outcome: Outcome<T>) -> Outcome<Value> {
        let value = |resource: T| {
            let mut value = serde_json::to_value(resource).unwrap_or_default();
            // What was just written has a revision that only reading tells.
            if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("resourceVersion");
            }
            value
        };
        match outcome {
            Outcome::Created(made) => Outcome::Created(value(made)),
            Outcome::Configured(changed) => Outcome::Configured(value(changed)),
            Outcome::Unchanged(stands) => Outcome::Unchanged(value(stands)),
        }
    }
    let now = context.clock.now();
    let project = &name.project;
    Ok(match kind {
        Milo::Pool => {
            let owner = context.given_project()?;
            let pool = typed(kind, name, resource)?;
            run_in_place(ipam.put_pool(owner, &pool, if_exists, trial, now)).map(shown)
        }
        Milo::Allocation => {
            let allocation = typed(kind, name, resource)?;
            run_in_place(ipam.allocate(project, &allocation, if_exists, trial, now)).map(shown)
        }
        Milo::Claim => {
            let claim = typed(kind, name, resource)?;
            run_in_place(ipam.claim(project, &claim, if_exists, trial, now)).map(shown)
        }
    })
}

fn version(live: &Value) -> &str {
    live.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
}
