use super::{Path, Problem};
use crate::api::calico::IpReservationSpec;
use crate::net::{Cidr, parse_address};

/// No address is reserved twice by one object. That each entry is a CIDR or an address, the schema says.
pub(super) fn check(spec: &IpReservationSpec, problems: &mut Vec<Problem>) {
    let path = Path::root().key("spec").key("reservedCIDRs");
    let mut seen: Vec<Cidr> = Vec::new();
    for (index, entry) in spec.reserved_cidrs.iter().enumerate() {
        let Some(cidr) = network(entry) else { continue };
        if let Some(first) = seen.iter().position(|known| *known == cidr) {
            let reason = format!("is `{entry}`, as is `{}`", path.index(first));
            problems.push(Problem::new(path.index(index), reason));
        }
        seen.push(cidr);
    }
}

/// Writes every entry as a CIDR in its one canonical form: a bare address becomes a /32 or /128.
pub fn normalise_reserved_cidrs(spec: &mut IpReservationSpec) {
    for entry in &mut spec.reserved_cidrs {
        if let Some(cidr) = network(entry) {
            *entry = cidr.to_string();
        }
    }
}

fn network(entry: &str) -> Option<Cidr> {
    let entry = entry.trim();
    parse_address(entry).map(Cidr::single).or_else(|| entry.parse().ok())
}
