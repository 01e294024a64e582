//! What is carved out, as people look at it: pools with their capacity, allocations with the blocks of hosts among them,
//! and claims.

use std::collections::BTreeMap;

use super::put::version;
use crate::api::Affinity;
use crate::api::calico::{AffinityState, BlockAffinity, IpPool as CalicoPool, IpamBlock};
use crate::api::milo::view::{BlockShown, PoolRecord};
use crate::api::milo::{IpAllocation, IpClaim, IpPool};
use crate::datastore::{
    Answer, Collection, Datastore, Entry, Inspect, Key, ProjectName, Settings, Visit, Want,
};
use crate::ipam::carve::Extents;
use crate::ipam::{Block, Error, Ipam};
use crate::net::Cidr;

/// A pool, and what was carved out of it.
#[derive(Clone, Debug)]
pub struct PoolShown {
    /// Both faces of it.
    pub record: PoolRecord,
    /// What was carved out of it.
    pub extents: Extents,
    /// The state of both faces, as [`IpPool`] says it.
    pub version: String,
}

impl PoolShown {
    /// The pool with its status.
    #[must_use]
    pub fn to_resource(&self) -> IpPool {
        let prefix = self.record.calico.spec.block_prefix();
        let mut pool = self.record.to_resource(&self.extents.capacity(), &self.extents.slots(prefix));
        pool.metadata.resource_version = Some(self.version.clone());
        pool
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
            let version = source.version();
            shown.push(PoolShown { record: source.record, extents, version });
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
                shown.push((Some(name), stored_allocation(entry)));
            }
        }
        let states: BTreeMap<(Cidr, Affinity), AffinityState> =
            affinities.into_iter().filter_map(state).collect();
        let state_of = |owner: &Affinity, block: Cidr| states.get(&(block, owner.clone())).copied();
        shown.extend(
            blocks
                .into_iter()
                .filter_map(|entry| Some((None, projected(entry.into(), &settings, state_of)?))),
        );
        Ok(shown)
    }

    /// Every allocation that people made, by project and name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn stored_allocations(&mut self) -> Result<Vec<(ProjectName, IpAllocation)>, Error> {
        let read = self.store.read(&[Want::All(Collection::Allocations)]).await?.pop();
        let named = |entry: Entry| match entry.key.clone() {
            Key::Allocation(name) => Some((name, stored_allocation(entry))),
            _ => None,
        };
        Ok(read.map(Answer::objects).unwrap_or_default().into_iter().filter_map(named).collect())
    }

    /// One allocation that people made. `None`: there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn shown_allocation(&mut self, name: &ProjectName) -> Result<Option<IpAllocation>, Error> {
        let read = self.store.read(&[Want::Object(Key::Allocation(name.clone()))]).await?.pop();
        Ok(read.and_then(Answer::object).map(stored_allocation))
    }

    /// One block as an allocation. `None`: there is no such block.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn shown_block(&mut self, block: Cidr) -> Result<Option<IpAllocation>, Error> {
        let wants = [Want::Settings, Want::Object(Key::Block(block)), Want::AllAffinities];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let entry = answers.next().and_then(Answer::object);
        let affinities = answers.next().map(Answer::objects).unwrap_or_default();
        let states: BTreeMap<_, _> = affinities.into_iter().filter_map(state).collect();
        let state_of = |owner: &Affinity, block: Cidr| states.get(&(block, owner.clone())).copied();
        Ok(entry.and_then(|entry| projected(entry.into(), &settings, state_of)))
    }

    /// Every claim, by project and name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn shown_claims(&mut self) -> Result<Vec<(ProjectName, IpClaim)>, Error> {
        let read = self.store.read(&[Want::All(Collection::Claims)]).await?.pop();
        let named = |entry: Entry| match entry.key.clone() {
            Key::Claim(name) => {
                let at = version(entry.revision);
                let mut claim: IpClaim = entry.into();
                claim.metadata.resource_version = Some(at);
                Some((name, claim))
            }
            _ => None,
        };
        Ok(read.map(Answer::objects).unwrap_or_default().into_iter().filter_map(named).collect())
    }
}

impl<D: Inspect> Ipam<D> {
    /// Every block as an allocation, in the order of their ranges, and what could not be read.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub async fn shown_blocks(&mut self) -> Result<(Vec<IpAllocation>, Vec<String>), Error> {
        let settings = self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings);
        let settings = settings.unwrap_or_default();
        let affinities = self.store.all_affinities().await?;
        let states: BTreeMap<_, _> = affinities.records.into_iter().filter_map(state).collect();
        let state_of = |owner: &Affinity, block: Cidr| states.get(&(block, owner.clone())).copied();
        let mut damaged: Vec<String> =
            affinities.damaged.into_iter().map(|(_, error)| error.to_string()).collect();
        let mut shown = Vec::new();
        let mut visit = |Visit { block, .. }: Visit| match block {
            Ok(wire) => shown.extend(projected(wire, &settings, state_of)),
            Err(error) => damaged.push(error.to_string()),
        };
        self.store.each_block(&mut visit).await?;
        Ok((shown, damaged))
    }
}

fn stored_allocation(entry: Entry) -> IpAllocation {
    let at = version(entry.revision);
    let mut allocation: IpAllocation = entry.into();
    allocation.metadata.resource_version = Some(at);
    allocation
}

/// Where the record of an affinity stands.
fn state(entry: Entry) -> Option<((Cidr, Affinity), AffinityState)> {
    match entry.key.clone() {
        Key::Affinity(owner, block) => Some(((block, owner), entry.into::<BlockAffinity>().state)),
        _ => None,
    }
}

/// A block as an allocation of the innermost pool that it lies in. `None`: it is damaged. `check` names it, and it is
/// nobody's allocation until it is mended.
fn projected(
    wire: IpamBlock,
    settings: &Settings,
    state_of: impl Fn(&Affinity, Cidr) -> Option<AffinityState>,
) -> Option<IpAllocation> {
    let number = wire.sequence_number;
    let block = Block::from_wire(wire).ok()?;
    let cidr = block.cidr();
    let inside = settings.pools.iter().map(|(_, pool)| pool).filter(|pool| pool.spec.cidr.contains(cidr));
    let pool = inside.max_by_key(|pool| pool.spec.cidr.prefix()).map_or("", CalicoPool::name);
    let shown = BlockShown {
        cidr,
        affinity: block.affinity(),
        state: block.affinity().and_then(|owner| state_of(owner, cidr)),
        pool,
        created: block.claimed(),
        revision: Some(number),
    };
    Some(shown.to_allocation())
}
