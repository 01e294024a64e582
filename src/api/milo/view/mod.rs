//! How what is stored looks as resources of this group: pools, which the other group has too, and blocks, which are
//! stored as blocks alone. Pure conversions.

mod block;
mod pool;

pub use block::{BlockShown, owner};
pub use pool::PoolRecord;

/// The label that says what made an allocation that nobody applied.
pub const MANAGED_BY_LABEL: &str = "ipam.miloapis.com/managed-by";
/// What [`MANAGED_BY_LABEL`] says of a block.
pub const MANAGED_BY_CNI: &str = "cni";
/// The label with the host of a block, or a hash of its name where that can be no label's value; and the annotation with
/// the name in that case.
pub const HOST_LABEL: &str = "ipam.miloapis.com/host";
/// The same for a block whose owner is no host.
pub const VIRTUAL_LABEL: &str = "ipam.miloapis.com/virtual";
/// The label with the state of a block's affinity.
pub const AFFINITY_STATE_LABEL: &str = "ipam.miloapis.com/affinity-state";
