//! What the kinds of `ipam.miloapis.com/v1alpha1` must hold beyond their schema, and what of them may change.

mod change;
mod generations;
mod ip_allocation;
mod ip_claim;
mod ip_pool;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use change::{check_allocation_change, check_claim_change, check_pool_change};
pub use ip_pool::check_child;

use super::check::is_dns_subdomain;
use super::{Path, Problem};
use crate::api::ObjectMeta;
use crate::api::milo::{LocalRef, SizeAsked};
use crate::api::schema::Schema;
use crate::net::Family;

/// Says of fields that this version does not have, and a later one had, which one that was.
pub(super) fn name_generations(schema: &Schema, problems: &mut [Problem]) {
    for problem in problems {
        if let Some(reason) = generations::reason(schema.kind, &problem.path) {
            problem.reason = reason;
        }
    }
}

/// What no schema can say. The object holds against its schema.
pub(super) fn check(schema: &Schema, object: &Value, problems: &mut Vec<Problem>) {
    let metadata: ObjectMeta = match parse(object.get("metadata"), "metadata") {
        Ok(metadata) => metadata,
        Err(problem) => return problems.push(problem),
    };
    let spec = object.get("spec");
    let checked = match schema.kind {
        "IPAllocation" => parse(spec, "spec").map(|spec| ip_allocation::check(&metadata, &spec, problems)),
        "IPClaim" => parse(spec, "spec").map(|spec| ip_claim::check(&metadata, &spec, problems)),
        "IPPool" => parse(spec, "spec").map(|spec| ip_pool::check(&spec, problems)),
        _ => Ok(()),
    };
    problems.extend(checked.err());
}

/// A part of an object as what its schema says it is, where null is as good as absent.
fn parse<T: DeserializeOwned>(part: Option<&Value>, name: &str) -> Result<T, Problem> {
    let mut part = part.cloned().unwrap_or_default();
    drop_nulls(&mut part);
    if part.is_null() {
        part = Value::Object(serde_json::Map::new());
    }
    serde_json::from_value(part).map_err(|error| Problem::new(Path::root().key(name), error.to_string()))
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, value| !value.is_null());
        members.values_mut().for_each(drop_nulls);
    }
}

fn check_name(name: &str, what: &str, path: &Path, problems: &mut Vec<Problem>) {
    if !is_dns_subdomain(name) {
        let reason = format!("is `{}`; expected the name of {what}", name.escape_debug());
        problems.push(Problem::new(path.key("name"), reason));
    }
}

fn check_project(project: Option<&LocalRef>, of: &Path, problems: &mut Vec<Problem>) {
    if let Some(project) = project {
        check_name(&project.name, "a project", &of.key("projectRef"), problems);
    }
}

/// What the annotations ask for. `None`: nothing that can be.
fn check_size(metadata: &ObjectMeta, family: Family, problems: &mut Vec<Problem>) -> Option<SizeAsked> {
    SizeAsked::of(metadata, family).map_err(|found| problems.extend(found)).ok()
}

#[cfg(test)]
mod tests;
