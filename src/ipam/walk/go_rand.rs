//! The generator of Go's `math/rand`, as far as Calico uses it: seeded, and asked for numbers below a limit.
//!
//! An additive lagged Fibonacci generator. Predictable; for nothing that must be secret.

mod cooked;

const LENGTH: usize = 607;
/// How far the two numbers that are added lie apart.
const TAP: usize = 273;
/// 2^31 − 1, the modulus of the generator that fills the state.
const SEED_MODULUS: u64 = 0x7fff_ffff;

/// `rand.New(rand.NewSource(seed))` of Go.
pub(super) struct GoRand {
    state: [u64; LENGTH],
    tap: usize,
    feed: usize,
}

impl GoRand {
    pub(super) fn seeded(seed: u32) -> Self {
        let mut lcg = match u64::from(seed) % SEED_MODULUS {
            0 => 89_482_311,
            seed => seed,
        };
        let mut next = || {
            lcg = lcg * 48_271 % SEED_MODULUS;
            lcg
        };
        for _ in 0..20 {
            next();
        }
        let state =
            cooked::COOKED.map(|cooked| cooked.cast_unsigned() ^ next() << 40 ^ next() << 20 ^ next());
        Self { state, tap: 0, feed: LENGTH - TAP }
    }

    /// A number below `limit`, as `big.Int.Rand` draws it on a machine of 64 bits. 0 when `limit` is 0.
    pub(super) fn below(&mut self, limit: u128) -> u128 {
        let Some(top_bit) = limit.checked_ilog2() else {
            return 0;
        };
        let mask = u128::MAX >> (127 - top_bit);
        loop {
            let mut number = u128::from(self.next_word());
            if top_bit >= 64 {
                number |= u128::from(self.next_word()) << 64;
            }
            number &= mask;
            if number < limit {
                return number;
            }
        }
    }

    fn next_word(&mut self) -> u64 {
        self.next32() | self.next32() << 32
    }

    /// Below 2^32: `Uint32` takes bits 31 to 62.
    fn next32(&mut self) -> u64 {
        self.tap = self.tap.checked_sub(1).unwrap_or(LENGTH - 1);
        self.feed = self.feed.checked_sub(1).unwrap_or(LENGTH - 1);
        let sum = self.state[self.feed].wrapping_add(self.state[self.tap]);
        self.state[self.feed] = sum;
        sum << 1 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_numbers_of_go() {
        let mut node_a = GoRand::seeded(568_266_999);
        assert_eq!([(); 3].map(|()| node_a.next32()), [1_549_122_234, 1_132_198_735, 1_704_301_745]);
        // The seed 0 and the multiples of the modulus are replaced; after 2000 numbers all of the state was fed back.
        for (seed, first, last) in [
            (0, 4_059_586_549, 1_157_117_817),
            (1, 2_596_996_162, 3_602_132_237),
            (0x7fff_ffff, 4_059_586_549, 1_157_117_817),
            (u32::MAX, 2_596_996_162, 3_602_132_237),
        ] {
            let mut rand = GoRand::seeded(seed);
            assert_eq!(rand.next32(), first, "seed {seed}");
            assert_eq!((1..2000).map(|_| rand.next32()).last(), Some(last), "seed {seed}");
        }
    }

    #[test]
    fn draws_again_until_below_a_limit_that_is_no_power_of_two() {
        for (limit, number) in [(3, 2), (7, 2), (100, 58), (1_000_003, 375_482)] {
            assert_eq!(GoRand::seeded(568_266_999).below(limit), number, "below {limit}");
        }
        assert_eq!(GoRand::seeded(1).below(0), 0);
        assert_eq!(GoRand::seeded(1).below(1), 0);
    }
}
