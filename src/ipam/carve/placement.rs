use crate::api::milo::Strategy;
use crate::net::{AddrSet, Cidr, Family};

/// The free network of `prefix` bits that `strategy` takes out of a pool. `None`: there is none.
///
/// # Source
/// The service of `ipam.miloapis.com`: of each run of free addresses, only the lowest network that fits is looked at.
#[must_use]
pub fn place(pool: Cidr, taken: &AddrSet, prefix: u8, strategy: Strategy) -> Option<Cidr> {
    let family = pool.family();
    let mut candidates = taken
        .gaps_in(pool)
        .filter_map(|gap| lowest_in(family, gap, prefix).map(|candidate| (gap.1 - gap.0, candidate)));
    match strategy {
        // A pool has one range, so it is always the least utilised.
        Strategy::FirstFit | Strategy::LeastUtilized => candidates.next(),
        // Of equals, the first: they come in ascending order.
        Strategy::BestFit => candidates.min_by_key(|&(size, _)| size),
    }
    .map(|(_, candidate)| candidate)
}

/// The lowest network of `prefix` bits from an address to another.
pub(super) fn lowest_in(family: Family, (first, last): (u128, u128), prefix: u8) -> Option<Cidr> {
    let around = Cidr::containing(family.address(first), prefix)?;
    let fitting = if around.first_bits() == first {
        around
    } else {
        let after = around.last_bits().checked_add(1).filter(|&after| after <= last)?;
        Cidr::containing(family.address(after), prefix)?
    };
    (fitting.last_bits() <= last).then_some(fitting)
}
