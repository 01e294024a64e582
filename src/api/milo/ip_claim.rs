use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Condition, LocalRef, ObjectRef, PoolRef, PoolSelector, ReclaimPolicy};
use crate::api::{Resource, Spec};
use crate::clock::Timestamp;
use crate::net::{Cidr, Family};

/// A request for a CIDR of some size.
pub type IpClaim = Resource<IpClaimSpec>;

/// The specification of an [`IpClaim`]. Only the reclaim policy can be changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpClaimSpec {
    /// The family of its addresses: the pool's.
    pub ip_family: Family,
    /// The prefix length of the CIDR, at least 1.
    pub prefix_length: u8,
    /// The pool. Either this or a selector is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<PoolRef>,
    /// Which pool, by its labels: the first that matches, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_selector: Option<PoolSelector>,
    /// What becomes of the allocation when the claim is deleted. Absent: it goes too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<ReclaimPolicy>,
    /// Whom it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_ref: Option<ObjectRef>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Spec for IpClaimSpec {
    const API_VERSION: &'static str = super::API_VERSION;
    const KIND: &'static str = "IPClaim";
    const PLURAL: &'static str = "ipclaims";
}

/// What the engine reports of an [`IpClaim`]. What a manifest says of it is ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpClaimStatus {
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClaimPhase>,
    /// What was carved for it.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "allocatedCIDR")]
    pub allocated_cidr: Option<Cidr>,
    /// The allocation that records it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_allocation_ref: Option<LocalRef>,
    /// What is so of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimPhase {
    /// Asked for. A claim is bound in the commit that makes it, so nothing here ever says so.
    Pending,
    /// It has its CIDR.
    Bound,
    /// Being deleted.
    Releasing,
    /// It failed. As [`ClaimPhase::Pending`].
    Error,
}

impl IpClaimStatus {
    /// That a claim got a CIDR of a pool, which an allocation records.
    #[must_use]
    pub fn bound(cidr: Cidr, allocation: &str, pool: &str, now: Timestamp) -> Self {
        let carved = format!("{cidr} was carved out of pool `{pool}`");
        let recorded = format!("IPAllocation `{allocation}` records it");
        Self {
            phase: Some(ClaimPhase::Bound),
            allocated_cidr: Some(cidr),
            bound_allocation_ref: Some(LocalRef::to(allocation)),
            conditions: vec![
                Condition::holds("Allocated", "AllocationSucceeded", carved, Some(now)),
                Condition::holds("Bound", "AllocationBound", recorded, Some(now)),
                Condition::holds("Ready", "Ready", "the CIDR may be used", Some(now)),
            ],
            extra: Map::new(),
        }
    }

    /// What is reported of a claim. `None`: nothing, or nothing readable.
    #[must_use]
    pub fn of(claim: &IpClaim) -> Option<Self> {
        serde_json::from_value(claim.status.clone()?).ok()
    }

    /// As a resource carries it.
    #[must_use]
    pub fn into_value(self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_comes_back_as_it_was_written_unknown_fields_too() {
        let written = json!({
            "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPClaim", "metadata": { "name": "web" },
            "spec": {
                "ipFamily": "IPv6", "prefixLength": 64, "reclaimPolicy": "Retain", "later": [1],
                "poolRef": { "name": "p", "projectRef": { "name": "other" } },
                "ownerRef": { "apiGroup": "apps", "kind": "Deployment", "name": "web", "namespace": "shop" },
            },
        });
        let claim: IpClaim = serde_json::from_value(written.clone()).expect("a claim");
        assert_eq!(claim.spec.ip_family, Family::V6);
        assert_eq!(serde_json::to_value(&claim).expect("JSON"), written);
    }

    #[test]
    fn a_bound_claim_names_its_allocation() {
        let cidr = "10.0.0.0/24".parse().expect("a CIDR");
        let status = IpClaimStatus::bound(cidr, "alloc-1", "web", Timestamp::from_nanos(0));
        let shown = status.into_value().expect("JSON");
        assert_eq!(shown["phase"], "Bound");
        assert_eq!(shown["boundAllocationRef"], json!({ "name": "alloc-1" }));
        assert_eq!(shown["conditions"].as_array().map(Vec::len), Some(3));
    }
}
