//! Which keys hold the blocks of a network.
//!
//! Keys hold ranges as text, which does not sort as numbers do: `10.0.0.7-32` stands between `10.0.0.64-26` and
//! `10.0.0.99-32`. So the keys of a network are a few ranges of text, one for each number of digits. Others' keys may
//! stand among them; whoever reads them leaves those out, and whoever guards them starts over once in a while for
//! nothing.

use std::net::IpAddr;

use super::format::{blocks_of, key_of};
use super::wire::{Range, after};
use crate::datastore::Key;
use crate::net::{Cidr, Family};

/// The largest blocks that there are, by their prefix length.
const LARGEST: [(Family, u8); 2] = [(Family::V4, 20), (Family::V6, 116)];

/// Ranges of keys that have every block within a network.
pub(super) fn inside(network: Cidr) -> Vec<Range> {
    let prefix = blocks_of(network.family());
    let spans = match network.first() {
        IpAddr::V4(first) => inside_v4(first.octets(), network.prefix()),
        IpAddr::V6(first) => inside_v6(first.segments(), network.prefix()),
    };
    spans.into_iter().map(|(from, to)| between(&prefix, &from, &to)).collect()
}

/// The keys of the blocks that a network may lie in, without being all of one.
pub(super) fn around(network: Cidr) -> Vec<String> {
    let largest =
        LARGEST.iter().find(|(family, _)| *family == network.family()).map_or(0, |(_, prefix)| *prefix);
    let prefixes = largest..network.prefix().max(largest);
    let outer = prefixes.filter_map(|prefix| Cidr::containing(network.first(), prefix));
    outer.map(|cidr| key_of(&Key::Block(cidr))).collect()
}

fn between(prefix: &str, from: &str, to: &str) -> Range {
    if to.is_empty() {
        return Range::between(&format!("{prefix}{from}"), &after(prefix));
    }
    Range::between(&format!("{prefix}{from}"), &format!("{prefix}{to}"))
}

/// What stands between a range's number and what follows, and the character after that.
const DOT: (char, char) = ('.', '/');
const DASH: (char, char) = ('-', '.');

fn inside_v4(octets: [u8; 4], prefix: u8) -> Vec<(String, String)> {
    let fixed = usize::from(prefix / 8).min(3);
    let free_bits = 8 - (u32::from(prefix) - 8 * u32::try_from(fixed).unwrap_or(0)).min(8);
    let head = octets.iter().take(fixed).fold(String::new(), |head, octet| head + &octet.to_string() + ".");
    let low = u32::from(octets.get(fixed).copied().unwrap_or(0));
    let high = low + (1 << free_bits) - 1;
    let end = if fixed == 3 { DASH } else { DOT };
    if (low, high) == (0, 255) {
        return vec![(head.clone(), if head.is_empty() { String::new() } else { after(&head) })];
    }
    let digits = [(0, 9), (10, 99), (100, 255)];
    spans(&head, low, high, &digits, end, |number| number.to_string())
}

fn inside_v6(segments: [u16; 8], prefix: u8) -> Vec<(String, String)> {
    let everything = vec![(String::new(), String::new())];
    let Some(free_bits) = 128_u32.checked_sub(u32::from(prefix)).filter(|bits| *bits <= 16) else {
        return everything;
    };
    let text = |last: u16| {
        let mut address = segments;
        address[7] = last;
        std::net::Ipv6Addr::from(address).to_string()
    };
    let low = u32::from(segments[7]);
    let high = low + (1 << free_bits) - 1;
    // What is written before a last group that is not zero does not depend on it.
    let one = text(1);
    if one.contains('.') {
        return everything;
    }
    let head = one.strip_suffix('1').unwrap_or(&one).to_owned();
    let digits = [(1, 0xf), (0x10, 0xff), (0x100, 0xfff), (0x1000, 0xffff)];
    let mut found = spans(&head, low, high, &digits, DASH, |number| format!("{number:x}"));
    if low == 0 {
        let zero = text(0);
        found.push((format!("{zero}{}", DASH.0), format!("{zero}{}", DASH.1)));
    }
    found
}

/// A span for each number of digits between two numbers.
fn spans(
    head: &str,
    low: u32,
    high: u32,
    digits: &[(u32, u32)],
    (end, after_end): (char, char),
    text: impl Fn(u32) -> String,
) -> Vec<(String, String)> {
    let part = |&(least, most): &(u32, u32)| (low.max(least), high.min(most));
    let parts = digits.iter().map(part).filter(|(low, high)| low <= high);
    parts
        .map(|(low, high)| (format!("{head}{}{end}", text(low)), format!("{head}{}{after_end}", text(high))))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_covered(network: Cidr, block: Cidr) -> bool {
        let key = key_of(&Key::Block(block));
        let within = |range: &Range| {
            range.key.0.as_slice() <= key.as_bytes()
                && range.range_end.as_ref().is_some_and(|end| key.as_bytes() < end.0.as_slice())
        };
        inside(network).iter().any(within) || around(network).contains(&key)
    }

    #[test]
    fn the_keys_of_a_block_are_few_and_far_from_its_neighbours() {
        let cidr = |text: &str| text.parse::<Cidr>().expect(text);
        assert_eq!(inside(cidr("10.0.0.64/26")).len(), 2);
        assert!(!is_covered(cidr("10.0.0.64/26"), cidr("10.0.0.128/26")));
        assert!(!is_covered(cidr("fd00::40/122"), cidr("fd00::80/122")));
        assert!(is_covered(cidr("fd00::/122"), cidr("fd00::/122")));
        assert!(is_covered(cidr("fd00::/122"), cidr("fd00::/120")));
        assert!(!is_covered(cidr("10.2.0.0/16"), cidr("10.20.0.0/26")));
        assert!(is_covered(cidr("0.0.0.0/0"), cidr("255.255.255.255/32")));
    }

    fn overlapping_v4() -> impl Strategy<Value = (Cidr, Cidr)> {
        (any::<u32>(), 0..=32_u8, 20..=32_u8).prop_map(|(bits, network, block)| {
            let address = IpAddr::from(std::net::Ipv4Addr::from(bits));
            let of = |prefix| Cidr::containing(address, prefix).expect("a network");
            (of(network), of(block))
        })
    }

    fn overlapping_v6() -> impl Strategy<Value = (Cidr, Cidr)> {
        let groups = prop::array::uniform8(prop_oneof![Just(0_u16), any::<u16>(), 0..32_u16]);
        (groups, 60..=128_u8, 116..=128_u8).prop_map(|(groups, network, block)| {
            let address = IpAddr::from(std::net::Ipv6Addr::from(groups));
            let of = |prefix| Cidr::containing(address, prefix).expect("a network");
            (of(network), of(block))
        })
    }

    proptest! {
        #[test]
        fn no_overlapping_block_stands_elsewhere(pair in prop_oneof![overlapping_v4(), overlapping_v6()]) {
            prop_assert!(is_covered(pair.0, pair.1), "{} {}", pair.0, pair.1);
        }
    }
}
