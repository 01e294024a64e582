//! Deleting what addresses depend on: pools with their blocks, and nodes with what is kept for them.

use super::attempt::CAS_ATTEMPTS_MAX;
use super::release_affinity::{Emptiness, Meant, whole};
use super::reservation::subnet_reservation_name;
use super::{Block, Error, Ipam, owner};
use crate::api::HostName;
use crate::api::calico::IpPool;
use crate::clock::Timestamp;
use crate::datastore::{
    Answer, Batch, Carved, CarvedFor, Collection, Commit, Datastore, Entry, Guard, Key, Revision, Settings,
    Want,
};
use crate::net::Cidr;

/// What blocks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Blocks that hold something.
    pub blocks: usize,
    /// Addresses that somebody has.
    pub addresses: u64,
    /// Addresses that cool down after their release.
    pub cooling: u64,
    /// Networks carved out for something other than blocks.
    pub carved: CarvedCounts,
}

/// How many networks are carved out of a pool, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarvedCounts {
    /// For allocations that people made, or that outlived their claims.
    pub allocations: usize,
    /// For claims.
    pub claims: usize,
    /// For child pools.
    pub child_pools: usize,
}

impl CarvedCounts {
    /// All of them.
    #[must_use]
    pub const fn total(self) -> usize {
        self.allocations + self.claims + self.child_pools
    }

    fn of(carved: &[(Cidr, CarvedFor)]) -> Self {
        let mut counts = Self::default();
        for (_, owner) in carved {
            match owner {
                CarvedFor::Allocation(_) => counts.allocations += 1,
                CarvedFor::Claim(_) => counts.claims += 1,
                CarvedFor::ChildPool(_) => counts.child_pools += 1,
            }
        }
        counts
    }
}

impl Holdings {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks == 0 && self.carved.total() == 0
    }

    /// What a block holds that is not empty.
    pub(super) fn of(block: &Block) -> Self {
        let mut held = Self { blocks: 1, ..Self::default() };
        for allocation in block.allocations() {
            if allocation.fields.released_at.is_some() {
                held.cooling += 1;
            } else if !owner::is_host_reserved(&allocation.fields) {
                held.addresses += 1;
            }
        }
        held
    }

    pub(super) fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.addresses += other.addresses;
        self.cooling += other.cooling;
        self.carved.allocations += other.carved.allocations;
        self.carved.claims += other.carved.claims;
        self.carved.child_pools += other.carved.child_pools;
    }
}

/// What became of the blocks of something that was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Empty blocks that went with it.
    pub blocks: usize,
    /// What is left in other blocks, which go with their last address.
    pub left: Holdings,
}

/// What is done about a pool that holds addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// It is not deleted.
    No,
    /// It is deleted. Its blocks give nothing more, and go with their last address.
    Yes,
}

