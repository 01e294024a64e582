use super::{AFFINITY_STATE_LABEL, HOST_LABEL, MANAGED_BY_CNI, MANAGED_BY_LABEL, VIRTUAL_LABEL};
use crate::api::calico::AffinityState;
use crate::api::milo::names::{label_value, uid};
use crate::api::milo::{
    AllocationPhase, Condition, IpAllocation, IpAllocationSpec, IpAllocationStatus, name_of_block,
    set_namespace,
};
use crate::api::{Affinity, ObjectMeta};
use crate::clock::Timestamp;
use crate::net::Cidr;

/// A block, as far as it shows as an allocation.
#[derive(Clone, Copy, Debug)]
pub struct BlockShown<'a> {
    /// Its range.
    pub cidr: Cidr,
    /// Whom it is kept for.
    pub affinity: Option<&'a Affinity>,
    /// Where the record of its affinity stands. `None`: there is none; the block's own word counts.
    pub state: Option<AffinityState>,
    /// The pool that it was carved out of.
    pub pool: &'a str,
    /// Since when it is kept for whom it is. `None`: nobody knows.
    pub created: Option<Timestamp>,
    /// The datastore's token for its state.
    pub revision: Option<u64>,
}

impl BlockShown<'_> {
    /// The allocation as which it shows. It is not stored, and cannot be edited.
    #[must_use]
    pub fn to_allocation(&self) -> IpAllocation {
        let spec = IpAllocationSpec::new(self.cidr.family(), self.pool);
        let mut shown = IpAllocation::new(name_of_block(self.cidr), spec);
        self.describe(&mut shown.metadata);
        shown.status = IpAllocationStatus {
            phase: Some(if self.is_pending() { AllocationPhase::Pending } else { AllocationPhase::Ready }),
            allocated_cidr: Some(self.cidr),
            conditions: self.conditions(),
            ..IpAllocationStatus::default()
        }
        .into_value();
        shown
    }

    fn is_pending(&self) -> bool {
        self.affinity.is_some() && self.state == Some(AffinityState::Pending)
    }

    fn describe(&self, metadata: &mut ObjectMeta) {
        let created = self.created.map(|time| time.to_string());
        let since = created.as_deref().unwrap_or_default();
        metadata.uid = Some(uid(&format!("{}/{}/{since}", self.pool, self.cidr.first())));
        metadata.creation_timestamp = created;
        metadata.resource_version = self.revision.map(|revision| revision.to_string());
        set_namespace(metadata);
        let mut label = |key: &str, value: &str| metadata.labels.insert(key.to_owned(), value.to_owned());
        label(MANAGED_BY_LABEL, MANAGED_BY_CNI);
        let Some(affinity) = self.affinity else { return };
        label(AFFINITY_STATE_LABEL, state_word(self.state.unwrap_or_default()));
        let key = match affinity {
            Affinity::Host(_) => HOST_LABEL,
            Affinity::Virtual(_) => VIRTUAL_LABEL,
        };
        let name = affinity.name().as_str();
        let value = label_value(name);
        label(key, &value);
        if value != name {
            metadata.annotations.insert(key.to_owned(), name.to_owned());
        }
    }

    fn conditions(&self) -> Vec<Condition> {
        let (since, cidr, pool) = (self.created, self.cidr, self.pool);
        let message = format!("{cidr} was carved out of pool `{pool}` for a block");
        let mut conditions = vec![Condition::holds("Allocated", "AllocationSucceeded", message, since)];
        conditions.push(if self.is_pending() {
            let message = "the host has not confirmed that it takes the block";
            Condition::fails("Ready", "AffinityPending", message, since)
        } else {
            Condition::holds("Ready", "Ready", "the block serves pods", since)
        });
        conditions.push(match self.affinity {
            Some(Affinity::Host(host)) => {
                let message = format!("the block is kept for host `{host}`");
                Condition::holds("Bound", "HostAffinity", message, since)
            }
            Some(Affinity::Virtual(name)) => {
                let message = format!("the block is kept for `{name}`, which is no host");
                Condition::holds("Bound", "VirtualAffinity", message, since)
            }
            None => {
                let message = "the block is kept for nobody; it goes with its last address";
                Condition::fails("Bound", "NoAffinity", message, since)
            }
        });
        if self.affinity.is_some() && self.state == Some(AffinityState::PendingDeletion) {
            let message = "the host is giving the block up";
            conditions.push(Condition::holds("Releasing", "AffinityPendingDeletion", message, since));
        }
        conditions
    }
}

/// As the affinity's own record says it.
const fn state_word(state: AffinityState) -> &'static str {
    match state {
        AffinityState::Pending => "pending",
        AffinityState::Confirmed => "confirmed",
        AffinityState::PendingDeletion => "pendingDeletion",
    }
}

