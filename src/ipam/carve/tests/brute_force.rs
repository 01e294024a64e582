//! The arithmetic against a model too simple to be wrong: a flag for each address of a small pool.

use super::{AddrSet, Cidr, Strategy, capacity, cidr, place, slots};
use proptest::prelude::*;

/// Which addresses of a pool are taken.
struct Model {
    pool: Cidr,
    taken: Vec<bool>,
}

impl Model {
    fn new(pool: Cidr, carved: &[Cidr]) -> Self {
        let addresses = (0..pool.size()).map(|position| pool.nth(position).expect("inside"));
        let taken = addresses.map(|ip| carved.iter().any(|cidr| cidr.contains_address(ip))).collect();
        Self { pool, taken }
    }

    /// All networks of a length, and the flags of their addresses.
    fn networks(&self, prefix: u8) -> Vec<(Cidr, &[bool])> {
        let count = self.pool.subnet_count(prefix);
        let nets = (0..count).map(|n| self.pool.nth_subnet(prefix, n).expect("inside"));
        if count == 0 {
            return Vec::new();
        }
        nets.zip(self.taken.chunks(self.taken.len() / usize::try_from(count).expect("small"))).collect()
    }

    fn free_networks(&self, prefix: u8) -> Vec<Cidr> {
        let all = self.networks(prefix).into_iter();
        all.filter(|(_, taken)| taken.iter().all(|taken| !taken)).map(|(net, _)| net).collect()
    }

    /// How many addresses the run of free ones has that a free network lies in.
    fn run_around(&self, net: Cidr) -> usize {
        let at = usize::try_from(self.pool.position(net.first()).expect("inside")).expect("small");
        let is_free = |taken: &&bool| !**taken;
        let before = self.taken[..at].iter().rev().take_while(is_free).count();
        before + self.taken[at..].iter().take_while(is_free).count()
    }

    fn place(&self, prefix: u8, strategy: Strategy) -> Option<Cidr> {
        let free = self.free_networks(prefix);
        match strategy {
            Strategy::BestFit => free.into_iter().min_by_key(|net| (self.run_around(*net), *net)),
            _ => free.into_iter().next(),
        }
    }
}

const POOLS: [&str; 4] =
    ["10.0.0.0/25", "255.255.255.128/25", "fd00::/121", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff80/121"];

proptest! {
    // What proptest prints on failure is enough to run the case again.
    #[test]
    fn placement_and_figures_are_those_of_a_bitmap(
        pool in prop::sample::select(&POOLS[..]),
        asked in prop::collection::vec((0u128..128, 0u8..8), 0..14),
        depth in 0u8..=8,
    ) {
        let pool = cidr(pool);
        let bits = pool.family().bits();
        let mut carved: Vec<Cidr> = Vec::new();
        let mut taken = AddrSet::new();
        for (position, shorter) in asked {
            let net = Cidr::containing(pool.nth(position).expect("inside"), bits - shorter).expect("a CIDR");
            if !carved.iter().any(|other| other.overlaps(net)) {
                carved.push(net);
                taken.insert_cidr(net);
            }
        }
        let model = Model::new(pool, &carved);
        // One step beyond the pool: larger than all of it.
        let prefix = pool.prefix() - 1 + depth;
        for strategy in [Strategy::FirstFit, Strategy::BestFit, Strategy::LeastUtilized] {
            prop_assert_eq!(place(pool, &taken, prefix, strategy), model.place(prefix, strategy));
        }
        let left = capacity(pool, &taken);
        let allocated = model.taken.iter().filter(|taken| **taken).count();
        prop_assert_eq!(left.allocated, allocated as u128);
        prop_assert_eq!(left.available, 128 - allocated as u128);
        prop_assert_eq!(usize::from(left.utilization_percent()), allocated * 100 / 128);
        let largest = (pool.prefix()..=bits).find(|&prefix| !model.free_networks(prefix).is_empty());
        prop_assert_eq!(left.largest_free_prefix, largest);

        let fare = slots(pool, &taken, prefix);
        let free = model.free_networks(prefix);
        let is_broken = |taken: &[bool]| taken.contains(&true) && taken.contains(&false);
        let broken = model.networks(prefix).iter().filter(|(_, taken)| is_broken(taken)).count();
        let in_free: u128 = free.iter().map(|net| net.size()).sum();
        prop_assert_eq!((fare.total, fare.free), (pool.subnet_count(prefix), free.len() as u128));
        prop_assert_eq!((fare.broken, fare.stranded), (broken as u128, left.available - in_free));
    }
}