/// Why something was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// There is no such thing.
    #[error("it does not exist")]
    Missing,
    /// A pool holds addresses.
    #[error("it holds {} addresses, and {} networks are carved out of it", .0.addresses + .0.cooling, .0.carved.total())]
    Holds(Holdings),
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl<D: Datastore> Ipam<D> {
    /// Deletes a resource on which nothing depends.
    ///
    /// # Errors
    /// When there is none, or the store failed.
    pub async fn remove(&mut self, key: &Key) -> Result<(), RemoveError> {
        let mut may_be_gone = false;
        for _ in 0..CAS_ATTEMPTS_MAX {
            let read = self.store.read(&[Want::Object(key.clone())]).await.map_err(Error::from)?.pop();
            let Some(entry) = read.and_then(Answer::object) else {
                return if may_be_gone { Ok(()) } else { Err(RemoveError::Missing) };
            };
            let mut batch = Batch::default();
            batch.delete(key.clone(), entry.revision);
            match self.store.commit(batch).await.map_err(Error::from)? {
                Commit::Applied => return Ok(()),
                Commit::Refused(_) => {}
                Commit::Unknown => may_be_gone = true,
            }
        }
        Err(contended().into())
    }

    /// Deletes a pool, its blocks that hold nothing, and the reservation of its subnet's own addresses.
    ///
    /// It is switched off first, so that nobody takes a new address while its blocks are given up; a deletion that
    /// was interrupted leaves it so, and is done by deleting it again.
    ///
    /// # Errors
    /// [`RemoveError::Holds`] when it holds addresses, unless it is forced. Then nothing was changed.
    pub async fn remove_pool(
        &mut self,
        name: &str,
        force: Force,
        now: Timestamp,
    ) -> Result<Removed, RemoveError> {
        let settings = self.settings().await?;
        let (_, pool) = find(&settings, name)?;
        let cidr = pool.spec.cidr;
        let blocks = self.blocks_in(cidr, &settings, now).await?;
        refuse_if_held(&blocks, CarvedCounts::of(&self.carved_in(name, cidr).await?), force)?;
        let switched = self.switch(name, Switch::Off).await?;
        let outcome = self.empty_and_drop(name, cidr, force, now).await;
        if switched && matches!(outcome, Err(RemoveError::Holds(_))) {
            match self.switch(name, Switch::On).await {
                // Somebody else has deleted it.
                Ok(_) | Err(RemoveError::Missing) => {}
                Err(error) => return Err(error),
            }
        }
        outcome
    }

    /// Gives up the blocks of a pool that is switched off, and deletes it. Somebody who had read the pool before it was
    /// switched off may still be faster, with a further block or an address in one that was empty.
    async fn empty_and_drop(
        &mut self,
        name: &str,
        cidr: Cidr,
        force: Force,
        now: Timestamp,
    ) -> Result<Removed, RemoveError> {
        let settings = self.settings().await?;
        let blocks = self.blocks_in(cidr, &settings, now).await?;
        refuse_if_held(&blocks, CarvedCounts::of(&self.carved_in(name, cidr).await?), force)?;
        let mut went = 0;
        let mut may_be_gone = false;
        for _ in 0..CAS_ATTEMPTS_MAX {
            let (mut removed, mut left) =
                self.give_up(&Meant::Within(cidr), Emptiness::Required, now).await?;
            went += removed.blocks;
            removed.blocks = went;
            let carved = self.carved_in(name, cidr).await?;
            removed.left.carved = CarvedCounts::of(&carved);
            if force == Force::No && !removed.left.is_empty() {
                return Err(RemoveError::Holds(removed.left));
            }
            left.extend(carved.into_iter().map(|(cidr, _)| cidr));
            if self.drop_pool(name, cidr, &left, &mut may_be_gone).await? {
                return Ok(removed);
            }
        }
        Err(contended().into())
    }

    /// Deletes a node: blocks that are kept for it and hold nothing go, the others are kept for nobody from now on.
    ///
    /// # Errors
    /// When there is neither such a node nor anything that is kept for it, or the store failed.
    pub async fn remove_node(&mut self, host: &HostName, now: Timestamp) -> Result<Removed, RemoveError> {
        let removed = self.give_up_blocks_of(host, now).await?;
        let had_blocks = removed != Removed::default();
        match self.remove(&Key::Node(host.clone())).await {
            Err(RemoveError::Missing) if had_blocks => Ok(removed),
            outcome => outcome.map(|()| removed),
        }
    }

    async fn settings(&mut self) -> Result<Settings, Error> {
        Ok(self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default())
    }

    async fn carved_in(&mut self, name: &str, cidr: Cidr) -> Result<Vec<(Cidr, CarvedFor)>, Error> {
        let read = self.store.read(&[Want::All(Collection::Carved)]).await?.pop();
        let inside = |entry: Entry| match entry.key {
            Key::Carved(carved) if cidr.contains(carved) => {
                let owner = entry.into::<Carved>().owner;
                // The pool itself is carved out of its parent, not of itself.
                (owner != CarvedFor::ChildPool(name.to_owned())).then_some((carved, owner))
            }
            _ => None,
        };
        Ok(read.map(Answer::objects).unwrap_or_default().into_iter().filter_map(inside).collect())
    }

    async fn blocks_in(
        &mut self,
        cidr: Cidr,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<Vec<(Revision, Block)>, Error> {
        let read = self.store.read(&[Want::Blocks(cidr)]).await?.pop();
        let whole = |entry| {
            whole(entry, settings, now).map_err(|(block, problem)| Error::DamagedBlock { block, problem })
        };
        read.map(Answer::objects).unwrap_or_default().into_iter().map(whole).collect()
    }

    /// Switches a pool off, or on again. The answer: whether it stood otherwise.
    async fn switch(&mut self, name: &str, to: Switch) -> Result<bool, RemoveError> {
        let mut may_be_done = false;
        for _ in 0..CAS_ATTEMPTS_MAX {
            let settings = self.settings().await?;
            let (revision, pool) = find(&settings, name)?;
            if pool.spec.disabled == (to == Switch::Off) {
                return Ok(may_be_done);
            }
            let mut pool = pool.clone();
            pool.spec.disabled = to == Switch::Off;
            let mut batch = Batch::default();
            batch.update(Key::Pool(name.to_owned()), revision, pool);
            match self.store.commit(batch).await.map_err(Error::from)? {
                Commit::Applied => return Ok(true),
                Commit::Refused(_) => {}
                Commit::Unknown => may_be_done = true,
            }
        }
        Err(contended().into())
    }

    /// Deletes a pool of which nothing is left but what was seen. False: there is more, or nobody knows.
    async fn drop_pool(
        &mut self,
        name: &str,
        cidr: Cidr,
        left: &[Cidr],
        may_be_gone: &mut bool,
    ) -> Result<bool, RemoveError> {
        let settings = self.settings().await?;
        let (revision, _) = match find(&settings, name) {
            Err(RemoveError::Missing) if *may_be_gone => return Ok(true),
            found => found?,
        };
        let own = subnet_reservation_name(name);
        let mut batch = Batch::default();
        batch.delete(Key::Pool(name.to_owned()), revision);
        if let Some((at, _)) = settings.reservations.iter().find(|(_, stored)| stored.name() == own) {
            batch.delete(Key::Reservation(own), *at);
        }
        self.drop_face(name, cidr, left, &mut batch).await?;
        let outcome = self.store.commit(batch).await.map_err(Error::from)?;
        *may_be_gone |= outcome == Commit::Unknown;
        Ok(outcome == Commit::Applied)
    }
}

impl<D: Datastore> Ipam<D> {
    /// What only the other group knows of a pool goes with it, and what it was carved out of its parent as.
    async fn drop_face(
        &mut self,
        name: &str,
        cidr: Cidr,
        left: &[Cidr],
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let extras = Key::PoolExtras(name.to_owned());
        let wants = [Want::Object(extras.clone()), Want::CarvedCidrs(cidr), Want::Object(Key::Carved(cidr))];
        let mut answers = self.store.read(&wants).await?.into_iter();
        if let Some(entry) = answers.next().and_then(Answer::object) {
            batch.delete(extras, entry.revision);
        }
        let carved = answers.next().map(Answer::cidrs).unwrap_or_default();
        let mut seen = left.to_vec();
        seen.extend(carved.into_iter().filter(|outer| outer.contains(cidr) && *outer != cidr));
        if let Some(entry) = answers.next().and_then(Answer::object) {
            let revision = entry.revision;
            if entry.into::<Carved>().owner == CarvedFor::ChildPool(name.to_owned()) {
                batch.delete(Key::Carved(cidr), revision);
                seen.push(cidr);
            }
        }
        batch.guards.push(Guard::NothingNewIn(cidr, seen));
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    Off,
    On,
}

fn contended() -> Error {
    Error::Contended { attempts: CAS_ATTEMPTS_MAX, applied: 0 }
}

fn find<'a>(settings: &'a Settings, name: &str) -> Result<(Revision, &'a IpPool), RemoveError> {
    let found = settings.pools.iter().find(|(_, pool)| pool.name() == name);
    found.map(|(revision, pool)| (*revision, pool)).ok_or(RemoveError::Missing)
}

fn refuse_if_held(
    blocks: &[(Revision, Block)],
    carved: CarvedCounts,
    force: Force,
) -> Result<(), RemoveError> {
    let mut held = Holdings { carved, ..Holdings::default() };
    for (_, block) in blocks.iter().filter(|(_, block)| !block.is_empty()) {
        held.add(Holdings::of(block));
    }
    if held.is_empty() || force == Force::Yes { Ok(()) } else { Err(RemoveError::Holds(held)) }
}
