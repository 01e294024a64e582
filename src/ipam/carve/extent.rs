use std::fmt;

use super::{Exhausted, capacity, place, slots};
use crate::api::Affinity;
use crate::api::milo::{Capacity, Slots, Strategy};
use crate::net::{AddrSet, Cidr};

/// Something carved out of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its range.
    pub cidr: Cidr,
    /// What it was carved out for.
    pub by: Carver,
}

/// What an extent was carved out for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carver {
    /// A block, and whom it is kept for; `None`: nobody.
    Block(Option<Affinity>),
    /// An allocation that was applied, or that outlived its claim.
    Allocation {
        /// The project that it belongs to.
        project: String,
        /// Its name.
        name: String,
    },
    /// The allocation of a claim.
    Claim {
        /// The project that both belong to.
        project: String,
        /// The claim's name.
        name: String,
        /// The allocation's name.
        allocation: String,
    },
    /// A pool.
    ChildPool(String),
}

impl fmt::Display for Carver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Carver::Block(Some(Affinity::Host(host))) => write!(f, "the block of host `{host}`"),
            Carver::Block(Some(Affinity::Virtual(name))) => write!(f, "the block of `{name}`"),
            Carver::Block(None) => f.write_str("a block without a host"),
            Carver::Allocation { project, name } => write!(f, "IPAllocation `{name}` of project `{project}`"),
            Carver::Claim { project, name, .. } => write!(f, "IPClaim `{name}` of project `{project}`"),
            Carver::ChildPool(name) => write!(f, "the pool `{name}`"),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.cidr, self.by)
    }
}

/// Why a CIDR cannot be carved out of a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Clash {
    /// It does not lie in the pool.
    #[error("{asked} does not lie in the pool's range {pool}")]
    Outside {
        /// What was asked for.
        asked: Cidr,
        /// The pool's range.
        pool: Cidr,
    },
    /// Something else has some or all of it.
    #[error("{asked} is taken: {by}")]
    Taken {
        /// What was asked for.
        asked: Cidr,
        /// The first that has some of it.
        by: Box<Extent>,
    },
}

/// Everything carved out of one pool, ascending. No two overlap, and each lies inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extents {
    pool: Cidr,
    sorted: Vec<Extent>,
}

impl Extents {
    /// A pool that nothing was carved out of.
    #[must_use]
    pub const fn new(pool: Cidr) -> Self {
        Self { pool, sorted: Vec::new() }
    }

    /// Takes what a store holds; the second part of the answer is what could not be there: it overlaps another, or lies
    /// outside.
    pub fn from_stored(pool: Cidr, stored: impl IntoIterator<Item = Extent>) -> (Self, Vec<Clash>) {
        let mut all = Self::new(pool);
        let mut stored: Vec<_> = stored.into_iter().collect();
        stored.sort_by_key(|extent| extent.cidr);
        let clashes = stored.into_iter().filter_map(|extent| all.insert(extent).err()).collect();
        (all, clashes)
    }

    /// Whether a CIDR can be carved out.
    ///
    /// # Errors
    /// When it lies outside, or something else has some of it.
    pub fn check(&self, asked: Cidr) -> Result<(), Clash> {
        if !self.pool.contains(asked) {
            return Err(Clash::Outside { asked, pool: self.pool });
        }
        match self.sorted.get(self.place_of(asked)).filter(|extent| extent.cidr.overlaps(asked)) {
            Some(by) => Err(Clash::Taken { asked, by: Box::new(by.clone()) }),
            None => Ok(()),
        }
    }

    /// Carves one out.
    ///
    /// # Errors
    /// As [`Extents::check`]; then nothing was changed.
    pub fn insert(&mut self, extent: Extent) -> Result<(), Clash> {
        self.check(extent.cidr)?;
        self.sorted.insert(self.place_of(extent.cidr), extent);
        Ok(())
    }

    /// Where the first extent stands that does not end before a CIDR starts.
    fn place_of(&self, cidr: Cidr) -> usize {
        self.sorted.partition_point(|extent| extent.cidr.last_bits() < cidr.first_bits())
    }

    /// All of them, ascending.
    pub fn iter(&self) -> std::slice::Iter<'_, Extent> {
        self.sorted.iter()
    }

    /// The addresses that they have.
    #[must_use]
    pub fn taken(&self) -> AddrSet {
        let mut taken = AddrSet::new();
        self.sorted.iter().for_each(|extent| taken.insert_cidr(extent.cidr));
        taken
    }

    /// Chooses a free network of `prefix` bits.
    ///
    /// # Errors
    /// When there is none.
    pub fn place(&self, prefix: u8, strategy: Strategy) -> Result<Cidr, Exhausted> {
        let taken = self.taken();
        place(self.pool, &taken, prefix, strategy)
            .ok_or_else(|| Exhausted::explain(self.pool, &self.sorted, &taken, prefix))
    }

    /// How much of the pool is carved out.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        capacity(self.pool, &self.taken())
    }

    /// What is left for blocks of `prefix` bits.
    #[must_use]
    pub fn slots(&self, prefix: u8) -> Slots {
        slots(self.pool, &self.taken(), prefix)
    }
}

impl<'a> IntoIterator for &'a Extents {
    type Item = &'a Extent;
    type IntoIter = std::slice::Iter<'a, Extent>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
