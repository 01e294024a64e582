//! Putting what a manifest says: it is made where it is not there, and changed where that is allowed.

use super::CarveError;
use crate::api::milo::{SizeAsked, set_namespace};
use crate::api::validate::Problem;
use crate::api::{ObjectMeta, Resource, Spec};
use crate::clock::Timestamp;
use crate::datastore::{Answer, Batch, Commit, Datastore, Key, Object, ProjectName, Revision, Stored, Want};
use crate::ipam::attempt::CAS_ATTEMPTS_MAX;
use crate::ipam::{Error, Ipam, Trial};
use crate::net::Family;

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

/// Commits whose answers were lost: any of them may have been applied, and may still be on its way.
pub(super) struct Lost<T> {
    pub(super) made: Vec<T>,
    look_again: bool,
}

impl<T> Lost<T> {
    pub(super) const fn nothing() -> Self {
        Self { made: Vec::new(), look_again: false }
    }

    /// Takes note of an answer. True: the commit was applied.
    pub(super) fn applied(&mut self, answer: &Commit, made: impl FnOnce() -> Option<T>) -> bool {
        if *answer == Commit::Unknown {
            self.made.extend(made());
            self.look_again = true;
        }
        *answer == Commit::Applied
    }

    /// Whether one of them made this.
    pub(super) fn has(&self, is_it: impl FnMut(&T) -> bool) -> bool {
        self.made.iter().any(is_it)
    }

    /// Whether what stands in the way may be this very call's, and nobody has looked since.
    pub(super) fn looks_again(&mut self) -> bool {
        std::mem::take(&mut self.look_again)
    }
}

/// What a network is carved out of a pool for by itself: an allocation, or a claim.
pub(super) trait Carvable: Spec + Clone + PartialEq {
    /// Where the resource of a name stands.
    fn key(name: ProjectName) -> Key;

    /// The family of its network.
    fn family(&self) -> Family;

    /// What a manifest would change that may not change.
    fn problems(stored: &Resource<Self>, manifest: &Resource<Self>) -> Vec<Problem>;

    /// Takes from a manifest's specification what may change.
    fn change(&mut self, manifest: &Self);

    /// The resource with its network, and what makes both.
    fn draft<D: Datastore>(
        ipam: &mut Ipam<D>,
        name: &ProjectName,
        manifest: &Resource<Self>,
        size: &SizeAsked,
        now: Timestamp,
    ) -> impl Future<Output = Result<(Resource<Self>, Batch), CarveError>>;
}

impl<D: Datastore> Ipam<D> {
    /// Makes an allocation or a claim, or changes what may change of one that is there.
    pub(super) async fn put<S: Carvable>(
        &mut self,
        project: &str,
        manifest: &Resource<S>,
        if_exists: IfExists,
        trial: Trial,
        now: Timestamp,
    ) -> Result<Outcome<Resource<S>>, CarveError>
    where
        Resource<S>: Stored + Into<Object>,
    {
        self.can_carve()?;
        let name = ProjectName { project: project.to_owned(), name: manifest.name().to_owned() };
        let size = SizeAsked::of(&manifest.metadata, manifest.spec.family()).map_err(CarveError::Invalid)?;
        let mut lost = Lost::<Resource<S>>::nothing();
        for _ in 0..CAS_ATTEMPTS_MAX {
            let (outcome, batch) = match self.stored::<Resource<S>>(S::key(name.clone())).await? {
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
                    batch.update(S::key(name.clone()), revision, changed.clone());
                    (Outcome::Configured(changed), batch)
                }
                None => match S::draft(self, &name, manifest, &size, now).await {
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

    /// Commits what was drafted, unless it is only tried. False: others were faster, or nobody knows.
    pub(super) async fn settles<T: Clone>(
        &mut self,
        outcome: &Outcome<T>,
        batch: Batch,
        trial: Trial,
        lost: &mut Lost<T>,
    ) -> Result<bool, Error> {
        if trial == Trial::DryRun {
            return Ok(true);
        }
        let answer = self.store.commit(batch).await?;
        Ok(lost.applied(&answer, || outcome.created().cloned()))
    }

    /// What stands at a key, with its revision.
    pub(super) async fn stored<T: Stored>(&mut self, key: Key) -> Result<Option<(Revision, T)>, Error> {
        let read = self.store.read(&[Want::Object(key)]).await?.pop();
        Ok(read.and_then(Answer::object).map(|entry| (entry.revision, entry.into())))
    }
}

/// What a manifest makes of a resource that stands there; `None`: nothing.
fn changed<S: Carvable>(
    stored: &Resource<S>,
    manifest: &Resource<S>,
) -> Result<Option<Resource<S>>, CarveError> {
    let problems = S::problems(stored, manifest);
    if !problems.is_empty() {
        return Err(CarveError::Immutable(problems));
    }
    let mut changed = stored.clone();
    changed.spec.change(&manifest.spec);
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
