use crate::api::calico::{self, AssignmentMode};
use crate::api::milo::ip_pool::{ExactCapacity, PoolSlots};
use crate::api::milo::{
    Capacity, Condition, IpPool, IpPoolSpec, IpPoolStatus, LAST_APPLIED_ANNOTATION, PoolExtras, PoolPhase,
    Slots,
};
use crate::clock::Timestamp;
use crate::net::Cidr;

/// One pool with its two faces: the one that both groups know, and what only this group knows of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolRecord {
    /// The pool as the other group has it. Name, labels and annotations are the same on both faces.
    pub calico: calico::IpPool,
    /// What only this group knows.
    pub extras: PoolExtras,
}

impl PoolRecord {
    /// What a manifest of this group makes of a pool. `cidr` is its range: that of the manifest, or what was carved out
    /// of the parent. What only the other face knows stays as it is in `stored`; a new pool gets the other face's
    /// defaults, and a new child pool serves pods only when it is asked for by name.
    #[must_use]
    pub fn from_manifest(manifest: &IpPool, cidr: Cidr, stored: Option<&PoolRecord>) -> Self {
        let mut calico = stored.map_or_else(
            || calico::IpPool::new(manifest.name(), calico::IpPoolSpec::new(cidr)),
            |stored| stored.calico.clone(),
        );
        let spec = &manifest.spec;
        if stored.is_none() && spec.parent_pool_ref.is_some() {
            calico.spec.assignment_mode = Some(AssignmentMode::Manual);
        }
        let others_note = calico.metadata.annotations.remove(LAST_APPLIED_ANNOTATION);
        calico.metadata.labels.clone_from(&manifest.metadata.labels);
        calico.metadata.annotations.clone_from(&manifest.metadata.annotations);
        let last_applied = calico.metadata.annotations.remove(LAST_APPLIED_ANNOTATION);
        if let Some(note) = others_note {
            calico.metadata.annotations.insert(LAST_APPLIED_ANNOTATION.to_owned(), note);
        }
        let extras = PoolExtras {
            project: stored.and_then(|stored| stored.extras.project.clone()),
            parent_pool_ref: spec.parent_pool_ref.clone(),
            prefix_length: spec.prefix_length,
            allocation: Some(spec.allocation.clone().unwrap_or_default().with_defaults()),
            visibility: spec.visibility,
            last_applied,
            extra: spec.extra.clone(),
        };
        Self { calico, extras }
    }

    /// The pool as this group shows it: its specification with the defaults, and no status.
    #[must_use]
    pub fn to_manifest(&self) -> IpPool {
        let (calico, extras) = (&self.calico, &self.extras);
        let is_root = extras.parent_pool_ref.is_none();
        let spec = IpPoolSpec {
            cidr: is_root.then_some(calico.spec.cidr),
            ip_family: is_root.then(|| calico.spec.cidr.family()),
            parent_pool_ref: extras.parent_pool_ref.clone(),
            prefix_length: extras.prefix_length,
            allocation: Some(extras.rules()),
            visibility: extras.visibility,
            extra: extras.extra.clone(),
        };
        let mut pool = IpPool::new(calico.name(), spec);
        pool.metadata = calico.metadata.clone();
        pool.metadata.annotations.remove(LAST_APPLIED_ANNOTATION);
        if let Some(note) = &extras.last_applied {
            pool.metadata.annotations.insert(LAST_APPLIED_ANNOTATION.to_owned(), note.clone());
        }
        pool
    }

    /// The same with its status.
    #[must_use]
    pub fn to_resource(&self, capacity: &Capacity, slots: &Slots) -> IpPool {
        let mut pool = self.to_manifest();
        pool.status = serde_json::to_value(self.status(capacity, slots)).ok();
        pool
    }

    fn status(&self, capacity: &Capacity, slots: &Slots) -> IpPoolStatus {
        let cidr = self.calico.spec.cidr;
        IpPoolStatus {
            phase: PoolPhase::Ready,
            allocated_cidr: cidr,
            ip_family: cidr.family(),
            capacity: capacity.saturated(),
            exact_capacity: ExactCapacity {
                total: capacity.total.to_string(),
                allocated: capacity.allocated.to_string(),
                available: capacity.available.to_string(),
            },
            slots: PoolSlots {
                prefix_length: slots.prefix,
                total: slots.total.to_string(),
                free: slots.free.to_string(),
                broken: slots.broken.to_string(),
            },
            utilization_percent: capacity.utilization_percent(),
            largest_free_prefix: capacity.largest_free_prefix.unwrap_or(0),
            conditions: self.conditions(slots),
        }
    }

    fn conditions(&self, slots: &Slots) -> Vec<Condition> {
        let cidr = self.calico.spec.cidr;
        let since = self.calico.metadata.creation_timestamp.as_deref().and_then(Timestamp::parse);
        let carved = match &self.extras.parent_pool_ref {
            None => format!("the pool is ready with {cidr}"),
            Some(parent) => format!("{cidr} was carved out of pool `{}`", parent.name),
        };
        let mut conditions = vec![
            Condition::holds("Allocated", "AllocationSucceeded", carved, since),
            Condition::holds("Ready", "Ready", "the pool is there", since),
        ];
        conditions.push(if self.calico.metadata.deletion_timestamp.is_some() {
            Condition::fails("Allocatable", "Terminating", "its deletion was asked for", None)
        } else if self.calico.spec.disabled {
            Condition::fails("Allocatable", "PoolDisabled", "nothing new is carved out of it", None)
        } else {
            Condition::holds("Allocatable", "OK", "CIDRs may be carved out of it", since)
        });
        if let Some(message) = slots.obstacle(cidr) {
            conditions.push(Condition::fails("BlocksAvailable", "NoWholeSlot", message, None));
        }
        conditions
    }
}

#[cfg(test)]
mod tests;
