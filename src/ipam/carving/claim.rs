//! Claims: a network is carved, and an allocation records it under a name that follows from the claim's.

use super::put::{Carvable, IfExists, Outcome, born};
use super::{CarveError, Source, check_source, guarded, length, serving};
use crate::api::milo::{
    IpAllocation, IpAllocationSpec, IpAllocationStatus, IpClaim, IpClaimSpec, IpClaimStatus, NAMESPACE,
    SizeAsked, allocation_of_claim,
};
use crate::api::validate::Problem;
use crate::api::validate::milo::check_claim_change;
use crate::clock::Timestamp;
use crate::datastore::{Batch, Carved, CarvedFor, Datastore, Key, ProjectName, Revision};
use crate::ipam::{Ipam, Trial};
use crate::net::{Cidr, Family};

impl<D: Datastore> Ipam<D> {
    /// Makes a claim, carves its network and binds the two; or changes what may change of one that is there. A claim of
    /// the name of one that was deleted with `Retain` takes up what that left.
    ///
    /// # Errors
    /// As [`Ipam::allocate`].
    pub async fn claim(
        &mut self,
        project: &str,
        manifest: &IpClaim,
        if_exists: IfExists,
        trial: Trial,
        now: Timestamp,
    ) -> Result<Outcome<IpClaim>, CarveError> {
        self.put(project, manifest, if_exists, trial, now).await
    }

    /// Binds a claim to the allocation that an earlier one of its name left.
    async fn take_up(
        &mut self,
        name: &ProjectName,
        manifest: &IpClaim,
        allocation: &ProjectName,
        revision: Revision,
        mut retained: IpAllocation,
        now: Timestamp,
    ) -> Result<(IpClaim, Batch), CarveError> {
        let status = IpAllocationStatus::of(&retained).unwrap_or_default();
        let cidr = status.allocated_cidr.filter(|cidr| cidr.prefix() == manifest.spec.prefix_length);
        let of_pool =
            manifest.spec.pool_ref.as_ref().is_none_or(|pool| pool.name == retained.spec.pool_ref.name);
        let Some(cidr) = cidr.filter(|_| of_pool && retained.spec.ip_family == manifest.spec.ip_family)
        else {
            let reason = format!(
                "differs from what IPAllocation `{}` retains for this name; delete that first",
                allocation.name
            );
            return Err(CarveError::Immutable(vec![Problem::spec("prefixLength", reason)]));
        };
        let pool = retained.spec.pool_ref.name.clone();
        retained.status = status.bound_to(&name.name, now).into_value();
        let mut batch = Batch::default();
        batch.update(Key::Allocation(allocation.clone()), revision, retained);
        if let Some(entry) = self.stored::<Carved>(Key::Carved(cidr)).await? {
            let carved = Carved { owner: CarvedFor::Claim(name.clone()), ..entry.1 };
            batch.update(Key::Carved(cidr), entry.0, carved);
        }
        let made = bound(manifest, cidr, &allocation.name, &pool, now);
        batch.create(Key::Claim(name.clone()), made.clone());
        Ok((made, batch))
    }
}

impl Carvable for IpClaimSpec {
    fn key(name: ProjectName) -> Key {
        Key::Claim(name)
    }

    fn family(&self) -> Family {
        self.ip_family
    }

    fn problems(stored: &IpClaim, manifest: &IpClaim) -> Vec<Problem> {
        check_claim_change(stored, manifest)
    }

    fn change(&mut self, manifest: &Self) {
        self.clone_from(manifest);
    }

    async fn draft<D: Datastore>(
        ipam: &mut Ipam<D>,
        name: &ProjectName,
        manifest: &IpClaim,
        size: &SizeAsked,
        now: Timestamp,
    ) -> Result<(IpClaim, Batch), CarveError> {
        let allocation =
            ProjectName { name: allocation_of_claim(NAMESPACE, &name.name), project: name.project.clone() };
        if let Some((revision, retained)) =
            ipam.stored::<IpAllocation>(Key::Allocation(allocation.clone())).await?
        {
            return ipam.take_up(name, manifest, &allocation, revision, retained, now).await;
        }
        let sources = ipam.pool_records().await?;
        let source = pool_of_claim(&sources, manifest, &name.project)?;
        check_source(source, manifest.spec.ip_family)?;
        let prefix = length(source, size, Some(manifest.spec.prefix_length))?;
        let (cidr, guards) = ipam.choose(source, prefix, size.cidr).await?;
        let pool = source.name();
        let mut record =
            IpAllocation::new(allocation.name.clone(), IpAllocationSpec::new(cidr.family(), pool));
        born(&mut record.metadata, now);
        record.status = IpAllocationStatus::carved(cidr, pool, now).bound_to(&name.name, now).into_value();
        let carved =
            Carved { pool: pool.to_owned(), owner: CarvedFor::Claim(name.clone()), since: Some(now) };
        let mut batch = Batch::default();
        batch.create(Key::Carved(cidr), carved);
        batch.create(Key::Allocation(allocation.clone()), record);
        let made = bound(manifest, cidr, &allocation.name, pool, now);
        batch.create(Key::Claim(name.clone()), made.clone());
        Ok((made, guarded(batch, guards)))
    }
}

fn bound(manifest: &IpClaim, cidr: Cidr, allocation: &str, pool: &str, now: Timestamp) -> IpClaim {
    let mut made = manifest.clone();
    born(&mut made.metadata, now);
    made.status = IpClaimStatus::bound(cidr, allocation, pool, now).into_value();
    made
}

/// The pool that a claim names, or the first by name that its selector matches and that has its family.
fn pool_of_claim<'a>(
    sources: &'a [Source],
    manifest: &IpClaim,
    project: &str,
) -> Result<&'a Source, CarveError> {
    if let Some(pool) = &manifest.spec.pool_ref {
        let owner = pool.project_ref.as_ref().map(|project| project.name.as_str());
        return serving(sources, &pool.name, owner, project);
    }
    let Some(selector) = &manifest.spec.pool_selector else {
        return Err(CarveError::NoPoolSelected);
    };
    let serves = |source: &&Source| {
        source.record.extras.serves(Some(project))
            && source.cidr().family() == manifest.spec.ip_family
            && selector.matches(&source.record.calico.metadata.labels)
    };
    sources.iter().find(serves).ok_or(CarveError::NoPoolSelected)
}
