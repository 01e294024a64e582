//! Changing the resources that people write: one at a time, against the rules that hold between them.

use super::attempt::CAS_ATTEMPTS_MAX;
use super::ledger::Ledger;
use super::selector::Selector;
use super::{Error, Ipam};
use crate::api::calico::{AllowedUse, IpPool};
use crate::api::validate::{Path, Problem};
use crate::datastore::{
    Answer, Batch, Commit, Datastore, Entry, Guard, Key, Object, Revision, Settings, Stored as _, Want,
};
use crate::net::Cidr;

/// What is to become of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// It stays as it is.
    Keep,
    /// It is made, or becomes this.
    Put(Object),
}

/// Whether an edit is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// It is only judged.
    DryRun,
    /// It is judged and written.
    Write,
}

/// Why a resource may not become what it was to become. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleBroken {
    /// Pools share no address.
    #[error("its CIDR {cidr} overlaps pool `{other}` ({other_cidr})")]
    Overlap {
        /// The pool's.
        cidr: Cidr,
        /// The pool that is there.
        other: String,
        /// Its CIDR.
        other_cidr: Cidr,
    },
    /// Blocks of an earlier pool are still there, of another size.
    #[error(
        "its blocks of /{wanted} would overlap {count} block{} of other sizes, such as {example}", if *.count == 1 { "" } else { "s" }
    )]
    OtherBlocks {
        /// The size of the new pool's blocks.
        wanted: u8,
        /// How many blocks are in the way.
        count: usize,
        /// One of them.
        example: Cidr,
    },
    /// A field that is fixed when the resource is made.
    #[error("`{field}` cannot be changed: it is {stored}, and would become {asked}")]
    Fixed {
        /// The field.
        field: &'static str,
        /// What is stored.
        stored: String,
        /// What was asked for.
        asked: String,
    },
    /// A pool for services serves nothing else, ever.
    #[error("`spec.allowedUses` cannot be changed: a pool for `LoadBalancer` stays one")]
    LoadBalancer,
}

/// Why an edit was not made.
#[derive(Debug, thiserror::Error)]
pub enum EditError<E> {
    /// Whoever asked for it does not want it, now that it is known what stands there.
    #[error("{0}")]
    Declined(E),
    /// A rule between resources forbids it.
    #[error(transparent)]
    Rule(RuleBroken),
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// What is wrong with a pool's selectors.
#[must_use]
pub fn check_selectors(nodes: Option<&str>, namespaces: Option<&str>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (field, text) in [("nodeSelector", nodes), ("namespaceSelector", namespaces)] {
        let path = || Path::root().key("spec").key(field);
        match text.map(Selector::parse) {
            Some(Err(problem)) => problems.push(Problem::new(path(), format!("does not parse: {problem}"))),
            Some(Ok(selector)) if selector.mentions_global() => {
                problems.push(Problem::new(path(), "has `global()`, which a pool may not"));
            }
            _ => {}
        }
    }
    problems
}

impl<D: Datastore> Ipam<D> {
    /// Edits a resource: `decide` is told what stands there now, and may be asked again when that changed meanwhile.
    /// The answer: what stood there before.
    ///
    /// # Errors
    /// When `decide` declines, a rule between resources forbids it, or the store failed. Nothing was changed.
    pub async fn edit<E>(
        &mut self,
        key: &Key,
        trial: Trial,
        mut decide: impl FnMut(Option<&Entry>) -> Result<Edit, E>,
    ) -> Result<Option<Entry>, EditError<E>> {
        for _ in 0..CAS_ATTEMPTS_MAX {
            let wants = [Want::Object(key.clone()), Want::Settings];
            let mut answers = self.store.read(&wants).await.map_err(Error::from)?.into_iter();
            let stored = answers.next().and_then(Answer::object);
            let settings = answers.next().map(Answer::settings).unwrap_or_default();
            let object = match (decide(stored.as_ref()).map_err(EditError::Declined)?, &stored) {
                (Edit::Put(object), _) => object,
                (_, Some(entry)) if self.store.is_out_of_step(key) => entry.object.clone(),
                _ => return Ok(stored),
            };
            let mut batch = Batch::default();
            if let Object::Pool(pool) = &object {
                self.check_pool(pool, stored.as_ref(), &settings, &mut batch).await?;
            }
            match stored.as_ref().map(|entry| entry.revision) {
                Some(revision) => batch.update(key.clone(), revision, object),
                None => batch.create(key.clone(), object),
            }
            if trial == Trial::DryRun {
                return Ok(stored);
            }
            if self.store.commit(batch).await.map_err(Error::from)? == Commit::Applied {
                return Ok(stored);
            }
        }
        Err(EditError::Engine(Error::Contended { attempts: CAS_ATTEMPTS_MAX, applied: 0 }))
    }

