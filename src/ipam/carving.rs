//! Carving networks out of pools for people: `IPAllocation`, `IPClaim` and child pools, beside the blocks of hosts.
//!
//! Each carve is one batch: the record under the range, the resource that it is for, and the guards that nothing else
//! was carved there and that the pool is still what it was. So nothing is ever carved without an owner. Where batches
//! are applied in order a guard alone cannot keep two carves apart, and carving is refused.

mod allocation;
mod claim;
mod error;
mod pool;
mod put;
mod release;
mod repair;
mod shown;

pub use error::CarveError;
pub use put::{IfExists, Outcome};
pub use shown::PoolShown;

use std::collections::BTreeMap;

use super::carve::{Carver, Extent, Extents};
use super::ledger::Ledger;
use super::{Error, Ipam, reservation};
use crate::api::calico::IpPool;
use crate::api::milo::view::PoolRecord;
use crate::api::milo::{AllocationRules, PoolExtras, SizeAsked, allocation_of_claim};
use crate::api::{Affinity, DEFAULT_PROJECT};
use crate::datastore::{Answer, Batch, CarvedFor, Collection, Datastore, Entry, Guard, Key, Revision, Want};
use crate::net::{Cidr, Family};

/// A pool to carve from, as it was read.
struct Source {
    record: PoolRecord,
    guards: Vec<Guard>,
    /// Addresses that the pool's own subnet needs.
    subnet: crate::net::AddrSet,
}

impl Source {
    fn cidr(&self) -> Cidr {
        self.record.calico.spec.cidr
    }

    fn name(&self) -> &str {
        self.record.calico.name()
    }

    /// The state of both its faces, as resources say it.
    fn version(&self) -> String {
        let revisions = self.guards.iter().filter_map(|guard| match guard {
            Guard::Unchanged(_, revision) => revision.map(put::version),
            Guard::NothingNewIn(..) => None,
        });
        revisions.collect::<Vec<_>>().join(".")
    }
}

impl<D: Datastore> Ipam<D> {
    /// Every pool with both its faces, and what the store has of each.
    async fn pool_records(&mut self) -> Result<Vec<Source>, Error> {
        let wants = [Want::Settings, Want::All(Collection::PoolExtras)];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let extras = answers.next().map(Answer::objects).unwrap_or_default();
        let mut extras: BTreeMap<String, (Revision, PoolExtras)> = extras
            .into_iter()
            .filter_map(|entry| match entry.key.clone() {
                Key::PoolExtras(name) => Some((name, (entry.revision, entry.into()))),
                _ => None,
            })
            .collect();
        let mut sources = Vec::new();
        for (revision, calico) in settings.pools {
            let name = calico.name().to_owned();
            let own = reservation::subnet_reservation_name(&name);
            let kept = settings.reservations.iter().find(|(_, stored)| stored.name() == own);
            let subnet = kept.map(|(_, stored)| reservation::addresses(&stored.spec)).unwrap_or_default();
            let (at, extras) = match extras.remove(&name) {
                Some((at, extras)) => (Some(at), extras),
                None => (None, PoolExtras::default()),
            };
            let guards = vec![
                Guard::Unchanged(Key::Pool(name.clone()), Some(revision)),
                Guard::Unchanged(Key::PoolExtras(name), at),
            ];
            sources.push(Source { record: PoolRecord { calico, extras }, guards, subnet });
        }
        Ok(sources)
    }

    /// Everything carved out of a pool, with whom each is for.
    async fn extents_of(&mut self, pool: &IpPool) -> Result<Extents, Error> {
        let cidr = pool.spec.cidr;
        let wants = [Want::BlockCidrs(cidr), Want::AllAffinities, Want::All(Collection::Carved)];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let blocks = answers.next().map(Answer::cidrs).unwrap_or_default();
        let affinities = answers.next().map(Answer::objects).unwrap_or_default();
        let carved = answers.next().map(Answer::objects).unwrap_or_default();
        let owners: BTreeMap<Cidr, Affinity> = affinities
            .into_iter()
            .filter_map(|entry| match entry.key {
                Key::Affinity(owner, block) => Some((block, owner)),
                _ => None,
            })
            .collect();
        let block = |cidr| Extent { cidr, by: Carver::Block(owners.get(&cidr).cloned()) };
        let carved = carved.into_iter().filter_map(carved_extent);
        let inside = |extent: &Extent| cidr.contains(extent.cidr) && !is_the_pool(extent, pool);
        let all = blocks.into_iter().map(block).chain(carved).filter(inside);
        Ok(Extents::from_stored(cidr, all).0)
    }

