//! Pools as this API's other group shows and makes them: two faces of one record.

use super::allocation::{IfExists, check_version};
use super::{CarveError, Outcome, Source, check_source, guarded, serving};
use crate::api::milo::view::PoolRecord;
use crate::api::milo::{IpAllocation, IpPool};
use crate::api::validate::Problem;
use crate::api::validate::milo::{check_child, check_pool_change};
use crate::clock::Timestamp;
use crate::datastore::{
    Answer, Batch, Carved, CarvedFor, Collection, Commit, Datastore, Guard, Key, ProjectName, Revision, Want,
};
use crate::ipam::attempt::CAS_ATTEMPTS_MAX;
use crate::ipam::carve::Extents;
use crate::ipam::{Block, Error, Ipam, Trial};

/// A pool, and what was carved out of it.
#[derive(Clone, Debug)]
pub struct PoolShown {
    /// Both faces of it.
    pub record: PoolRecord,
    /// What was carved out of it.
    pub extents: Extents,
}

impl PoolShown {
    /// The pool with its status.
    #[must_use]
    pub fn to_resource(&self) -> IpPool {
        let prefix = self.record.calico.spec.block_prefix();
        self.record.to_resource(&self.extents.capacity(), &self.extents.slots(prefix))
    }
}

impl<D: Datastore> Ipam<D> {
    /// Every pool, by name, with what was carved out of it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn shown_pools(&mut self) -> Result<Vec<PoolShown>, Error> {
        let mut shown = Vec::new();
        for source in self.pool_records().await? {
            let extents = self.extents_of(&source.record.calico).await?;
            shown.push(PoolShown { record: source.record, extents });
        }
        Ok(shown)
    }

    /// Every allocation, by project and name: those that people made, and blocks, which belong to no project.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn shown_allocations(&mut self) -> Result<Vec<(Option<ProjectName>, IpAllocation)>, Error> {
        let wants =
            [Want::Settings, Want::All(Collection::Allocations), Want::AllBlocks, Want::AllAffinities];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let mut next = || answers.next().map(Answer::objects).unwrap_or_default();
        let (stored, blocks, affinities) = (next(), next(), next());
        let mut shown = Vec::new();
        for entry in stored {
            if let Key::Allocation(name) = entry.key.clone() {
                shown.push((Some(name), entry.into()));
            }
        }
        let states: std::collections::BTreeMap<_, _> = affinities
            .into_iter()
            .filter_map(|entry| match entry.key.clone() {
                Key::Affinity(owner, cidr) => {
                    Some(((cidr, owner), entry.into::<crate::api::calico::BlockAffinity>().state))
                }
                _ => None,
            })
            .collect();
        let pools = || settings.pools.iter().map(|(_, pool)| pool);
        for entry in blocks {
            let revision = entry.revision;
            // A damaged block is named by `check`; it is nobody's allocation until it is mended.
            let Ok(block) = Block::from_wire(entry.into()) else { continue };
            let cidr = block.cidr();
            let inside = pools().filter(|pool| pool.spec.cidr.contains(cidr));
            let pool = inside.max_by_key(|pool| pool.spec.cidr.prefix()).map_or("", |pool| pool.name());
            let state = block.affinity().and_then(|owner| states.get(&(cidr, owner.clone())).copied());
            let projected = crate::api::milo::view::BlockShown {
                cidr,
                affinity: block.affinity(),
                state,
                pool,
                created: block.claimed(),
                revision: Some(revision.0),
            };
            shown.push((None, projected.to_allocation()));
        }
        Ok(shown)
    }

    /// Makes a pool, or changes what may change of one that is there; what only the other group knows of it stays. A root
    /// pool has the range that the manifest says, a child pool gets one out of its parent.
    ///
    /// # Errors
    /// When its range overlaps another pool's, it does not fit in its parent, or a field would change that may not.
    pub async fn put_pool(
        &mut self,
        project: Option<&str>,
        manifest: &IpPool,
        if_exists: IfExists,
        trial: Trial,
        now: Timestamp,
    ) -> Result<Outcome<IpPool>, CarveError> {
        for _ in 0..CAS_ATTEMPTS_MAX {
            let sources = self.pool_records().await?;
            let stored = sources.iter().find(|source| source.name() == manifest.name());
            let (outcome, batch) = match stored {
                Some(_) if if_exists == IfExists::Refuse => return Err(CarveError::Exists),
                Some(stored) => {
                    let Some((changed, batch)) = changed(stored, manifest)? else {
                        return Ok(Outcome::Unchanged(stored.record.to_manifest()));
                    };
                    (Outcome::Configured(changed), batch)
                }
                None => {
                    let (made, batch) = self.draft_pool(&sources, project, manifest, now).await?;
                    (Outcome::Created(made), batch)
                }
            };
            if trial == Trial::DryRun
                || self.store.commit(batch).await.map_err(Error::from)? == Commit::Applied
            {
                return Ok(outcome);
            }
        }
        Err(Error::Contended { attempts: CAS_ATTEMPTS_MAX }.into())
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
        record.calico.metadata.creation_timestamp = Some(now.to_string());
        record.extras.project = project.map(str::to_owned);
        let guards = self.guards_of_new_pool(&record.calico, &ancestors).await?.map_err(CarveError::Rule)?;
        let name = manifest.name().to_owned();
        batch.create(Key::Pool(name.clone()), record.calico.clone());
        batch.create(Key::PoolExtras(name), record.extras.clone());
        Ok((record.to_manifest(), guarded(batch, guards)))
    }
}

fn changed(stored: &Source, manifest: &IpPool) -> Result<Option<(IpPool, Batch)>, CarveError> {
    let old = stored.record.to_manifest();
    check_version(&old.metadata, &manifest.metadata)?;
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
