//! Claims: a network is carved, and an allocation records it under a name that follows from the claim's.

use super::allocation::{IfExists, born, check_version, version};
use super::{CarveError, Lost, Outcome, Source, check_source, guarded, length, serving};
use crate::api::milo::{
    IpAllocation, IpAllocationSpec, IpAllocationStatus, IpClaim, IpClaimStatus, NAMESPACE, SizeAsked,
    allocation_of_claim,
};
use crate::api::validate::milo::check_claim_change;
use crate::clock::Timestamp;
use crate::datastore::{
    Answer, Batch, Carved, CarvedFor, Datastore, Entry, Key, ProjectName, Revision, Want,
};
use crate::ipam::attempt::CAS_ATTEMPTS_MAX;
use crate::ipam::{Error, Ipam, Trial};
use crate::net::Cidr;

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
        self.can_carve()?;
        let name = ProjectName { project: project.to_owned(), name: manifest.name().to_owned() };
        let size = SizeAsked::of(&manifest.metadata, manifest.spec.ip_family).map_err(CarveError::Invalid)?;
        let mut lost = Lost::<IpClaim>::nothing();
        for _ in 0..CAS_ATTEMPTS_MAX {
            let (outcome, batch) = match self.claim_of(&name).await? {
                Some((_, stored)) if lost.has(|made| made.status == stored.status) => {
                    return Ok(Outcome::Created(stored));
                }
                Some(_) if if_exists == IfExists::Refuse => return Err(CarveError::Exists),
                Some((revision, stored)) => {
                    check_version(&version(revision), &manifest.metadata)?;
                    let Some(changed) = changed(&stored, manifest)? else {
                        return Ok(Outcome::Unchanged(stored));
                    };
                    let mut batch = Batch::default();
                    batch.update(Key::Claim(name.clone()), revision, changed.clone());
                    (Outcome::Configured(changed), batch)
                }
                None => match self.draft_claim(&name, manifest, &size, now).await {
                    Ok((made, batch)) => (Outcome::Created(made), batch),
                    Err(_) if lost.looks_again() => continue,
                    Err(error) => return Err(error),
                },
            };
            if trial == Trial::DryRun {
                return Ok(outcome);
            }
            let answer = self.store.commit(batch).await.map_err(Error::from)?;
            if lost.applied(&answer, || outcome.created().cloned()) {
                return Ok(outcome);
            }
        }
        Err(Error::Contended { attempts: CAS_ATTEMPTS_MAX }.into())
    }

    async fn draft_claim(
        &mut self,
        name: &ProjectName,
        manifest: &IpClaim,
        size: &SizeAsked,
        now: Timestamp,
    ) -> Result<(IpClaim, Batch), CarveError> {
        let allocation =
            ProjectName { name: allocation_of_claim(NAMESPACE, &name.name), project: name.project.clone() };
        if let Some((revision, retained)) = self.allocation(&allocation).await? {
            return self.take_up(name, manifest, &allocation, revision, retained, now).await;
        }
        let sources = self.pool_records().await?;
        let source = pool_of_claim(&sources, manifest, &name.project)?;
        check_source(source, manifest.spec.ip_family)?;
        let prefix = length(source, size, Some(manifest.spec.prefix_length))?;
        let (cidr, guards) = self.choose(source, prefix, size.cidr).await?;
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
            return Err(CarveError::Immutable(vec![crate::api::validate::Problem::spec(
                "prefixLength",
                reason,
            )]));
        };
        let pool = retained.spec.pool_ref.name.clone();
        retained.status = status.bound_to(&name.name, now).into_value();
        let mut batch = Batch::default();
        batch.update(Key::Allocation(allocation.clone()), revision, retained);
        if let Some(entry) = self.carved(cidr).await? {
            let carved = Carved { owner: CarvedFor::Claim(name.clone()), ..entry.1 };
            batch.update(Key::Carved(cidr), entry.0, carved);
        }
        let made = bound(manifest, cidr, &allocation.name, &pool, now);
        batch.create(Key::Claim(name.clone()), made.clone());
        Ok((made, batch))
    }

    pub(super) async fn carved(&mut self, cidr: Cidr) -> Result<Option<(Revision, Carved)>, Error> {
        let read = self.store.read(&[Want::Object(Key::Carved(cidr))]).await?.pop();
        Ok(read.and_then(Answer::object).map(|entry: Entry| (entry.revision, entry.into())))
    }

    pub(super) async fn claim_of(
        &mut self,
        name: &ProjectName,
    ) -> Result<Option<(Revision, IpClaim)>, Error> {
        let read = self.store.read(&[Want::Object(Key::Claim(name.clone()))]).await?.pop();
        Ok(read.and_then(Answer::object).map(|entry| (entry.revision, entry.into())))
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

fn changed(stored: &IpClaim, manifest: &IpClaim) -> Result<Option<IpClaim>, CarveError> {
    let problems = check_claim_change(stored, manifest);
    if !problems.is_empty() {
        return Err(CarveError::Immutable(problems));
    }
    let mut changed = stored.clone();
    changed.spec = manifest.spec.clone();
    changed.metadata.labels.clone_from(&manifest.metadata.labels);
    changed.metadata.annotations.clone_from(&manifest.metadata.annotations);
    Ok((changed != *stored).then_some(changed))
}