    /// Chooses a network in a pool, and says what the choice rests on.
    async fn choose(
        &mut self,
        source: &Source,
        prefix: u8,
        asked: Option<Cidr>,
    ) -> Result<(Cidr, Vec<Guard>), CarveError> {
        let pool = source.cidr();
        let ledger = Ledger::of(&mut self.store, pool, pool).await?;
        let strategy = source.record.extras.strategy();
        let place = |taken| super::carve::place(pool, taken, prefix, strategy);
        let free = if let Some(asked) = asked {
            Some(asked).filter(|asked| pool.contains(*asked) && ledger.is_free(*asked))
        } else {
            // What the pool's own subnet needs is left alone as long as there is something else.
            let mut kept = ledger.taken().clone();
            kept.extend(&source.subnet);
            place(&kept).or_else(|| place(ledger.taken()))
        };
        let Some(cidr) = free else {
            return Err(self.why_not(source, prefix, asked).await?);
        };
        let mut guards = source.guards.clone();
        guards.push(Guard::NothingNewIn(cidr, ledger.enclosing().to_vec()));
        Ok((cidr, guards))
    }

    async fn why_not(
        &mut self,
        source: &Source,
        prefix: u8,
        asked: Option<Cidr>,
    ) -> Result<CarveError, Error> {
        let extents = self.extents_of(&source.record.calico).await?;
        let pool = source.name().to_owned();
        if let Some(asked) = asked
            && let Err(clash) = extents.check(asked)
        {
            return Ok(CarveError::Clash { pool, clash });
        }
        Ok(match extents.place(prefix, source.record.extras.strategy()) {
            Err(exhausted) => CarveError::Exhausted { pool, exhausted: Box::new(exhausted) },
            // It came free since it was looked for.
            Ok(_) => CarveError::Engine(Error::Contended { attempts: 1, applied: 0 }),
        })
    }

    /// Where a guard alone cannot keep two carves apart there is no carving.
    fn can_carve(&self) -> Result<(), CarveError> {
        if self.store.is_atomic() { Ok(()) } else { Err(CarveError::NotAtomic) }
    }
}

/// Whether an extent is what a pool itself was carved out of its parent as.
fn is_the_pool(extent: &Extent, pool: &IpPool) -> bool {
    matches!(&extent.by, Carver::ChildPool(name) if name == pool.name())
}

fn carved_extent(entry: Entry) -> Option<Extent> {
    let Key::Carved(cidr) = entry.key else {
        return None;
    };
    let by = match entry.into::<crate::datastore::Carved>().owner {
        CarvedFor::Allocation(of) => Carver::Allocation { project: of.project, name: of.name },
        CarvedFor::Claim(of) => Carver::Claim {
            allocation: allocation_of_claim(crate::api::milo::NAMESPACE, &of.name),
            project: of.project,
            name: of.name,
        },
        CarvedFor::ChildPool(name) => Carver::ChildPool(name),
    };
    Some(Extent { cidr, by })
}

/// Finds the pool that a project asks for, and whether it may serve.
fn serving<'a>(
    sources: &'a [Source],
    pool: &str,
    owner: Option<&str>,
    project: &str,
) -> Result<&'a Source, CarveError> {
    let found = sources.iter().find(|source| source.name() == pool);
    let missing = || CarveError::PoolMissing { pool: pool.to_owned() };
    let source = found.ok_or_else(missing)?;
    let extras = &source.record.extras;
    // A pool of another project that is not shared is not told from one that does not exist.
    if !extras.serves(Some(project)) || owner.is_some_and(|owner| !is_owned_by(extras, owner)) {
        return Err(missing());
    }
    Ok(source)
}

fn is_owned_by(extras: &PoolExtras, owner: &str) -> bool {
    extras.project.as_deref().unwrap_or(DEFAULT_PROJECT) == owner
}

/// Whether a pool hands out a family now.
fn check_source(source: &Source, family: Family) -> Result<(), CarveError> {
    let pool = source.name().to_owned();
    let hands_out = source.cidr().family();
    if hands_out != family {
        return Err(CarveError::Family { pool, asked: family, hands_out });
    }
    match super::pools::closed(&source.record.calico) {
        Some(reason) => Err(CarveError::PoolClosed { pool, reason }),
        None => Ok(()),
    }
}

/// What length is carved, within what the pool allows.
fn length(source: &Source, size: &SizeAsked, prefix: Option<u8>) -> Result<u8, CarveError> {
    let record = &source.record;
    let prefix = prefix.unwrap_or_else(|| size.effective_prefix(&record.calico.spec, &record.extras));
    let pool = source.name().to_owned();
    AllocationRules::check(&record.extras.rules(), prefix)
        .map_err(|bounds| CarveError::Length { pool, bounds })?;
    Ok(prefix)
}

/// Adds guards to a batch.
fn guarded(mut batch: Batch, guards: Vec<Guard>) -> Batch {
    batch.guards.extend(guards);
    batch
}
