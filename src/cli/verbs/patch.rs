//! `patch`: some fields of a resource, by a merge patch (RFC 7386) or a JSON patch (RFC 6902).

mod json_patch;

use serde_json::{Map, Value};

use super::super::args::Patch;
use super::super::error::Error;
use super::super::kinds::Kind;
use super::super::{Answer, Context, manifest};
use super::get::Selection;
use super::milo;
use super::write::{self, Decision, Declined, Tally};
use crate::datastore::Entry;

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Merge,
    Json,
}

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Patch) -> Result<Answer, Error> {
    let selection = Selection::parse(&args.kind, args.name.as_slice())?;
    let kind = selection.kind;
    if kind.schema().is_none() {
        return Err(Error::ReadOnly(kind));
    }
    let [name] = &*selection.names else {
        return Err(Error::Argument {
            what: "the resource".into(),
            found: args.kind.clone(),
            expected: "KIND NAME, or KIND/NAME".into(),
        });
    };
    let language = match &*args.language {
        "merge" | "strategic" => Language::Merge,
        "json" => Language::Json,
        other => {
            let (what, found) = ("`--type`".into(), other.to_owned());
            return Err(Error::Argument { what, found, expected: "`merge` or `json`".into() });
        }
    };
    let patch = manifest::value(&args.change).map_err(|problem| Error::Argument {
        what: "`--patch`".into(),
        found: args.change.clone(),
        expected: format!("a document: {problem}"),
    })?;
    let trial = args.dry_run.trial()?;
    let mut ipam = context.open_to_write(trial)?;
    let mut tally = Tally::new(trial);
    if let Kind::Milo(of) = kind {
        milo::patch(context, &mut ipam, &mut tally, of, name, |before| {
            patched(kind, language, &patch, before)
        });
    } else {
        tally.edit(&mut ipam, kind, name, |stored| {
            decide(kind, language, &patch, stored.ok_or(Declined::Missing)?)
        });
    }
    write::settle(&mut ipam);
    drop(ipam);
    Ok(tally.answer(context))
}

fn decide(kind: Kind, language: Language, patch: &Value, stored: &Entry) -> Decision {
    let before = write::stored_resource(stored);
    let mut after = patched(kind, language, patch, &before)?;
    write::check_version(&after, stored)?;
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    manifest::strip_nulls(&mut after);
    let object = write::object(kind, after)?;
    Ok(if object == stored.object { ("patched (no change)", None) } else { ("patched", Some(object)) })
}

/// A resource with a patch applied, which may say in which state it must be.
fn patched(kind: Kind, language: Language, patch: &Value, before: &Value) -> Result<Value, Declined> {
    let mut after = before.clone();
    match language {
        Language::Merge if !patch.is_object() => {
            return Err(Declined::Patch("is no object, as a merge patch is".into()));
        }
        Language::Merge => merge(&mut after, patch),
        Language::Json => json_patch::apply(&mut after, patch).map_err(Declined::Patch)?,
    }
    for fixed in ["/apiVersion", "/kind", "/metadata/name"] {
        if before.pointer(fixed) != after.pointer(fixed) {
            return Err(Declined::Patch(format!("changes `{}`, which stays", fixed[1..].replace('/', "."))));
        }
    }
    // What somebody else wrote there is not for this patch to answer for.
    if let Some(schema) = kind.schema() {
        let old = manifest::problems_of(kind, schema, before);
        if let Some(problem) =
            manifest::problems_of(kind, schema, &after).into_iter().find(|problem| !old.contains(problem))
        {
            return Err(Declined::Invalid(problem.to_string()));
        }
    }
    Ok(after)
}

/// RFC 7386: members are set, null takes them away, and objects are patched member by member.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_does_what_its_rfc_says() {
        // The table of RFC 7386, appendix A.
        for (before, patch, after) in [
            (json!({ "a": "b" }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": "b" }), json!({ "b": "c" }), json!({ "a": "b", "b": "c" })),
            (json!({ "a": "b" }), json!({ "a": null }), json!({})),
            (json!({ "a": "b", "b": "c" }), json!({ "a": null }), json!({ "b": "c" })),
            (json!({ "a": ["b"] }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": "c" }), json!({ "a": ["b"] }), json!({ "a": ["b"] })),
            (
                json!({ "a": { "b": "c" } }),
                json!({ "a": { "b": "d", "c": null } }),
                json!({ "a": { "b": "d" } }),
            ),
            (json!({ "a": [{ "b": "c" }] }), json!({ "a": [1] }), json!({ "a": [1] })),
            (json!({ "e": null }), json!({ "a": 1 }), json!({ "e": null, "a": 1 })),
            (json!([1, 2]), json!({ "a": "b", "c": null }), json!({ "a": "b" })),
            (json!({}), json!({ "a": { "bb": { "ccc": null } } }), json!({ "a": { "bb": {} } })),
        ] {
            let mut target = before.clone();
            merge(&mut target, &patch);
            assert_eq!(target, after, "{before} patched by {patch}");
        }
    }
}
