use std::net::IpAddr;

use super::cidr::bits_of;
use super::{Cidr, Family};

/// A set of addresses, kept as disjoint ranges: its cost grows with the ranges put in, never with the addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddrSet {
    /// Inclusive, ascending, neither overlapping nor adjacent.
    ranges: Vec<(Family, u128, u128)>,
}

impl AddrSet {
    /// The set of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Adds every address from `first` to `last`. Nothing is added where they are of two families or in the wrong order.
    pub fn insert_range(&mut self, first: IpAddr, last: IpAddr) {
        if Family::of(first) == Family::of(last) {
            self.insert(Family::of(first), bits_of(first), bits_of(last));
        }
    }

    /// Adds every address of a network.
    pub fn insert_cidr(&mut self, cidr: Cidr) {
        self.insert(cidr.family(), cidr.first_bits(), cidr.last_bits());
    }

    fn insert(&mut self, family: Family, mut first: u128, mut last: u128) {
        if first > last {
            return;
        }
        // All ranges that touch the new one are one run of the sorted list.
        let start = self.ranges.partition_point(|&(f, _, l)| (f, l.saturating_add(1)) < (family, first));
        let end = self.ranges.partition_point(|&(f, b, _)| (f, b) <= (family, last.saturating_add(1)));
        if let Some(run) = self.ranges.get(start..end).filter(|run| !run.is_empty()) {
            first = first.min(run[0].1);
            last = last.max(run[run.len() - 1].2);
        }
        self.ranges.splice(start..end.max(start), [(family, first, last)]);
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether an address is in the set.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.end_of_range_at(Family::of(address), bits_of(address)).is_some()
    }

    /// Whether the set covers all of a network.
    #[must_use]
    pub fn covers(&self, cidr: Cidr) -> bool {
        self.end_of_range_at(cidr.family(), cidr.first_bits()).is_some_and(|end| end >= cidr.last_bits())
    }

    /// Whether the set has an address of a network.
    #[must_use]
    pub fn overlaps(&self, cidr: Cidr) -> bool {
        self.count_in(cidr) > 0
    }

    /// The last address of the range that holds all of `cidr`. `None` when no range does.
    ///
    /// A walk over blocks uses it to step over a large reservation at once.
    #[must_use]
    pub fn end_of_cover(&self, cidr: Cidr) -> Option<u128> {
        self.end_of_range_at(cidr.family(), cidr.first_bits()).filter(|&end| end >= cidr.last_bits())
    }

    /// How many addresses of a network are in the set; `u128::MAX` where that is 2^128.
    #[must_use]
    pub fn count_in(&self, cidr: Cidr) -> u128 {
        let (family, first, last) = (cidr.family(), cidr.first_bits(), cidr.last_bits());
        let start = self.ranges.partition_point(|&(f, _, l)| (f, l) < (family, first));
        let mut count = 0u128;
        for &(_, begin, end) in
            self.ranges[start..].iter().take_while(|&&(f, begin, _)| (f, begin) <= (family, last))
        {
            count = count.saturating_add((end.min(last) - begin.max(first)).saturating_add(1));
        }
        count
    }

    /// The set of all addresses of `cidr` that are not in this one.
    #[must_use]
    pub fn complement_in(&self, cidr: Cidr) -> AddrSet {
        let family = cidr.family();
        AddrSet { ranges: self.gaps_in(cidr).map(|(first, last)| (family, first, last)).collect() }
    }

    /// The runs of addresses of `cidr` that are not in the set, ascending, each by the bits of its first and its last.
    pub fn gaps_in(&self, cidr: Cidr) -> impl Iterator<Item = (u128, u128)> {
        let (family, first, last) = (cidr.family(), cidr.first_bits(), cidr.last_bits());
        let start = self.ranges.partition_point(|&(f, _, end)| (f, end) < (family, first));
        let mut inside = self.ranges[start..].iter().take_while(move |&&(f, b, _)| (f, b) <= (family, last));
        let mut next = Some(first);
        std::iter::from_fn(move || {
            loop {
                let from = next?;
                let Some(&(_, begin, end)) = inside.next() else {
                    next = None;
                    return Some((from, last));
                };
                next = end.checked_add(1).filter(|&after| after <= last);
                if begin > from {
                    return Some((from, begin - 1));
                }
            }
        })
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &AddrSet) {
        for &(family, first, last) in &other.ranges {
            self.insert(family, first, last);
        }
    }

    fn end_of_range_at(&self, family: Family, bits: u128) -> Option<u128> {
        let index = self.ranges.partition_point(|&(f, _, last)| (f, last) < (family, bits));
        self.ranges
            .get(index)
            .filter(|&&(f, first, _)| f == family && first <= bits)
            .map(|&(_, _, last)| last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect(text)
    }

    #[test]
    fn neighbours_become_one_range() {
        let mut set = AddrSet::new();
        set.insert_cidr(cidr("10.0.0.0/26"));
        assert!(!set.covers(cidr("10.0.0.0/25")));
        set.insert_cidr(cidr("10.0.0.64/26"));
        assert!(set.covers(cidr("10.0.0.0/25")), "two halves cover the whole");
        assert_eq!(set.ranges.len(), 1);
        set.insert_cidr(cidr("fd00::/64"));
        set.insert_cidr(cidr("::/0"));
        assert!(set.covers(cidr("::/0")));
        assert_eq!(set.count_in(cidr("::/0")), u128::MAX);
        assert_eq!(set.count_in(cidr("10.0.0.0/24")), 128);
    }

    #[test]
    fn a_complement_has_the_rest() {
        let mut set = AddrSet::new();
        set.insert_range("10.0.0.10".parse().expect("ip"), "10.0.0.11".parse().expect("ip"));
        let rest = set.complement_in(cidr("10.0.0.0/28"));
        assert_eq!(rest.count_in(cidr("10.0.0.0/28")), 14);
        assert!(!rest.contains("10.0.0.10".parse().expect("ip")));
        assert_eq!(AddrSet::new().complement_in(cidr("::/0")).count_in(cidr("::/0")), u128::MAX);
    }

    proptest! {
        #[test]
        fn equals_a_set_of_single_addresses(ranges in prop::collection::vec((0u8..64, 0u8..64), 0..12)) {
            let mut set = AddrSet::new();
            let mut naive = std::collections::BTreeSet::new();
            for (a, b) in ranges {
                set.insert(Family::V4, a.into(), b.into());
                naive.extend(a..=b);
            }
            for address in 0u8..64 {
                let ip = Family::V4.address(address.into());
                prop_assert_eq!(set.contains(ip), naive.contains(&address));
            }
            for first in (0u8..64).step_by(8) {
                let net = Cidr::containing(Family::V4.address(first.into()), 29).expect("v4");
                let inside = (first..first + 8).filter(|a| naive.contains(a)).count();
                prop_assert_eq!(set.count_in(net), inside as u128);
                prop_assert_eq!(set.covers(net), inside == 8);
                prop_assert_eq!(set.overlaps(net), inside > 0);
                prop_assert_eq!(set.complement_in(net).count_in(net), 8 - inside as u128);
                for (from, to) in set.gaps_in(net) {
                    let is_free = |address: u128| !naive.contains(&u8::try_from(address).expect("small"));
                    prop_assert!((from..=to).all(is_free));
                    let ends = [net.first_bits().checked_sub(1), net.last_bits().checked_add(1)];
                    for beside in [from.checked_sub(1), to.checked_add(1)] {
                        prop_assert!(ends.contains(&beside) || beside.is_some_and(|b| !is_free(b)));
                    }
                }
            }
        }
    }
}
