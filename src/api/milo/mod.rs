//! The resources of `ipam.miloapis.com/v1alpha1`: people carve CIDRs out of the same pools that blocks come from.
//!
//! Several APIs were served under that one version. This is the one of the published reference: a claim, or an
//! allocation, names a pool. What later ones added is recognised and refused by name
//! ([`validate`](super::validate)).

mod capacity;
mod condition;
mod ip_allocation;
mod ip_claim;
mod ip_pool;
mod names;
mod pool_extras;
mod pool_selector;
mod shared;
mod size;
pub mod view;

pub use capacity::{Capacity, Slots};
pub use condition::{Condition, ConditionStatus, set_condition};
pub use ip_allocation::{AllocationPhase, IpAllocation, IpAllocationSpec, IpAllocationStatus};
pub use ip_claim::{ClaimPhase, IpClaim, IpClaimSpec, IpClaimStatus};
pub use ip_pool::{
    AllocationRules, ExactCapacity, IpPool, IpPoolSpec, IpPoolStatus, OutOfBounds, PoolCapacity, PoolPhase,
    PoolSlots,
};
pub use names::{BLOCK_NAME_PREFIX, allocation_of_claim, block_of_name, name_of_block};
pub use pool_extras::PoolExtras;
pub use pool_selector::{LabelRequirement, PoolSelector, SelectorOperator};
pub use shared::{LocalRef, ObjectRef, PoolRef, ReclaimPolicy, Strategy, Visibility};
pub use size::SizeAsked;

use super::ObjectMeta;

/// Group and version of every resource here.
pub const API_VERSION: &str = "ipam.miloapis.com/v1alpha1";

/// The one namespace that allocations and claims are in; manifests leave it out or name it.
pub const NAMESPACE: &str = "default";

/// The annotation by which an allocation asks for a prefix length. An extension of ours.
pub const PREFIX_LENGTH_ANNOTATION: &str = "ipam.miloapis.com/prefix-length";
/// The annotation by which an allocation or a claim asks for one CIDR. An extension of ours.
pub const REQUESTED_CIDR_ANNOTATION: &str = "ipam.miloapis.com/requested-cidr";

/// The annotation with the project of a resource, where resources of several are listed. It is never stored.
pub const ALL_PROJECTS_ANNOTATION: &str = "ipam.miloapis.com/project";

/// Where `kubectl apply` notes what was applied last.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Puts an allocation or a claim into its namespace, as it is stored and shown.
pub fn set_namespace(metadata: &mut ObjectMeta) {
    metadata.extra.insert("namespace".to_owned(), NAMESPACE.into());
}
