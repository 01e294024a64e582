//! Colours: hosts that follow each other differ most, and the fuller a thing, the more of its host's colour it has.

use std::fmt;

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour(u8, u8, u8);

/// What belongs to no host.
pub(super) const NOBODY: Colour = Colour(0x8a, 0x90, 0x9c);
const WHITE: Colour = Colour(0xff, 0xff, 0xff);
const BLACK: Colour = Colour(0, 0, 0);

/// The first hosts' colours: of about the same weight, so that none stands out.
const HOSTS: [Colour; 18] = [
    Colour(0x2f, 0x6f, 0xb5),
    Colour(0xe0, 0x82, 0x14),
    Colour(0x3a, 0x92, 0x3a),
    Colour(0xc4, 0x3c, 0x39),
    Colour(0x84, 0x5e, 0xb8),
    Colour(0x1d, 0x9a, 0x9a),
    Colour(0xd0, 0x5c, 0x98),
    Colour(0x9a, 0x8a, 0x1c),
    Colour(0x8c, 0x56, 0x40),
    Colour(0x4c, 0x5a, 0xc4),
    Colour(0x6c, 0xa8, 0x2a),
    Colour(0xe4, 0x62, 0x46),
    Colour(0x2a, 0x8c, 0xc8),
    Colour(0xa8, 0x48, 0xa8),
    Colour(0x2c, 0xa0, 0x6c),
    Colour(0xc0, 0x94, 0x30),
    Colour(0x5c, 0x74, 0x8c),
    Colour(0xb0, 0x3c, 0x68),
];

impl Colour {
    /// The colour of the host with a number, counted from 0.
    pub(super) fn of_host(number: usize) -> Self {
        let colour = HOSTS[number % HOSTS.len()];
        match number / HOSTS.len() % 3 {
            0 => colour,
            1 => colour.towards(BLACK, 34),
            // Lighter ones would pass for emptier ones.
            _ => colour.towards(HOSTS[(number + 7) % HOSTS.len()], 50),
        }
    }

    /// The colour of something of which so many parts in a hundred are in use.
    pub(super) fn used(self, percent: u128) -> Self {
        let use_of_100 = u16::try_from(percent.min(100)).unwrap_or(100);
        self.towards(WHITE, 80 - use_of_100 * 80 / 100)
    }

    /// The nearest of the 256 colours of a terminal.
    pub(super) fn of_terminal(self) -> u16 {
        let level = |part: u8| (u16::from(part) * 5 + 127) / 255;
        16 + 36 * level(self.0) + 6 * level(self.1) + level(self.2)
    }

    /// Whether black text can be read on it, better than white.
    pub(super) fn is_light(self) -> bool {
        u32::from(self.0) * 299 + u32::from(self.1) * 587 + u32::from(self.2) * 114 > 140_000
    }

    /// So many parts in a hundred of the way to another colour.
    fn towards(self, other: Self, parts: u16) -> Self {
        let mix = |from: u8, to: u8| {
            let mixed = (u16::from(from) * (100 - parts) + u16::from(to) * parts) / 100;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_hosts_have_fifty_colours_and_use_darkens_each() {
        let all: std::collections::BTreeSet<String> =
            (0..54).map(|n| Colour::of_host(n).to_string()).collect();
        assert_eq!(all.len(), 54);
        assert_eq!(Colour::of_host(0).used(100), Colour::of_host(0));
        let weight = |percent| {
            let Colour(r, g, b) = Colour::of_host(3).used(percent);
            u32::from(r) + u32::from(g) + u32::from(b)
        };
        assert!(weight(0) > weight(50) && weight(50) > weight(100));
    }

    #[test]
    fn a_terminal_has_the_corners_of_the_cube() {
        assert_eq!((BLACK.of_terminal(), WHITE.of_terminal()), (16, 231));
        assert!(WHITE.is_light() && !BLACK.is_light());
    }
}
