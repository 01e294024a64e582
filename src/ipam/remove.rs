//! Deleting what addresses depend on: pools with their blocks, and nodes with what is kept for them.

use std::collections::BTreeMap;

use super::attempt::{Attempts, CAS_ATTEMPTS_MAX, Next};
use super::draft::Draft;
use super::reservation::subnet_reservation_name;
use super::{Block, Config, Error, Ipam, owner};
use crate::api::calico::{IpPool, IpamBlock};
use crate::api::{Affinity, HostName};
use crate::clock::Timestamp;
use crate::datastore::{
    Answer, Batch, Commit, Datastore, Entry, Guard, Key, Object, Revision, Settings, Want,
};
use crate::net::{AddrSet, Cidr};

/// How many operations a batch of blocks that are given up has at most; each block takes two.
const CHUNK: usize = 100;

/// What blocks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Blocks that hold something.
    pub blocks: usize,
    /// Addresses that somebody has.
    pub addresses: u64,
    /// Addresses that cool down after their release.
    pub cooling: u64,
}

impl Holdings {
    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    fn count(&mut self, block: &Block) {
        self.blocks += 1;
        for allocation in block.allocations() {
            if allocation.fields.released_at.is_some() {
                self.cooling += 1;
            } else if !owner::is_host_reserved(&allocation.fields) {
                self.addresses += 1;
            }
        }
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
    #[error("it holds addresses, or some that cool down: {} in all", .0.addresses + .0.cooling)]
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
        for _ in 0..CAS_ATTEMPTS_MAX {
            let read = self.store.read(&[Want::Object(key.clone())]).await.map_err(Error::from)?.pop();
            let entry = read.and_then(Answer::object).ok_or(RemoveError::Missing)?;
            let mut batch = Batch::default();
            batch.delete(key.clone(), entry.revision);
            if self.store.commit(batch).await.map_err(Error::from)? == Commit::Applied {
                return Ok(());
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
        refuse_if_held(&blocks, force)?;
        self.switch_off(name).await?;
        // Whoever was faster than the switch has an address now.
        let blocks = self.blocks_in(cidr, &settings, now).await?;
        refuse_if_held(&blocks, force)?;
        let mut removed = Removed::default();
        let mut left = Vec::new();
        for (_, block) in blocks.iter().filter(|(_, block)| !block.is_empty()) {
            removed.left.count(block);
            left.push(block.cidr());
        }
        let empty = blocks.into_iter().filter(|(_, block)| block.is_empty()).collect();
        removed.blocks = self.give_up(empty, |block| cidr.contains(block), now).await?;
        self.drop_pool(name, cidr, &left).await?;
        Ok(removed)
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

    /// Gives up what is kept for a host: blocks that hold nothing go, the others are kept for nobody from now on.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn give_up_blocks_of(&mut self, host: &HostName, now: Timestamp) -> Result<Removed, Error> {
        let settings = self.settings().await?;
        let affinity = Affinity::from(host.clone());
        let all = self.store.read(&[Want::AllBlocks]).await?.pop();
        let mut own = Vec::new();
        for entry in all.map(Answer::objects).unwrap_or_default() {
            // A block that is damaged is kept for whoever it is kept for, until it is mended.
            if let Ok((revision, block)) = whole(entry, &settings, now)
                && block.affinity() == Some(&affinity)
            {
                own.push((revision, block));
            }
        }
        let mut removed = Removed::default();
        for (_, block) in own.iter().filter(|(_, block)| !block.is_empty()) {
            removed.left.count(block);
        }
        removed.blocks = self.give_up_of(own, |owner, _| *owner == affinity, now).await?;
        Ok(removed)
    }

    async fn settings(&mut self) -> Result<Settings, Error> {
        Ok(self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default())
    }

    async fn blocks_in(
        &mut self,
        cidr: Cidr,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<Vec<(Revision, Block)>, Error> {
        let read = self.store.read(&[Want::Blocks(cidr)]).await?.pop();
        read.map(Answer::objects)
            .unwrap_or_default()
            .into_iter()
            .map(|entry| whole(entry, settings, now))
            .collect()
    }

    async fn switch_off(&mut self, name: &str) -> Result<(), RemoveError> {
        for _ in 0..CAS_ATTEMPTS_MAX {
            let settings = self.settings().await?;
            let (revision, pool) = find(&settings, name)?;
            if pool.spec.disabled {
                return Ok(());
            }
            let mut pool = pool.clone();
            pool.spec.disabled = true;
            let mut batch = Batch::default();
            batch.update(Key::Pool(name.to_owned()), revision, pool);
            if self.store.commit(batch).await.map_err(Error::from)? == Commit::Applied {
                return Ok(());
            }
        }
        Err(contended().into())
    }

    async fn drop_pool(&mut self, name: &str, cidr: Cidr, left: &[Cidr]) -> Result<(), RemoveError> {
        for _ in 0..CAS_ATTEMPTS_MAX {
            let settings = self.settings().await?;
            let (revision, _) = find(&settings, name)?;
            let own = subnet_reservation_name(name);
            let mut batch = Batch::default();
            batch.delete(Key::Pool(name.to_owned()), revision);
            if let Some((at, _)) = settings.reservations.iter().find(|(_, stored)| stored.name() == own) {
                batch.delete(Key::Reservation(own), *at);
            }
            batch.guards.push(Guard::NothingNewIn(cidr, left.to_vec()));
            if self.store.commit(batch).await.map_err(Error::from)? == Commit::Applied {
                return Ok(());
            }
        }
        Err(contended().into())
    }

    /// Gives up empty blocks, and every record of an affinity to a block that lies where `is_there` says.
    async fn give_up(
        &mut self,
        blocks: Vec<(Revision, Block)>,
        is_there: impl Fn(Cidr) -> bool,
        now: Timestamp,
    ) -> Result<usize, Error> {
        let given_up: Vec<Cidr> = blocks.iter().map(|(_, block)| block.cidr()).collect();
        let meant = move |_: &Affinity, cidr| is_there(cidr) && given_up.contains(&cidr);
        self.give_up_of(blocks, meant, now).await
    }

    /// Gives up blocks: empty ones go, others lose their affinity. Records of affinities that are `meant` go with
    /// them. The answer: how many blocks went.
    async fn give_up_of(
        &mut self,
        blocks: Vec<(Revision, Block)>,
        meant: impl Fn(&Affinity, Cidr) -> bool,
        now: Timestamp,
    ) -> Result<usize, Error> {
        let read = self.store.read(&[Want::AllAffinities]).await?.pop();
        let mut records: BTreeMap<Cidr, Vec<(Affinity, Revision)>> = BTreeMap::new();
        for entry in read.map(Answer::objects).unwrap_or_default() {
            if let Key::Affinity(owner, cidr) = entry.key
                && meant(&owner, cidr)
            {
                records.entry(cidr).or_default().push((owner, entry.revision));
            }
        }
        let mut went = 0;
        let mut attempts = Attempts::default();
        let mut draft = Draft::default();
        for (revision, block) in blocks {
            let cidr = block.cidr();
            let is_empty = block.is_empty();
            let block = draft.load_block(revision, block);
            if is_empty {
                draft.delete_block(cidr);
                went += 1;
            } else {
                block.set_affinity(None, now);
            }
            for (owner, revision) in records.remove(&cidr).unwrap_or_default() {
                draft.drop_affinity(&owner, cidr, revision);
            }
            if draft.len() >= CHUNK {
                self.write_chunk(std::mem::take(&mut draft), &mut attempts).await?;
            }
        }
        // Claims without a block of theirs.
        for (cidr, owners) in records {
            for (owner, revision) in owners {
                draft.drop_affinity(&owner, cidr, revision);
                if draft.len() >= CHUNK {
                    self.write_chunk(std::mem::take(&mut draft), &mut attempts).await?;
                }
            }
        }
        self.write_chunk(draft, &mut attempts).await?;
        Ok(went)
    }

    /// Whoever was faster has changed what was read: everything has to be looked at again, by asking again.
    async fn write_chunk(&mut self, draft: Draft, attempts: &mut Attempts) -> Result<(), Error> {
        match self.write(draft, &AddrSet::new(), attempts).await? {
            Next::Done => Ok(()),
            Next::StartOver => Err(contended()),
        }
    }
}

fn contended() -> Error {
    Error::Contended { attempts: CAS_ATTEMPTS_MAX }
}

fn find<'a>(settings: &'a Settings, name: &str) -> Result<(Revision, &'a IpPool), RemoveError> {
    let found = settings.pools.iter().find(|(_, pool)| pool.name() == name);
    found.map(|(revision, pool)| (*revision, pool)).ok_or(RemoveError::Missing)
}

fn refuse_if_held(blocks: &[(Revision, Block)], force: Force) -> Result<(), RemoveError> {
    let mut held = Holdings::default();
    for (_, block) in blocks.iter().filter(|(_, block)| !block.is_empty()) {
        held.count(block);
    }
    if held.is_empty() || force == Force::Yes { Ok(()) } else { Err(RemoveError::Holds(held)) }
}

fn whole(entry: Entry, settings: &Settings, now: Timestamp) -> Result<(Revision, Block), Error> {
    let revision = entry.revision;
    let wire: IpamBlock = match entry.object {
        Object::Block(wire) => *wire,
        other => unreachable!("asked for blocks, answered with {other:?}"),
    };
    let cidr = wire.cidr;
    let mut block = Block::from_wire(wire).map_err(|problem| Error::DamagedBlock { block: cidr, problem })?;
    let config = Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored));
    block.collect(config.cooldown, now);
    Ok((revision, block))
}
