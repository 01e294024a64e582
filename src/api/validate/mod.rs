//! What each object must hold by itself. Rules between objects, and the selector language, are the engine's.
//!
//! An object is first held against its kind's [`schema`](super::schema): unknown fields, types, ranges and words. What
//! no schema can say follows, field by field.

mod check;
mod ip_pool;
mod ip_reservation;
mod ipam_configuration;
pub mod milo;
mod path;

use std::fmt;

use serde_json::Value;

pub use check::{closest_field, is_dns_subdomain};
pub use ip_reservation::normalise_reserved_cidrs;
pub use ipam_configuration::{IP_COOLDOWN_SECONDS_MAX, MAX_BLOCKS_PER_HOST_MAX, check_ipam_configuration};
pub use path::{Path, Step};

use super::calico::{IpPoolSpec, IpReservationSpec, IpamConfigurationSpec};
use super::schema::Schema;

/// Something that an object may not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field. Empty: the object as a whole.
    pub path: Path,
    /// What is wrong, and what is accepted: the rest of a sentence that starts with the field.
    pub reason: String,
}

impl Problem {
    /// A problem of a field.
    pub fn new(path: Path, reason: impl Into<String>) -> Self {
        Self { path, reason: reason.into() }
    }

    /// A problem of a field of the specification.
    pub fn spec(field: &str, reason: impl Into<String>) -> Self {
        Self::new(Path::root().key("spec").key(field), reason)
    }
}

/// Where an annotation stands.
pub(super) fn annotation(name: &str) -> Path {
    Path::root().key("metadata").key("annotations").key(name)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_root() {
            return f.write_str(&self.reason);
        }
        write!(f, "`{}` {}", self.path, self.reason)
    }
}

/// Everything that is wrong with an object by itself; nothing, when it may be stored.
#[must_use]
pub fn check_object(schema: &Schema, object: &Value) -> Vec<Problem> {
    let is_milo = schema.api_version == super::milo::API_VERSION;
    let mut problems = check::check(schema, object);
    if is_milo {
        milo::name_generations(schema, &mut problems);
    }
    // What follows reads the specification as what it is declared to be.
    if problems.is_empty() {
        if is_milo {
            milo::check(schema, object, &mut problems);
        } else {
            check_meaning(schema, object, &mut problems);
        }
    }
    problems
}

fn check_meaning(schema: &Schema, object: &Value, problems: &mut Vec<Problem>) {
    let said = object.get("spec").filter(|spec| !spec.is_null()).cloned();
    let mut spec = said.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let unreadable = |error: serde_json::Error| Problem::new(Path::root().key("spec"), error.to_string());
    match schema.kind {
        "IPPool" => match serde_json::from_value::<IpPoolSpec>(spec) {
            Ok(spec) => ip_pool::check(&spec, problems),
            Err(error) => problems.push(unreadable(error)),
        },
        "IPReservation" => match serde_json::from_value::<IpReservationSpec>(spec) {
            Ok(spec) => ip_reservation::check(&spec, problems),
            Err(error) => problems.push(unreadable(error)),
        },
        "IPAMConfiguration" => match serde_json::from_value::<IpamConfigurationSpec>(spec) {
            Ok(spec) => problems.extend(check_ipam_configuration(&spec).err()),
            Err(error) => problems.push(unreadable(error)),
        },
        _ => {}
    }
}
