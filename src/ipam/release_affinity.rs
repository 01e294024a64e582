//! Giving up what is kept for hosts: blocks that hold nothing go, the others are kept for nobody from now on.

use std::collections::BTreeMap;

use super::attempt::{Attempts, Next};
use super::draft::Draft;
use super::remove::{Holdings, Removed};
use super::{Block, Config, Error, Ipam};
use crate::api::calico::IpamBlock;
use crate::api::{Affinity, HostName};
use crate::clock::Timestamp;
use crate::datastore::{Answer, Datastore, Entry, Key, Object, Revision, Settings, Want};
use crate::net::{AddrSet, Cidr};

/// How many operations a batch has at most here; each block takes two.
const CHUNK: usize = 100;

/// What a release requires of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptiness {
    /// Blocks that hold something stay as they are.
    Required,
    /// Blocks that hold something are kept for nobody from now on.
    NotRequired,
}

/// Why an affinity was not released.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseAffinityError {
    /// Blocks hold addresses, and were to be empty. The others were released.
    #[error("{} not released: {} in use", blocks_text(.blocks), .holdings.addresses + .holdings.cooling)]
    NotEmpty {
        /// The blocks.
        blocks: Vec<Cidr>,
        /// What is in them.
        holdings: Holdings,
    },
    /// The block was written since it was read. Nothing was changed.
    #[error("block {block} not released: it was written since it was read (sequence {read}, now {now})")]
    Changed {
        /// The block.
        block: Cidr,
        /// The number that was read.
        read: u64,
        /// The number now.
        now: u64,
    },
    /// There is no such block.
    #[error("there is no block {0}")]
    Missing(Cidr),
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

fn blocks_text(blocks: &[Cidr]) -> String {
    match blocks {
        [one] => format!("block {one}"),
        several => format!("{} blocks", several.len()),
    }
}

/// Which blocks and records are meant.
#[derive(Clone, Debug)]
pub(super) enum Meant {
    /// One block, at this number where one is given, and every record of it.
    Block(Cidr, Option<u64>),
    /// Those in a network, whoever they are kept for.
    Within(Cidr),
    /// Those of an owner.
    Of(Affinity),
}

impl Meant {
    fn block(&self, block: &Block) -> bool {
        match self {
            Meant::Block(cidr, number) => {
                block.cidr() == *cidr && number.is_none_or(|number| number == block.wire().sequence_number)
            }
            Meant::Within(network) => network.contains(block.cidr()),
            Meant::Of(owner) => block.affinity() == Some(owner),
        }
    }

    fn record(&self, owner: &Affinity, block: Cidr) -> bool {
        match self {
            Meant::Block(cidr, _) => block == *cidr,
            Meant::Within(network) => network.contains(block),
            Meant::Of(wanted) => owner == wanted,
        }
    }

    fn want(&self) -> Want {
        match self {
            Meant::Block(cidr, _) | Meant::Within(cidr) => Want::Blocks(*cidr),
            Meant::Of(_) => Want::AllBlocks,
        }
    }
}

/// What one reading found.
struct Seen {
    blocks: BTreeMap<Cidr, (Revision, Block)>,
    /// Blocks that are not well-formed: kept for whoever they are kept for, until they are mended.
    damaged: BTreeMap<Cidr, String>,
    records: BTreeMap<(Cidr, Affinity), Revision>,
}

impl<D: Datastore> Ipam<D> {
    /// Gives up one block: it goes if it holds nothing, else it is kept for nobody from now on. `sequence`: the block's
    /// number as it was read, where it must not have been written since.
    ///
    /// # Errors
    /// When there is no such block, it was written since, or it was to be empty and is not. Then nothing was changed.
    pub async fn release_block_affinity(
        &mut self,
        block: Cidr,
        required: Emptiness,
        sequence: Option<u64>,
        now: Timestamp,
    ) -> Result<Removed, ReleaseAffinityError> {
        let meant = Meant::Block(block, sequence);
        let seen = self.look(&meant, now).await?;
        if let Some(problem) = seen.damaged.get(&block) {
            return Err(Error::DamagedBlock { block, problem: problem.clone() }.into());
        }
        let removed = self.release_meant(&meant, required, now).await?;
        if removed == Removed::default() {
            // It was not there, or not as it was read.
            let seen = self.look(&meant, now).await?;
            let (_, found) = seen.blocks.get(&block).ok_or(ReleaseAffinityError::Missing(block))?;
            let number = found.wire().sequence_number;
            if let Some(read) = sequence.filter(|read| *read != number) {
                return Err(ReleaseAffinityError::Changed { block, read, now: number });
            }
        }
        Ok(removed)
    }

    /// Gives up every block in a network, whoever it is kept for.
    ///
    /// # Errors
    /// When some hold something and were to be empty: the others were released. When the store failed.
    pub async fn release_pool_affinities(
        &mut self,
        network: Cidr,
        required: Emptiness,
        now: Timestamp,
    ) -> Result<Removed, ReleaseAffinityError> {
        self.release_meant(&Meant::Within(network), required, now).await
    }

    /// Gives up every block that is kept for an owner.
    ///
    /// # Errors
    /// As [`Ipam::release_pool_affinities`].
    pub async fn release_affinities_of(
        &mut self,
        owner: &Affinity,
        required: Emptiness,
        now: Timestamp,
    ) -> Result<Removed, ReleaseAffinityError> {
        self.release_meant(&Meant::Of(owner.clone()), required, now).await
    }

    /// Gives up every block that is kept for a host, whether it holds something or not.
    ///
    /// # Errors
    /// When the store failed, or others were faster each time.
    pub async fn give_up_blocks_of(&mut self, host: &HostName, now: Timestamp) -> Result<Removed, Error> {
        let (removed, _) = self.give_up(&Meant::Of(host.clone().into()), Emptiness::NotRequired, now).await?;
        Ok(removed)
    }

