//! Cutting a pool into equal parts. Blocks, and who has which address, stay as they are.

use super::attempt::CAS_ATTEMPTS_MAX;
use super::{Error, Ipam};
use crate::api::calico::IpPool;
use crate::datastore::{Answer, Batch, Commit, Datastore, Guard, Key, Want};
use crate::net::Cidr;

/// The most parts: the pool and its parts are changed in one commit.
pub const PARTS_MAX: u32 = 64;

/// Why a pool was not split. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// No pool has that name or CIDR.
    #[error("unable to find IP pool `{}`", .0.escape_debug())]
    Missing(String),
    /// A pool is halved, and halved again.
    #[error("{0} is not a valid power of 2: expected 2, 4, 8 and so on, up to {PARTS_MAX}")]
    NotAPowerOfTwo(u32),
    /// A part holds at least one block.
    #[error(
        "pool {cidr} is not large enough for {parts} parts: each would be a /{part}, smaller than its blocks of /{block}"
    )]
    TooSmall {
        /// The pool's range.
        cidr: Cidr,
        /// How many parts were asked for.
        parts: u32,
        /// The prefix length of a part.
        part: u32,
        /// The prefix length of a block.
        block: u8,
    },
    /// A block is larger than a part.
    #[error("block {block} is larger than a part of /{part}")]
    LargerBlock {
        /// The block.
        block: Cidr,
        /// The prefix length of a part.
        part: u32,
    },
    /// Something other than blocks was carved out of the pool, and names it.
    #[error("{carved} is carved out of {cidr} for an IPAllocation, an IPClaim or a child pool")]
    Carved {
        /// The pool's range.
        cidr: Cidr,
        /// What is carved out of it.
        carved: Cidr,
    },
    /// A part's name is taken.
    #[error("there is a pool `{}` already", .0.escape_debug())]
    NameTaken(String),
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl<D: Datastore> Ipam<D> {
    /// Splits a pool, named by its name or CIDR, into equal parts. The answer: the pool that was, and its parts.
    ///
    /// # Errors
    /// When the pool or the number cannot be, or the store failed. Nothing was changed.
    pub async fn split_pool(&mut self, asked: &str, parts: u32) -> Result<(IpPool, Vec<IpPool>), SplitError> {
        if !parts.is_power_of_two() || !(2..=PARTS_MAX).contains(&parts) {
            return Err(SplitError::NotAPowerOfTwo(parts));
        }
        let mut perhaps_done = None;
        for _ in 0..CAS_ATTEMPTS_MAX {
            let settings = self.store.read(&[Want::Settings]).await.map_err(Error::from)?.pop();
            let settings = settings.map(Answer::settings).unwrap_or_default();
            let is_meant = |pool: &IpPool| {
                pool.name() == asked || Cidr::parse_masking(asked).is_ok_and(|cidr| cidr == pool.spec.cidr)
            };
            let found = settings.pools.iter().find(|(_, pool)| is_meant(pool));
            let Some((revision, pool)) = found else {
                // A commit whose answer was lost may have done it.
                return perhaps_done.ok_or_else(|| SplitError::Missing(asked.to_owned()));
            };
            let cidr = pool.spec.cidr;
            let wants = [Want::BlockCidrs(cidr), Want::CarvedCidrs(cidr)];
            let mut read = self.store.read(&wants).await.map_err(Error::from)?.into_iter().map(Answer::cidrs);
            let (blocks, carved) = (read.next().unwrap_or_default(), read.next().unwrap_or_default());
            if let Some(carved) = carved.first() {
                return Err(SplitError::Carved { cidr, carved: *carved });
            }
            let children = children(pool, parts, &blocks)?;
            let mut batch = Batch::default();
            batch.delete(Key::Pool(pool.name().to_owned()), *revision);
            for child in &children {
                if settings.pools.iter().any(|(_, other)| other.name() == child.name()) {
                    return Err(SplitError::NameTaken(child.name().to_owned()));
                }
                batch.create(Key::Pool(child.name().to_owned()), child.clone());
            }
            batch.guards.push(Guard::NothingNewIn(cidr, blocks));
            match self.store.commit(batch).await.map_err(Error::from)? {
                Commit::Applied => return Ok((pool.clone(), children)),
                Commit::Refused(_) => {}
                Commit::Unknown => perhaps_done = Some((pool.clone(), children)),
            }
        }
        Err(SplitError::Engine(Error::Contended { attempts: CAS_ATTEMPTS_MAX, applied: 0 }))
    }
}

fn children(pool: &IpPool, parts: u32, blocks: &[Cidr]) -> Result<Vec<IpPool>, SplitError> {
    let cidr = pool.spec.cidr;
    let part = u32::from(cidr.prefix()) + parts.trailing_zeros();
    let block = pool.spec.block_prefix();
    let too_small = || SplitError::TooSmall { cidr, parts, part, block };
    let prefix = u8::try_from(part).ok().filter(|prefix| *prefix <= block).ok_or_else(too_small)?;
    if let Some(larger) = blocks.iter().find(|block| block.prefix() < prefix) {
        return Err(SplitError::LargerBlock { block: *larger, part });
    }
    let mut children = Vec::new();
    for index in 0..parts {
        let part = cidr.nth_subnet(prefix, index.into()).ok_or_else(too_small)?;
        let mut child = pool.clone();
        // The longest name that a part's own may be made of, so that it stays a name.
        let stem: String = pool.name().chars().take(240).collect();
        child.metadata.name = format!("split-{stem}-{index}");
        child.metadata.resource_version = None;
        child.metadata.uid = None;
        child.metadata.annotations.clear();
        child.spec.cidr = part;
        children.push(child);
    }
    Ok(children)
}