/// Who holds an allocation, in words: a claim, a host, or nobody but itself.
#[must_use]
pub fn owner(allocation: &IpAllocation) -> Option<String> {
    let metadata = &allocation.metadata;
    let named = |key: &str| metadata.annotations.get(key).or_else(|| metadata.labels.get(key));
    if metadata.labels.get(MANAGED_BY_LABEL).is_some_and(|by| by == MANAGED_BY_CNI) {
        return named(HOST_LABEL)
            .map(|host| format!("host:{host}"))
            .or_else(|| named(VIRTUAL_LABEL).map(|name| format!("virtual:{name}")));
    }
    let claim = IpAllocationStatus::of(allocation)?.claim_ref?;
    Some(format!("ipclaim/{}", claim.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(affinity: Option<&Affinity>, state: Option<AffinityState>) -> IpAllocation {
        BlockShown {
            cidr: "10.65.3.64/26".parse().expect("a CIDR"),
            affinity,
            state,
            pool: "pods",
            created: Some(Timestamp::from_nanos(1_700_000_000_000_000_000)),
            revision: Some(7),
        }
        .to_allocation()
    }

    fn affinity(text: &str) -> Affinity {
        text.parse().expect(text)
    }

    /// The phase, and each condition as `Type=Status/Reason`.
    fn told(allocation: &IpAllocation) -> (AllocationPhase, Vec<String>) {
        let status = IpAllocationStatus::of(allocation).expect("a status");
        let told = status.conditions.iter().map(|c| format!("{}={:?}/{}", c.kind, c.status, c.reason));
        (status.phase.expect("a phase"), told.collect())
    }

    #[test]
    fn a_block_shows_as_an_allocation_that_says_which_host_has_it() {
        let shown = serde_json::to_value(shown(Some(&affinity("host:node-1")), None)).expect("JSON");
        let expected = serde_json::json!({
            "apiVersion": "ipam.miloapis.com/v1alpha1",
            "kind": "IPAllocation",
            "name": "block-10-65-3-64-26",
            "namespace": "default",
            "resourceVersion": "7",
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {
                "ipam.miloapis.com/managed-by": "cni",
                "ipam.miloapis.com/host": "node-1",
                "ipam.miloapis.com/affinity-state": "confirmed",
            },
            "spec": { "ipFamily": "IPv4", "poolRef": { "name": "pods" } },
        });
        for (field, value) in expected.as_object().expect("an object") {
            let place = if shown.get(field).is_some() { &shown[field] } else { &shown["metadata"][field] };
            assert_eq!(place, value, "{field}");
        }
        assert_eq!(shown["status"]["allocatedCIDR"], "10.65.3.64/26");
    }

    #[test]
    fn its_phase_and_conditions_follow_the_affinity() {
        let host = affinity("host:node-1");
        let (phase, told_) = told(&shown(Some(&host), Some(AffinityState::Confirmed)));
        let ready = ["Allocated=True/AllocationSucceeded", "Ready=True/Ready", "Bound=True/HostAffinity"];
        assert_eq!((phase, told_), (AllocationPhase::Ready, ready.map(str::to_owned).to_vec()));
        let (phase, told_) = told(&shown(Some(&host), Some(AffinityState::Pending)));
        assert_eq!((phase, told_[1].as_str()), (AllocationPhase::Pending, "Ready=False/AffinityPending"));
        let (phase, told_) = told(&shown(Some(&host), Some(AffinityState::PendingDeletion)));
        assert_eq!(
            (phase, told_.last().map(String::as_str)),
            (AllocationPhase::Ready, Some("Releasing=True/AffinityPendingDeletion"))
        );
        let (phase, told_) = told(&shown(None, None));
        assert_eq!((phase, told_[2].as_str()), (AllocationPhase::Ready, "Bound=False/NoAffinity"));
    }

    #[test]
    fn a_host_with_a_name_that_no_label_can_hold_is_named_all_the_same() {
        let long = format!("node-{}", "x".repeat(70));
        let shown = shown(Some(&affinity(&format!("host:{long}"))), None);
        assert_eq!(shown.metadata.labels[HOST_LABEL].len(), 16);
        assert_eq!(shown.metadata.annotations[HOST_LABEL], long);
        assert_eq!(owner(&shown), Some(format!("host:{long}")));
    }

    #[test]
    fn the_identifier_of_a_block_stays_until_it_is_made_anew() {
        let host = affinity("host:node-1");
        let one = shown(Some(&host), None).metadata.uid;
        assert_eq!(one, shown(None, None).metadata.uid);
        let later = BlockShown {
            cidr: "10.65.3.64/26".parse().expect("a CIDR"),
            affinity: Some(&host),
            state: None,
            pool: "pods",
            created: Some(Timestamp::from_nanos(1_800_000_000_000_000_000)),
            revision: None,
        };
        assert_ne!(one, later.to_allocation().metadata.uid);
    }
}
