//! What each object must hold by itself. Rules between objects are the engine's.

mod ipam_configuration;

use std::fmt;

pub use ipam_configuration::{IP_COOLDOWN_SECONDS_MAX, MAX_BLOCKS_PER_HOST_MAX, check_ipam_configuration};

/// Something that an object may not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, as a path such as `spec.reservedCIDRs[2]`. Empty: the object as a whole.
    pub field: String,
    /// What is wrong, and what is accepted: the rest of a sentence that starts with the field.
    pub reason: String,
}

impl Problem {
    /// A problem of a field.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            return f.write_str(&self.reason);
        }
        write!(f, "`{}` {}", self.field.escape_debug(), self.reason)
    }
}
