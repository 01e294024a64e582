//! Resources as they are written on the wire: plain data with public fields, and what each object must hold by itself.
//!
//! No I/O and no decisions about addresses. Unknown fields are kept: other programs own them.

pub mod calico;
pub mod milo;
mod names;
mod resource;
pub mod schema;
pub mod validate;

pub use names::{Affinity, HandleId, HostName, InvalidName, check_vm_namespace};
pub use resource::{ObjectMeta, Resource, Spec};

/// The project of whatever names none.
pub const DEFAULT_PROJECT: &str = "default";
