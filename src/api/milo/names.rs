//! Names that are made, not chosen. They never change once released: programs find objects by them.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use sha2::{Digest as _, Sha256};

use crate::net::Cidr;

/// What the names of blocks start with, and those of nothing else.
pub const BLOCK_NAME_PREFIX: &str = "block-";

/// The name of the allocation that is made for a claim: the same wherever the claim is made anew.
///
/// # Source
/// The service of that API: `alloc-` and the first 8 bytes of SHA-256 over `<namespace>/<claim>`, in hexadecimal.
#[must_use]
pub fn allocation_of_claim(namespace: &str, claim: &str) -> String {
    format!("alloc-{}", digest(&format!("{namespace}/{claim}"), 8))
}

/// The name under which a block appears as an allocation, such as `block-10-65-3-64-26`. IPv6 is written out in full:
/// a `::` would leave an empty run, and a name may not end with `-`.
#[must_use]
pub fn name_of_block(cidr: Cidr) -> String {
    let mut name = String::from(BLOCK_NAME_PREFIX);
    // Writing to a text cannot fail.
    match cidr.first() {
        IpAddr::V4(address) => {
            for octet in address.octets() {
                let _ = write!(name, "{octet}-");
            }
        }
        IpAddr::V6(address) => {
            for segment in address.segments() {
                let _ = write!(name, "{segment:04x}-");
            }
        }
    }
    let _ = write!(name, "{}", cidr.prefix());
    name
}

/// The block that a name belongs to. `None`: it is no block's.
#[must_use]
pub fn block_of_name(name: &str) -> Option<Cidr> {
    let parts: Vec<&str> = name.strip_prefix(BLOCK_NAME_PREFIX)?.split('-').collect();
    let (length, address) = parts.split_last()?;
    let address = match address.len() {
        4 => address.join(".").parse().ok()?,
        8 => IpAddr::V6(address.join(":").parse::<Ipv6Addr>().ok()?),
        _ => return None,
    };
    // Whatever else would parse, such as `010` or upper case, is another name.
    Cidr::containing(address, length.parse().ok()?).filter(|cidr| name_of_block(*cidr) == name)
}

/// An identifier for something that is not stored, the same as long as what it is made of stays the same.
pub(super) fn uid(of: &str) -> String {
    let hex = digest(of, 16);
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    // Version 8 of RFC 9562: whatever its maker means, with the bits that say so.
    format!("{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

/// The value of a label for a name of any length: itself where it may be one, else a hash of it.
pub(super) fn label_value(name: &str) -> String {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_label = name.len() <= 63
        && is_end(name.chars().next())
        && is_end(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if is_label { name.to_owned() } else { digest(name, 8) }
}

/// The first bytes of a SHA-256, in hexadecimal.
fn digest(text: &str, bytes: usize) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(text).iter().take(bytes) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Family;
    use proptest::prelude::*;

    #[test]
    fn the_allocation_of_a_claim_has_the_name_that_the_service_gives() {
        assert_eq!(allocation_of_claim("default", "web"), "alloc-82b3ade9d00cd164");
        assert_eq!(allocation_of_claim("default", "web-tier-v4"), "alloc-3c805eca9a9587f5");
    }

    #[test]
    fn a_block_has_a_name_that_any_object_may_have() {
        let named = |text: &str| name_of_block(text.parse().expect(text));
        assert_eq!(named("10.65.3.64/26"), "block-10-65-3-64-26");
        assert_eq!(named("fd00:88::/122"), "block-fd00-0088-0000-0000-0000-0000-0000-0000-122");
    }

    #[test]
    fn only_the_one_spelling_is_a_blocks_name() {
        for name in [
            "block-10-65-3-65-26",
            "block-010-65-3-64-26",
            "block-10-65-3-64-026",
            "block-10-65-3-26",
            "block-fd00-88-0-0-0-0-0-0-122",
            "block-FD00-0088-0000-0000-0000-0000-0000-0000-122",
            "block-web",
            "block-",
            "10-65-3-64-26",
        ] {
            assert_eq!(block_of_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_no_label_value_becomes_one() {
        assert_eq!(label_value("node-1.example.org"), "node-1.example.org");
        for bad in ["-node", "node:1", "", &"n".repeat(64)] {
            assert_eq!(label_value(bad).len(), 16, "{bad}");
        }
    }

    #[test]
    fn an_identifier_is_a_uuid() {
        let uid = uid("x");
        let lengths: Vec<_> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
    }

    proptest! {
        #[test]
        fn a_block_comes_back_from_its_name(bits: u128, prefix in 0u8..=128, is_v4: bool) {
            let family = if is_v4 { Family::V4 } else { Family::V6 };
            let cidr = Cidr::containing(family.address(bits), prefix.min(family.bits())).expect("a CIDR");
            prop_assert_eq!(block_of_name(&name_of_block(cidr)), Some(cidr));
            prop_assert!(name_of_block(cidr).len() <= 63);
        }
    }
}
