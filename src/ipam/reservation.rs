//! All reservations as one filter.

use crate::api::calico::{IpReservation, IpReservationSpec};
use crate::net::{AddrSet, Cidr, Family, parse_address};

/// The set of all addresses that reservations name. Entries that are neither a CIDR nor an address are passed over.
pub(super) fn reserved<'a>(reservations: impl IntoIterator<Item = &'a IpReservation>) -> AddrSet {
    let mut set = AddrSet::new();
    for reservation in reservations {
        set.extend(&addresses(&reservation.spec));
    }
    set
}

/// The set of all addresses that one reservation names.
#[must_use]
pub(super) fn addresses(spec: &IpReservationSpec) -> AddrSet {
    let mut set = AddrSet::new();
    for cidr in spec.reserved_cidrs.iter().filter_map(|entry| network(entry)) {
        set.insert_cidr(cidr);
    }
    set
}

fn network(entry: &str) -> Option<Cidr> {
    let entry = entry.trim();
    parse_address(entry).map(Cidr::single).or_else(|| Cidr::parse_masking(entry).ok())
}

/// The name of the reservation of a pool's own addresses in `subnet` addressing.
#[must_use]
pub fn subnet_reservation_name(pool: &str) -> String {
    format!("{pool}-subnet")
}

/// The addresses of a pool that no container may have when the pool is a subnet, besides its gateways: network and
/// broadcast address in IPv4 (not in a /31, after RFC 3021, nor a /32), the subnet-router anycast address in IPv6
/// (RFC 4291, section 2.6.1; not in a /127, after RFC 6164, nor a /128).
#[must_use]
pub fn subnet_addresses(pool: Cidr) -> Vec<Cidr> {
    match pool.family() {
        _ if pool.prefix() + 1 >= pool.family().bits() => Vec::new(),
        Family::V4 => vec![Cidr::single(pool.first()), Cidr::single(pool.last())],
        Family::V6 => vec![Cidr::single(pool.first())],
    }
}

/// The first usable address of a pool: its gateway, where no other is given. A pool of one address has none.
#[must_use]
pub fn default_gateway(pool: Cidr) -> Option<std::net::IpAddr> {
    match pool.family().bits() - pool.prefix() {
        0 => None,
        1 => Some(pool.first()),
        _ => pool.nth(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_means_nothing_reserves_nothing() {
        let spec = IpReservationSpec {
            reserved_cidrs: [" 10.0.0.1 ", "10.0.0.32/30", "10.0.0.77/26x", "", "fd00::/121"]
                .map(str::to_owned)
                .into(),
            ..IpReservationSpec::default()
        };
        let set = reserved(&[IpReservation::new("r", spec)]);
        assert_eq!(set.count_in("10.0.0.0/8".parse().expect("cidr")), 5);
        assert!(set.covers("fd00::/121".parse().expect("cidr")));
    }

    #[test]
    fn a_subnet_keeps_its_own_addresses() {
        let of = |text: &str| {
            let cidr: Cidr = text.parse().expect(text);
            let own: Vec<_> = subnet_addresses(cidr).iter().map(ToString::to_string).collect();
            (own.join(" "), default_gateway(cidr).map(|gateway| gateway.to_string()).unwrap_or_default())
        };
        assert_eq!(of("10.1.0.0/24"), ("10.1.0.0/32 10.1.0.255/32".into(), "10.1.0.1".into()));
        assert_eq!(of("10.1.0.0/31"), (String::new(), "10.1.0.0".into()));
        assert_eq!(of("10.1.0.0/32"), (String::new(), String::new()));
        assert_eq!(of("fd00::/64"), ("fd00::/128".into(), "fd00::1".into()));
    }
}
