//! Allocations that people apply: each is carved at once.

use super::{CarveError, Lost, check_source, guarded, length, serving};
use crate::api::ObjectMeta;
use crate::api::milo::{IpAllocation, IpAllocationStatus, SizeAsked, set_namespace};
use crate::api::validate::milo::check_allocation_change;
use crate::clock::Timestamp;
use crate::datastore::{Answer, Batch, Carved, CarvedFor, Datastore, Key, ProjectName, Revision, Want};
use crate::ipam::attempt::CAS_ATTEMPTS_MAX;
use crate::ipam::{Error, Ipam, Trial};

/// What became of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<T> {
    /// It was made, or would be.
    Created(T),
    /// Something of it was changed, or would be.
    Configured(T),
    /// It stands as it is.
    Unchanged(T),
}

impl<T> Outcome<T> {
    /// What was made, if it was.
    pub(super) const fn created(&self) -> Option<&T> {
        match self {
            Outcome::Created(it) => Some(it),
            Outcome::Configured(_) | Outcome::Unchanged(_) => None,
        }
    }

    /// What stands there now.
    pub fn into_inner(self) -> T {
        let (Outcome::Created(it) | Outcome::Configured(it) | Outcome::Unchanged(it)) = self;
        it
    }
}

/// What an existing resource means for a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// It is changed where it differs.
    Change,
    /// It is an error.
    Refuse,
}

impl<D: Datastore> Ipam<D> {
    /// Makes an allocation, and carves its network; or changes what may change of one that is there. Whatever the manifest
    /// says of its status is not looked at.
    ///
    /// # Errors
    /// When the pool is missing, closed, of another family or exhausted, the CIDR asked for is taken, or the
    /// specification differs from that of the allocation of this name. Nothing was changed.
    pub async fn allocate(
        &mut self,
        project: &str,
        manifest: &IpAllocation,
        if_exists: IfExists,
        trial: Trial,
        now: Timestamp,
    ) -> Result<Outcome<IpAllocation>, CarveError> {
        self.can_carve()?;
        let name = ProjectName { project: project.to_owned(), name: manifest.name().to_owned() };
        let size = SizeAsked::of(&manifest.metadata, manifest.spec.ip_family).map_err(CarveError::Invalid)?;
        let mut lost = Lost::<IpAllocation>::nothing();
        for _ in 0..CAS_ATTEMPTS_MAX {
            let (outcome, batch) = match self.allocation(&name).await? {
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
                    batch.update(Key::Allocation(name.clone()), revision, changed.clone());
                    (Outcome::Configured(changed), batch)
                }
                None => match self.draft_allocation(&name, manifest, &size, now).await {
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

    async fn draft_allocation(
        &mut self,
        name: &ProjectName,
        manifest: &IpAllocation,
        size: &SizeAsked,
        now: Timestamp,
    ) -> Result<(IpAllocation, Batch), CarveError> {
        let sources = self.pool_records().await?;
        let source = serving(&sources, &manifest.spec.pool_ref.name, None, &name.project)?;
        check_source(source, manifest.spec.ip_family)?;
        let prefix = length(source, size, None)?;
        let (cidr, guards) = self.choose(source, prefix, size.cidr).await?;
        let mut made = manifest.clone();
        born(&mut made.metadata, now);
        made.status = IpAllocationStatus::carved(cidr, source.name(), now).into_value();
        let carved = Carved {
            pool: source.name().to_owned(),
            owner: CarvedFor::Allocation(name.clone()),
            since: Some(now),
        };
        let mut batch = Batch::default();
        batch.create(Key::Carved(cidr), carved);
        batch.create(Key::Allocation(name.clone()), made.clone());
        Ok((made, guarded(batch, guards)))
    }

    /// An allocation that people made, or that outlived its claim.
    pub(super) async fn allocation(
        &mut self,
        name: &ProjectName,
    ) -> Result<Option<(Revision, IpAllocation)>, Error> {
        let read = self.store.read(&[Want::Object(Key::Allocation(name.clone()))]).await?.pop();
        Ok(read.and_then(Answer::object).map(|entry| (entry.revision, entry.into())))
    }
}

/// What a manifest makes of an allocation that stands there; `None`: nothing.
fn changed(stored: &IpAllocation, manifest: &IpAllocation) -> Result<Option<IpAllocation>, CarveError> {
    let problems = check_allocation_change(stored, manifest);
    if !problems.is_empty() {
        return Err(CarveError::Immutable(problems));
    }
    let mut changed = stored.clone();
    changed.metadata.labels.clone_from(&manifest.metadata.labels);
    changed.metadata.annotations.clone_from(&manifest.metadata.annotations);
    Ok((changed != *stored).then_some(changed))
}

/// What an allocation or a claim is made with: its namespace, the time, and nothing that a manifest says of an earlier one.
pub(super) fn born(metadata: &mut ObjectMeta, now: Timestamp) {
    metadata.resource_version = None;
    metadata.creation_timestamp = Some(now.to_string());
    set_namespace(metadata);
}

/// The state of an object, as resources say it.
pub(super) fn version(revision: Revision) -> String {
    revision.0.to_string()
}

/// A manifest that says which state it was read as must still be in that state.
pub(super) fn check_version(now: &str, manifest: &ObjectMeta) -> Result<(), CarveError> {
    match &manifest.resource_version {
        Some(read) if read != now => Err(CarveError::Changed { read: read.clone(), now: now.to_owned() }),
        _ => Ok(()),
    }
}
