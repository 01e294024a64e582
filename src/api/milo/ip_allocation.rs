use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Condition, ConditionStatus, LocalRef, set_condition};
use crate::api::{Resource, Spec};
use crate::clock::Timestamp;
use crate::net::{Cidr, Family};

/// A CIDR that was carved out of a pool.
pub type IpAllocation = Resource<IpAllocationSpec>;

/// The specification of an [`IpAllocation`]; none of it can be changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAllocationSpec {
    /// The family of its addresses: the pool's.
    pub ip_family: Family,
    /// The pool.
    pub pool_ref: LocalRef,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl IpAllocationSpec {
    /// What is carved out of a pool.
    pub fn new(ip_family: Family, pool: impl Into<String>) -> Self {
        Self { ip_family, pool_ref: LocalRef::to(pool), extra: Map::new() }
    }
}

impl Spec for IpAllocationSpec {
    const API_VERSION: &'static str = super::API_VERSION;
    const KIND: &'static str = "IPAllocation";
    const PLURAL: &'static str = "ipallocations";
}

/// What the engine reports of an [`IpAllocation`]. What a manifest says of it is ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAllocationStatus {
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AllocationPhase>,
    /// What was carved.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "allocatedCIDR")]
    pub allocated_cidr: Option<Cidr>,
    /// The claim that holds it. Absent: none does; it was applied by itself, or outlived its claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<LocalRef>,
    /// What is so of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Where an allocation stands. Never `Bound`: that is for claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocationPhase {
    /// Asked for, not carved.
    Pending,
    /// Carved.
    Ready,
    /// There was no room. A refusal leaves no object, so nothing here ever says so.
    Exhausted,
    /// It failed. As [`AllocationPhase::Exhausted`].
    Error,
}

impl IpAllocationStatus {
    /// That a CIDR was carved out of a pool.
    #[must_use]
    pub fn carved(cidr: Cidr, pool: &str, now: Timestamp) -> Self {
        let message = format!("{cidr} was carved out of pool `{pool}`");
        Self {
            phase: Some(AllocationPhase::Ready),
            allocated_cidr: Some(cidr),
            conditions: vec![
                Condition::holds("Allocated", "AllocationSucceeded", message, Some(now)),
                Condition::holds("Ready", "Ready", "the CIDR may be used", Some(now)),
            ],
            ..Self::default()
        }
    }

    /// That a claim holds it: a new one, or one of the same name as that which left it.
    #[must_use]
    pub fn bound_to(mut self, claim: &str, now: Timestamp) -> Self {
        let was_retained =
            self.conditions.iter().any(|c| c.kind == "Bound" && c.status == ConditionStatus::False);
        let reason = if was_retained { "Reclaimed" } else { "ClaimBound" };
        let message = format!("IPClaim `{claim}` holds it");
        set_condition(&mut self.conditions, Condition::holds("Bound", reason, message, Some(now)));
        self.claim_ref = Some(LocalRef::to(claim));
        self
    }

    /// That its claim was deleted and it stays, as the claim's reclaim policy wanted.
    #[must_use]
    pub fn retained(mut self, now: Timestamp) -> Self {
        let claim = self.claim_ref.take().map(|claim| format!(" `{}`", claim.name)).unwrap_or_default();
        let message =
            format!("IPClaim{claim} was deleted with `reclaimPolicy: Retain`; its addresses stay taken");
        set_condition(&mut self.conditions, Condition::fails("Bound", "Retained", message, Some(now)));
        self
    }

    /// What is reported of an allocation. `None`: nothing, or nothing readable.
    #[must_use]
    pub fn of(allocation: &IpAllocation) -> Option<Self> {
        serde_json::from_value(allocation.status.clone()?).ok()
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
    fn a_carved_allocation_satisfies_who_waits_for_phase_or_condition() {
        let now = Timestamp::from_nanos(0);
        let status = IpAllocationStatus::carved("10.0.0.0/26".parse().expect("a CIDR"), "web", now);
        let mut allocation = IpAllocation::new("a", IpAllocationSpec::new(Family::V4, "web"));
        allocation.status = status.clone().into_value();
        let shown = serde_json::to_value(&allocation).expect("JSON");
        assert_eq!(shown["spec"], json!({ "ipFamily": "IPv4", "poolRef": { "name": "web" } }));
        assert_eq!(shown["status"]["phase"], "Ready");
        assert_eq!(shown["status"]["allocatedCIDR"], "10.0.0.0/26");
        let types: Vec<_> = status.conditions.iter().map(|c| (c.kind.as_str(), c.status)).collect();
        assert_eq!(types, [("Allocated", ConditionStatus::True), ("Ready", ConditionStatus::True)]);
        assert_eq!(IpAllocationStatus::of(&allocation), Some(status));
    }

    #[test]
    fn an_allocation_outlives_its_claim_and_is_taken_up_again() {
        let now = Timestamp::from_nanos(0);
        let bound = IpAllocationStatus::carved("10.0.0.0/26".parse().expect("a CIDR"), "web", now)
            .bound_to("front", now);
        let reason = |status: &IpAllocationStatus| {
            let bound = status.conditions.iter().find(|c| c.kind == "Bound").expect("a condition");
            (bound.status, bound.reason.clone())
        };
        assert_eq!(reason(&bound), (ConditionStatus::True, "ClaimBound".into()));
        assert_eq!(bound.claim_ref, Some(LocalRef::to("front")));
        let retained = bound.retained(now);
        assert_eq!(reason(&retained), (ConditionStatus::False, "Retained".into()));
        assert_eq!(retained.claim_ref, None);
        assert_eq!(reason(&retained.bound_to("front", now)), (ConditionStatus::True, "Reclaimed".into()));
    }
}
