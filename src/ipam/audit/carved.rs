//! What was carved out of pools for people: each network has an owner that says the same, and overlaps nothing.

use std::collections::BTreeMap;

use super::Finding;
use crate::api::milo::{
    IpAllocation, IpAllocationStatus, IpClaim, IpClaimStatus, NAMESPACE, allocation_of_claim,
};
use crate::datastore::{Carved, CarvedFor, Key, Object, ProjectName};
use crate::net::Cidr;

/// The records that belong to it.
#[derive(Default)]
pub(super) struct Carving {
    carved: BTreeMap<Cidr, Carved>,
    allocations: BTreeMap<ProjectName, IpAllocation>,
    claims: BTreeMap<ProjectName, IpClaim>,
    pools: BTreeMap<String, Cidr>,
}

impl Carving {
    /// Takes in an object; what does not belong here is left alone.
    pub(super) fn take_in(&mut self, key: &Key, object: &Object) {
        match (key, object) {
            (Key::Carved(cidr), Object::Carved(carved)) => drop(self.carved.insert(*cidr, carved.clone())),
            (Key::Allocation(name), Object::Allocation(allocation)) => {
                drop(self.allocations.insert(name.clone(), (**allocation).clone()));
            }
            (Key::Claim(name), Object::Claim(claim)) => {
                drop(self.claims.insert(name.clone(), (**claim).clone()));
            }
            (Key::Pool(name), Object::Pool(pool)) => drop(self.pools.insert(name.clone(), pool.spec.cidr)),
            _ => {}
        }
    }

    /// What does not agree.
    pub(super) fn findings(&self, blocks: impl Iterator<Item = Cidr>) -> Vec<Finding> {
        let mut findings = self.overlaps(blocks);
        for (cidr, carved) in &self.carved {
            if !self.is_owned(*cidr, &carved.owner) {
                findings.push(Finding::CarvedForNobody { carved: *cidr, by: Box::new(carved.owner.clone()) });
            }
        }
        for (name, allocation) in &self.allocations {
            let status = IpAllocationStatus::of(allocation).unwrap_or_default();
            let owner = match status.claim_ref {
                Some(claim) => {
                    CarvedFor::Claim(ProjectName { project: name.project.clone(), name: claim.name })
                }
                None => CarvedFor::Allocation(name.clone()),
            };
            if let Some(cidr) = status.allocated_cidr
                && self.carved.get(&cidr).is_none_or(|carved| carved.owner != owner)
            {
                let pool = allocation.spec.pool_ref.name.clone();
                findings.push(Finding::NotCarved { owner: Box::new(owner), cidr, pool });
            }
        }
        for (name, claim) in &self.claims {
            let bound = ProjectName {
                project: name.project.clone(),
                name: allocation_of_claim(NAMESPACE, &name.name),
            };
            let cidr = IpClaimStatus::of(claim).and_then(|status| status.allocated_cidr);
            let has = self.allocations.get(&bound).and_then(IpAllocationStatus::of);
            if cidr.is_none() || has.and_then(|status| status.allocated_cidr) != cidr {
                findings.push(Finding::UnboundClaim { claim: name.clone(), allocation: bound.name });
            }
        }
        findings
    }

    /// A child pool lies around its own blocks and carves; all else is disjoint.
    fn overlaps(&self, blocks: impl Iterator<Item = Cidr>) -> Vec<Finding> {
        let is_pool = |carved: &Carved| matches!(carved.owner, CarvedFor::ChildPool(_));
        let carved = self.carved.iter().filter(|(_, carved)| !is_pool(carved)).map(|(cidr, _)| *cidr);
        let mut all: Vec<(Cidr, bool)> = blocks.map(|cidr| (cidr, false)).collect();
        all.extend(carved.map(|cidr| (cidr, true)));
        all.sort();
        let mut findings = Vec::new();
        let mut widest: Option<(Cidr, bool)> = None;
        for (cidr, is_carved) in all {
            match widest {
                // Blocks among themselves are looked at elsewhere.
                Some((one, other_is)) if one.overlaps(cidr) => {
                    if is_carved || other_is {
                        findings.push(Finding::CarvedTwice { one, other: cidr });
                    }
                }
                _ => widest = Some((cidr, is_carved)),
            }
        }
        findings
    }

    fn is_owned(&self, cidr: Cidr, owner: &CarvedFor) -> bool {
        match owner {
            CarvedFor::Allocation(name) => {
                let status = self.allocations.get(name).and_then(IpAllocationStatus::of);
                status.and_then(|status| status.allocated_cidr) == Some(cidr)
            }
            CarvedFor::Claim(name) => {
                let status = self.claims.get(name).and_then(IpClaimStatus::of);
                status.and_then(|status| status.allocated_cidr) == Some(cidr)
            }
            CarvedFor::ChildPool(name) => self.pools.get(name) == Some(&cidr),
        }
    }
}
