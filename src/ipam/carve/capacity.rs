use super::placement::lowest_in;
use crate::api::milo::{Capacity, Slots};
use crate::net::{AddrSet, Cidr};

/// How much of a pool is taken.
#[must_use]
pub fn capacity(pool: Cidr, taken: &AddrSet) -> Capacity {
    let (total, allocated) = (pool.size(), taken.count_in(pool));
    let mut largest: Option<u8> = None;
    for gap in taken.gaps_in(pool) {
        // Only what is larger than the largest so far is worth a look.
        loop {
            let larger = match largest {
                None => Some(pool.family().bits()),
                Some(prefix) => prefix.checked_sub(1),
            };
            match larger.filter(|&prefix| lowest_in(pool.family(), gap, prefix).is_some()) {
                None => break,
                fitting => largest = fitting,
            }
        }
    }
    Capacity { total, allocated, available: total - allocated, largest_free_prefix: largest }
}

/// How the slots of a pool's grid of blocks of `prefix` bits fare.
#[must_use]
pub fn slots(pool: Cidr, taken: &AddrSet, prefix: u8) -> Slots {
    let available = pool.size() - taken.count_in(pool);
    let total = pool.subnet_count(prefix);
    let (mut free, mut broken) = (0u128, 0u128);
    let mut slot_size = 0u128;
    // The last broken slot: two gaps may lie in one.
    let mut seen = None;
    let gaps = taken.gaps_in(pool).filter(|_| total > 0);
    for (first, last) in gaps {
        for edge in [first, last] {
            let slot = Cidr::containing(pool.family().address(edge), prefix);
            let is_whole = |slot: &Cidr| slot.first_bits() >= first && slot.last_bits() <= last;
            if let Some(slot) = slot.filter(|slot| !is_whole(slot) && seen != Some(*slot)) {
                seen = Some(slot);
                broken += 1;
            }
        }
        if let Some(lowest) = lowest_in(pool.family(), (first, last), prefix) {
            free = free.saturating_add(count_from(lowest, last));
            slot_size = lowest.size();
        }
    }
    Slots { prefix, total, free, broken, stranded: available - free.saturating_mul(slot_size) }
}

/// How many networks like `lowest` lie one after the other from it up to an address.
fn count_from(lowest: Cidr, last: u128) -> u128 {
    let host_bits = lowest.family().bits() - lowest.prefix();
    let (span, mask) = (last - lowest.first_bits(), lowest.last_bits() - lowest.first_bits());
    let before = span.checked_shr(u32::from(host_bits)).unwrap_or(0);
    before.saturating_add(u128::from(span & mask == mask))
}