    /// The rules between a pool, what it was, other pools, and blocks.
    async fn check_pool<E>(
        &mut self,
        pool: &IpPool,
        stored: Option<&Entry>,
        settings: &Settings,
        batch: &mut Batch,
    ) -> Result<(), EditError<E>> {
        if let Some(old) = stored.and_then(|entry| IpPool::from_object(entry.object.clone())) {
            return check_fixed(&old, pool).map_err(EditError::Rule);
        }
        let guards = self.guards_in(pool, settings, &[]).await.map_err(EditError::Engine)?;
        batch.guards.extend(guards.map_err(EditError::Rule)?);
        Ok(())
    }

    /// What a new pool rests on, or the rule that it breaks. It may lie in its `ancestors`, named here.
    pub(super) async fn guards_of_new_pool(
        &mut self,
        pool: &IpPool,
        ancestors: &[String],
    ) -> Result<Result<Vec<Guard>, RuleBroken>, Error> {
        let settings = self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings);
        self.guards_in(pool, &settings.unwrap_or_default(), ancestors).await
    }

    async fn guards_in(
        &mut self,
        pool: &IpPool,
        settings: &Settings,
        ancestors: &[String],
    ) -> Result<Result<Vec<Guard>, RuleBroken>, Error> {
        let cidr = pool.spec.cidr;
        let others = settings.pools.iter().map(|(_, other)| other);
        let mut others = others.filter(|other| !ancestors.iter().any(|name| name == other.name()));
        if let Some(other) = others.find(|other| other.spec.cidr.overlaps(cidr)) {
            let (other, other_cidr) = (other.name().to_owned(), other.spec.cidr);
            return Ok(Err(RuleBroken::Overlap { cidr, other, other_cidr }));
        }
        let ledger = Ledger::of(&mut self.store, cidr, cidr).await?;
        let wanted = pool.spec.block_prefix();
        let mut in_the_way = ledger.blocks().iter().filter(|block| block.prefix() != wanted);
        if let Some(example) = in_the_way.next().copied() {
            let count = in_the_way.count() + 1;
            return Ok(Err(RuleBroken::OtherBlocks { wanted, count, example }));
        }
        // What was carved out of a pool that was deleted by force lies in this one now.
        let mut guards: Vec<Guard> = ledger.guard().into_iter().collect();
        guards.extend(settings.pools.iter().map(|(revision, other)| unchanged(*revision, other)));
        Ok(Ok(guards))
    }
}

fn unchanged(revision: Revision, pool: &IpPool) -> Guard {
    Guard::Unchanged(Key::Pool(pool.name().to_owned()), Some(revision))
}

fn check_fixed(old: &IpPool, new: &IpPool) -> Result<(), RuleBroken> {
    let fixed = |field, stored: String, asked: String| Err(RuleBroken::Fixed { field, stored, asked });
    if old.spec.cidr != new.spec.cidr {
        return fixed("spec.cidr", old.spec.cidr.to_string(), new.spec.cidr.to_string());
    }
    let (stored, asked) = (old.spec.block_prefix(), new.spec.block_prefix());
    if stored != asked {
        return fixed("spec.blockSize", stored.to_string(), asked.to_string());
    }
    let serves = |pool: &IpPool| pool.spec.allowed_uses.contains(&AllowedUse::LoadBalancer);
    if serves(old) && !serves(new) { Err(RuleBroken::LoadBalancer) } else { Ok(()) }
}