    async fn release_meant(
        &mut self,
        meant: &Meant,
        required: Emptiness,
        now: Timestamp,
    ) -> Result<Removed, ReleaseAffinityError> {
        let (removed, left) = self.give_up(meant, required, now).await?;
        if required == Emptiness::Required && !left.is_empty() {
            return Err(ReleaseAffinityError::NotEmpty { blocks: left, holdings: removed.left });
        }
        Ok(removed)
    }

    /// Gives up what is meant, batch by batch; whatever changes meanwhile is looked at again. The answer: what went, and
    /// which blocks hold something.
    pub(super) async fn give_up(
        &mut self,
        meant: &Meant,
        required: Emptiness,
        now: Timestamp,
    ) -> Result<(Removed, Vec<Cidr>), Error> {
        let mut attempts = Attempts::default();
        let mut went = 0;
        let mut held: BTreeMap<Cidr, Holdings> = BTreeMap::new();
        'reading: loop {
            let seen = self.look(meant, now).await?;
            for chunk in seen.chunks(meant, required, now, &mut held) {
                let (draft, emptied) = chunk;
                match self.write(draft, &AddrSet::new(), &mut attempts).await? {
                    Next::Done => went += emptied.len(),
                    Next::StartOver => continue 'reading,
                }
                for cidr in emptied {
                    held.remove(&cidr);
                }
            }
            let mut removed = Removed { blocks: went, ..Removed::default() };
            for holdings in held.values() {
                removed.left.add(*holdings);
            }
            return Ok((removed, held.into_keys().collect()));
        }
    }

    async fn look(&mut self, meant: &Meant, now: Timestamp) -> Result<Seen, Error> {
        let mut answers =
            self.store.read(&[Want::Settings, meant.want(), Want::AllAffinities]).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let mut seen = Seen { blocks: BTreeMap::new(), damaged: BTreeMap::new(), records: BTreeMap::new() };
        for entry in answers.next().map(Answer::objects).unwrap_or_default() {
            match whole(entry, &settings, now) {
                Ok((revision, block)) => drop(seen.blocks.insert(block.cidr(), (revision, block))),
                Err((cidr, problem)) => drop(seen.damaged.insert(cidr, problem)),
            }
        }
        for entry in answers.next().map(Answer::objects).unwrap_or_default() {
            if let Key::Affinity(owner, cidr) = entry.key.clone()
                && meant.record(&owner, cidr)
            {
                seen.records.insert((cidr, owner), entry.revision);
            }
        }
        Ok(seen)
    }
}

impl Seen {
    /// The batches that give up what is meant, each with the blocks that go by it. `held` is told what stays.
    fn chunks(
        mut self,
        meant: &Meant,
        required: Emptiness,
        now: Timestamp,
        held: &mut BTreeMap<Cidr, Holdings>,
    ) -> Vec<(Draft, Vec<Cidr>)> {
        let mut chunks = Vec::new();
        let (mut draft, mut emptied) = (Draft::default(), Vec::new());
        let blocks = std::mem::take(&mut self.blocks);
        let standing: Vec<(Cidr, Option<Affinity>)> =
            blocks.values().map(|(_, block)| (block.cidr(), block.affinity().cloned())).collect();
        for (cidr, (revision, block)) in blocks {
            if !meant.block(&block) {
                continue;
            }
            if !block.is_empty() {
                held.insert(cidr, Holdings::of(&block));
                if required == Emptiness::Required || block.affinity().is_none() {
                    continue;
                }
            }
            let is_empty = block.is_empty();
            let loaded = draft.load_block(revision, block);
            if is_empty {
                draft.delete_block(cidr);
                emptied.push(cidr);
            } else {
                loaded.set_affinity(None, now);
            }
            self.drop_records(cidr, &mut draft);
            if draft.len() >= CHUNK {
                chunks.push((std::mem::take(&mut draft), std::mem::take(&mut emptied)));
            }
        }
        // Claims to blocks that do not exist, or are not their owner's.
        for ((cidr, owner), revision) in self.records {
            let is_its = standing.iter().any(|(block, of)| *block == cidr && of.as_ref() == Some(&owner));
            if is_its || self.damaged.contains_key(&cidr) {
                continue;
            }
            draft.drop_affinity(&owner, cidr, revision);
            if draft.len() >= CHUNK {
                chunks.push((std::mem::take(&mut draft), std::mem::take(&mut emptied)));
            }
        }
        chunks.push((draft, emptied));
        chunks
    }

    fn drop_records(&mut self, block: Cidr, draft: &mut Draft) {
        let of_block: Vec<(Cidr, Affinity)> =
            self.records.keys().filter(|(cidr, _)| *cidr == block).cloned().collect();
        for key in of_block {
            if let Some(revision) = self.records.remove(&key) {
                draft.drop_affinity(&key.1, block, revision);
            }
        }
    }
}

/// A block as it stands now, with what has cooled down freed. What is wrong with it, if it is damaged.
pub(super) fn whole(
    entry: Entry,
    settings: &Settings,
    now: Timestamp,
) -> Result<(Revision, Block), (Cidr, String)> {
    let revision = entry.revision;
    let wire: IpamBlock = match entry.object {
        Object::Block(wire) => *wire,
        other => unreachable!("asked for blocks, answered with {other:?}"),
    };
    let cidr = wire.cidr;
    let mut block = Block::from_wire(wire).map_err(|problem| (cidr, problem))?;
    let config = Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored));
    block.collect(config.cooldown, now);
    Ok((revision, block))
}
