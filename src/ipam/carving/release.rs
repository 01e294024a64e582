//! Giving back what was carved.

use super::CarveError;
use super::put::Lost;
use crate::api::milo::{
    IpAllocation, IpAllocationStatus, IpClaim, IpClaimStatus, NAMESPACE, ReclaimPolicy, allocation_of_claim,
};
use crate::clock::Timestamp;
use crate::datastore::{Batch, Carved, CarvedFor, Datastore, Key, ProjectName};
use crate::ipam::attempt::CAS_ATTEMPTS_MAX;
use crate::ipam::{Error, Ipam};

impl<D: Datastore> Ipam<D> {
    /// Deletes an allocation; its network is free from then on.
    ///
    /// # Errors
    /// When there is none, or a claim holds it.
    pub async fn release_allocation(&mut self, name: &ProjectName) -> Result<IpAllocation, CarveError> {
        let mut lost = Lost::<IpAllocation>::nothing();
        for _ in 0..CAS_ATTEMPTS_MAX {
            let Some((revision, stored)) = self.stored::<IpAllocation>(Key::Allocation(name.clone())).await?
            else {
                return lost.made.pop().ok_or(CarveError::Missing);
            };
            let status = IpAllocationStatus::of(&stored).unwrap_or_default();
            if let Some(claim) = status.claim_ref {
                let claim = ProjectName { project: name.project.clone(), name: claim.name };
                if self.stored::<IpClaim>(Key::Claim(claim.clone())).await?.is_some() {
                    return Err(CarveError::Bound(claim));
                }
            }
            let mut batch = Batch::default();
            batch.delete(Key::Allocation(name.clone()), revision);
            if let Some(cidr) = status.allocated_cidr
                && let Some((at, carved)) = self.stored::<Carved>(Key::Carved(cidr)).await?
                && is_for(&carved, name)
            {
                batch.delete(Key::Carved(cidr), at);
            }
            let answer = self.store.commit(batch).await.map_err(Error::from)?;
            if lost.applied(&answer, || Some(stored.clone())) {
                return Ok(stored);
            }
        }
        Err(Error::Contended { attempts: CAS_ATTEMPTS_MAX, applied: 0 }.into())
    }

    /// Deletes a claim. With the policy `Retain` its allocation stays, and a later claim of the name takes it up.
    ///
    /// # Errors
    /// When there is none.
    pub async fn release_claim(&mut self, name: &ProjectName, now: Timestamp) -> Result<IpClaim, CarveError> {
        let allocation =
            ProjectName { name: allocation_of_claim(NAMESPACE, &name.name), project: name.project.clone() };
        let mut lost = Lost::<IpClaim>::nothing();
        for _ in 0..CAS_ATTEMPTS_MAX {
            let Some((revision, stored)) = self.stored::<IpClaim>(Key::Claim(name.clone())).await? else {
                return lost.made.pop().ok_or(CarveError::Missing);
            };
            let retains = stored.spec.reclaim_policy == Some(ReclaimPolicy::Retain);
            let mut batch = Batch::default();
            batch.delete(Key::Claim(name.clone()), revision);
            if let Some((at, mut record)) =
                self.stored::<IpAllocation>(Key::Allocation(allocation.clone())).await?
            {
                let key = Key::Allocation(allocation.clone());
                if retains {
                    let status = IpAllocationStatus::of(&record).unwrap_or_default();
                    record.status = status.retained(now).into_value();
                    batch.update(key, at, record);
                } else {
                    batch.delete(key, at);
                }
            }
            let cidr = IpClaimStatus::of(&stored).and_then(|status| status.allocated_cidr);
            if let Some(cidr) = cidr
                && let Some((at, carved)) = self.stored::<Carved>(Key::Carved(cidr)).await?
                && carved.owner == CarvedFor::Claim(name.clone())
            {
                if retains {
                    let carved = Carved { owner: CarvedFor::Allocation(allocation.clone()), ..carved };
                    batch.update(Key::Carved(cidr), at, carved);
                } else {
                    batch.delete(Key::Carved(cidr), at);
                }
            }
            let answer = self.store.commit(batch).await.map_err(Error::from)?;
            if lost.applied(&answer, || Some(stored.clone())) {
                return Ok(stored);
            }
        }
        Err(Error::Contended { attempts: CAS_ATTEMPTS_MAX, applied: 0 }.into())
    }
}

/// Whether a network was carved for an allocation, by itself or by the claim that it was bound to.
fn is_for(carved: &Carved, allocation: &ProjectName) -> bool {
    match &carved.owner {
        CarvedFor::Allocation(of) => of == allocation,
        CarvedFor::Claim(of) => {
            of.project == allocation.project && allocation_of_claim(NAMESPACE, &of.name) == allocation.name
        }
        CarvedFor::ChildPool(_) => false,
    }
}
