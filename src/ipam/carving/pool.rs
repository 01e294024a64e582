//! Pools as this API's other group makes them: two faces of one record.

use super::put::{IfExists, Lost, Outcome, check_version};
use super::{CarveError, Source, check_source, guarded, serving};
use crate::api::milo::IpPool;
use crate::api::milo::view::PoolRecord;
use crate::api::validate::Problem;
use crate::api::validate::milo::{check_child, check_pool_change};
use crate::clock::Timestamp;
use crate::datastore::{Batch, Carved, CarvedFor, Datastore, Guard, Key, Revision};
use crate::ipam::attempt::CAS_ATTEMPTS_MAX;
use crate::ipam::carve::Extents;
use crate::ipam::{Error, Ipam, Trial};

impl<D: Datastore> Ipam<D> {
    /// Makes a pool, which is answered with its status, or changes what may change of one that is there; what only the other group knows of it stays. A root
    /// pool has the range that the manifest says, a child pool gets one out of its parent.
    ///
    /// # Errors
    /// When its range overlaps another pool's, it does not fit in its parent, a field would change that may not, or a
    /// `project` is named and the pool is not its own.
    pub async fn put_pool(
        &mut self,
        project: Option<&str>,
        manifest: &IpPool,
        if_exists: IfExists,
        trial: Trial,
        now: Timestamp,
    ) -> Result<Outcome<IpPool>, CarveError> {
        let mut lost = Lost::<IpPool>::nothing();
        for _ in 0..CAS_ATTEMPTS_MAX {
            let sources = self.pool_records().await?;
            let stored = sources.iter().find(|source| source.name() == manifest.name());
            let (outcome, batch) = match stored {
                Some(stored) if lost.has(|made| made.spec == stored.record.to_manifest().spec) => {
                    return Ok(Outcome::Created(stored.record.to_manifest()));
                }
                Some(_) if if_exists == IfExists::Refuse => return Err(CarveError::Exists),
                Some(stored) => {
                    check_project(stored, project)?;
                    check_version(&stored.version(), &manifest.metadata)?;
                    let Some((changed, batch)) = changed(stored, manifest)? else {
                        return Ok(Outcome::Unchanged(stored.record.to_manifest()));
                    };
                    (Outcome::Configured(changed), batch)
                }
                None => match self.draft_pool(&sources, project, manifest, now).await {
                    Ok((made, batch)) => (Outcome::Created(made), batch),
                    Err(_) if lost.looks_again() => continue,
                    Err(error) => return Err(error),
                },
            };
            if self.settles(&outcome, batch, trial, &mut lost).await? {
                return Ok(outcome);
            }
        }
        Err(Error::Contended { attempts: CAS_ATTEMPTS_MAX, applied: 0 }.into())
    }

    async fn draft_pool(
        &mut self,
        sources: &[Source],
        project: Option<&str>,
        manifest: &IpPool,
        now: Timestamp,
    ) -> Result<(IpPool, Batch), CarveError> {
        let mut batch = Batch::default();
        let (cidr, ancestors) = match (&manifest.spec.parent_pool_ref, manifest.spec.cidr) {
            (Some(parent), _) => {
                self.can_carve()?;
                let asking = project.unwrap_or(crate::api::DEFAULT_PROJECT);
                let source = serving(sources, &parent.name, None, asking)?;
                check_source(source, source.cidr().family())?;
                let prefix = manifest.spec.prefix_length.unwrap_or(source.cidr().family().bits());
                if let Some(problem) = check_child(prefix, source.name(), source.cidr()) {
                    return Err(CarveError::Invalid(vec![problem]));
                }
                let (cidr, guards) = self.choose(source, prefix, None).await?;
                let owner = CarvedFor::ChildPool(manifest.name().to_owned());
                let carved = Carved { pool: source.name().to_owned(), owner, since: Some(now) };
                batch.create(Key::Carved(cidr), carved);
                batch.guards.extend(guards);
                let around = |other: &&Source| other.cidr().contains(source.cidr());
                (cidr, sources.iter().filter(around).map(|other| other.name().to_owned()).collect())
            }
            (None, Some(cidr)) => (cidr, Vec::new()),
            (None, None) => {
                let problem = Problem::spec("cidr", "is missing");
                return Err(CarveError::Invalid(vec![problem]));
            }
        };
        let mut record = PoolRecord::from_manifest(manifest, cidr, None);
        record.calico.metadata.resource_version = None;
        record.calico.metadata.creation_timestamp = Some(now.to_string());
        record.extras.project = project.map(str::to_owned);
        let guards = self.guards_of_new_pool(&record.calico, &ancestors).await?.map_err(CarveError::Rule)?;
        let name = manifest.name().to_owned();
        batch.create(Key::Pool(name.clone()), record.calico.clone());
        batch.create(Key::PoolExtras(name), record.extras.clone());
        let empty = Extents::new(cidr);
        let slots = empty.slots(record.calico.spec.block_prefix());
        Ok((record.to_resource(&empty.capacity(), &slots), guarded(batch, guards)))
    }
}

/// Whoever speaks for a project changes its own pools alone; whoever speaks for none, all.
fn check_project(stored: &Source, project: Option<&str>) -> Result<(), CarveError> {
    let owner = &stored.record.extras.project;
    if project.is_none() || project == owner.as_deref() {
        return Ok(());
    }
    Err(CarveError::OthersPool { owner: owner.clone() })
}

fn changed(stored: &Source, manifest: &IpPool) -> Result<Option<(IpPool, Batch)>, CarveError> {
    let old = stored.record.to_manifest();
    let problems = check_pool_change(&old.spec, &manifest.spec);
    if !problems.is_empty() {
        return Err(CarveError::Immutable(problems));
    }
    let record = PoolRecord::from_manifest(manifest, stored.cidr(), Some(&stored.record));
    let mut batch = Batch::default();
    let name = stored.name().to_owned();
    if record.calico != stored.record.calico
        && let Some(revision) = revision_of(stored, &Key::Pool(name.clone()))
    {
        batch.update(Key::Pool(name.clone()), revision, record.calico.clone());
    }
    if record.extras != stored.record.extras {
        let key = Key::PoolExtras(name);
        match revision_of(stored, &key) {
            Some(revision) => batch.update(key, revision, record.extras.clone()),
            None => batch.create(key, record.extras.clone()),
        }
    }
    Ok((!batch.is_empty()).then(|| (record.to_manifest(), batch)))
}

fn revision_of(source: &Source, key: &Key) -> Option<Revision> {
    source.guards.iter().find_map(|guard| match guard {
        Guard::Unchanged(of, revision) if of == key => *revision,
        _ => None,
    })
}
