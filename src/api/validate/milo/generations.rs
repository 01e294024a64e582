//! Several APIs were served as `ipam.miloapis.com/v1alpha1`. A manifest of another one is told so, field by field.

use crate::api::validate::Path;

/// A field that a later API of the version had.
struct Later {
    kind: &'static str,
    /// Its path in the specification.
    field: &'static str,
    /// What to do here.
    instead: &'static str,
}

const fn later(kind: &'static str, field: &'static str, instead: &'static str) -> Later {
    Later { kind, field, instead }
}

const NAME_A_POOL: &str = "name a pool in `spec.poolRef`";
const SIZE: &str = "ask for a size by the annotation `ipam.miloapis.com/prefix-length`";
const RANGE: &str = "ask for one range by the annotation `ipam.miloapis.com/requested-cidr`";
const OF_CLAIM: &str = "it belongs to an IPClaim, which makes its allocation by itself";
const LEAVE_OUT: &str = "leave it out";

const LATER: [Later; 21] = [
    later("IPAllocation", "className", NAME_A_POOL),
    later("IPAllocation", "purpose", LEAVE_OUT),
    later("IPAllocation", "claimRef", OF_CLAIM),
    later("IPAllocation", "scope", LEAVE_OUT),
    later("IPAllocation", "reclaimPolicy", OF_CLAIM),
    later("IPAllocation", "ownerRef", OF_CLAIM),
    // An earlier one.
    later("IPAllocation", "cidr", RANGE),
    // Never had, but asked for.
    later("IPAllocation", "prefixLength", SIZE),
    later("IPAllocation", "address", RANGE),
    later("IPClaim", "className", NAME_A_POOL),
    later("IPClaim", "address", RANGE),
    later("IPClaim", "cidr", RANGE),
    later("IPClaim", "scope", LEAVE_OUT),
    later("IPClaim", "target", "what is carved is always a block"),
    later("IPClaim", "ownerRef.uid", LEAVE_OUT),
    later("IPPool", "classNames", "a claim names its pool, or selects it by labels"),
    later("IPPool", "className", "a claim names its pool, or selects it by labels"),
    later("IPPool", "classRef", "a child pool names its parent in `spec.parentPoolRef`"),
    later("IPPool", "scope", LEAVE_OUT),
    later("IPPool", "reservations", "carve what is to be kept out as IPAllocations"),
    later("IPPool", "maxRetentionLease", "what is retained stays until it is deleted"),
];

/// What to say of a field that is not in this API. `None`: no other had it either, or it is.
pub(super) fn reason(kind: &str, path: &Path) -> Option<String> {
    let path = path.to_string();
    let field = path.strip_prefix("spec.")?;
    let found = LATER.iter().find(|later| later.kind == kind && later.field == field)?;
    Some(format!(
        "is of another API that was served under the same version, and not supported: {}",
        found.instead
    ))
}
