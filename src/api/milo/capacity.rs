use super::PoolCapacity;
use crate::net::Cidr;

/// How much of a pool is carved out. Exact up to 2^128 - 1 addresses; `::/0`, which no pool can be since it holds the
/// link-local range, counts as one less than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The addresses of its range. None is withheld: not the network's, not the broadcast's.
    pub total: u128,
    /// Those that something was carved out of.
    pub allocated: u128,
    /// The others.
    pub available: u128,
    /// The prefix length of the largest network that is free. `None`: none is.
    pub largest_free_prefix: Option<u8>,
}

impl Capacity {
    /// As that API counts: each number stops at the largest of its type, and the difference is that of what is left. So
    /// a large pool of IPv6 shows nothing available once 2^63 addresses are carved out.
    #[must_use]
    pub fn saturated(&self) -> PoolCapacity {
        let stop = |count: u128| i64::try_from(count).unwrap_or(i64::MAX);
        let (total, allocated) = (stop(self.total), stop(self.allocated));
        PoolCapacity { total, allocated, available: total - allocated }
    }

    /// The part that is carved out, in percent, rounded down.
    #[must_use]
    pub fn utilization_percent(&self) -> u8 {
        if self.available == 0 {
            return 100;
        }
        let percent = match self.allocated.checked_mul(100) {
            Some(hundredfold) => hundredfold / self.total,
            // Such a total is a power of two: its seven lowest bits are zero, and what they cut off cannot count.
            None => ((self.allocated >> 7) * 100 + (((self.allocated & 127) * 100) >> 7)) / (self.total >> 7),
        };
        u8::try_from(percent).unwrap_or(99).min(99)
    }
}

/// How the blocks of a pool fare: a block needs a slot of its grid that nothing was carved out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The prefix length of a block.
    pub prefix: u8,
    /// The slots of the grid; 0: the pool is narrower than a block, and serves no pods.
    pub total: u128,
    /// Those of which every address is free.
    pub free: u128,
    /// Those that something smaller was carved out of, and that still have free addresses.
    pub broken: u128,
    /// The free addresses that are in no free slot: no block can have them.
    pub stranded: u128,
}

impl Slots {
    /// Why no block can be cut, in words, where addresses are free. `None`: one can be, or nothing is free at all.
    #[must_use]
    pub fn obstacle(&self, pool: Cidr) -> Option<String> {
        if self.free > 0 || self.stranded == 0 {
            return None;
        }
        let (stranded, prefix) = (self.stranded, self.prefix);
        Some(if self.total == 0 {
            format!("{pool} is narrower than a block of /{prefix}")
        } else {
            let broken = self.broken;
            format!(
                "{stranded} addresses are free, but none of its blocks of /{prefix} is whole: {broken} are broken by smaller allocations"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_exact_at_every_size() {
        let percent = |total: u128, allocated: u128| {
            Capacity { total, allocated, available: total - allocated, largest_free_prefix: None }
                .utilization_percent()
        };
        assert_eq!(percent(256, 80), 31);
        assert_eq!(percent(1, 1), 100);
        assert_eq!(percent(65536, 65535), 99);
        assert_eq!(percent(1 << 80, 1 << 64), 0);
        for bits in [100, 121, 122, 126, 127] {
            let total = 1u128 << bits;
            assert_eq!((percent(total, 0), percent(total, 1), percent(total, total)), (0, 0, 100));
            assert_eq!((percent(total, total / 2), percent(total, total / 2 - 1)), (50, 49), "{bits}");
            assert_eq!((percent(total, total / 4), percent(total, total / 4 - 1)), (25, 24), "{bits}");
            assert_eq!(percent(total, total - 1), 99);
        }
        assert_eq!((percent(u128::MAX, 0), percent(u128::MAX, u128::MAX)), (0, 100));
        assert_eq!(percent(u128::MAX, u128::MAX - 1), 99);
    }
}
