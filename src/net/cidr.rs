use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// IPv4, 32 bits.
    #[serde(rename = "IPv4")]
    V4,
    /// IPv6, 128 bits.
    #[serde(rename = "IPv6")]
    V6,
}

impl Family {
    /// Both families, in the order in which a result lists them.
    pub const BOTH: [Family; 2] = [Family::V4, Family::V6];

    /// The length of an address, in bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// The address with the given bits; only the low 32 count for IPv4.
    #[must_use]
    pub fn address(self, bits: u128) -> IpAddr {
        match self {
            Family::V4 => {
                let [.., a, b, c, d] = bits.to_be_bytes();
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// The bits of an address; an IPv4 address has them in the low 32.
pub(crate) fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// A network whose host bits are zero: a pool, a block, a route's destination.
///
/// Parsing is strict, as Go's is: no leading zeros in an address (`ipnet` alone takes `010.0.0.0/8`
/// for `10.0.0.0/8`), digits only in the length, no host bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    family: Family,
    first: u128,
    prefix: u8,
}

impl Cidr {
    /// The network of `prefix` bits that contains `address`. `None` when the family has fewer bits.
    #[must_use]
    pub fn containing(address: IpAddr, prefix: u8) -> Option<Self> {
        let family = Family::of(address);
        let host_bits = family.bits().checked_sub(prefix)?;
        Some(Self { family, first: bits_of(address) & !low_mask(host_bits), prefix })
    }

    /// The network of exactly one address.
    #[must_use]
    pub fn single(address: IpAddr) -> Self {
        let family = Family::of(address);
        Self { family, first: bits_of(address), prefix: family.bits() }
    }

    /// Parses `address/length` and masks the host bits away.
    ///
    /// # Errors
    /// When the text is not an address, a slash and a length that the family has.
    pub fn parse_masking(text: &str) -> Result<Self, ParseCidrError> {
        let (address, prefix) = split(text)?;
        Self::containing(address, prefix).ok_or_else(|| ParseCidrError::new(text, Problem::Length))
    }

    /// The family of its addresses.
    #[must_use]
    pub const fn family(self) -> Family {
        self.family
    }

    /// The prefix length.
    #[must_use]
    pub const fn prefix(self) -> u8 {
        self.prefix
    }

    /// The first address: the network address of IPv4.
    #[must_use]
    pub fn first(self) -> IpAddr {
        self.family.address(self.first)
    }

    /// The last address: the broadcast address of IPv4.
    #[must_use]
    pub fn last(self) -> IpAddr {
        self.family.address(self.last_bits())
    }

    /// The bits of the first address.
    #[must_use]
    pub const fn first_bits(self) -> u128 {
        self.first
    }

    /// The bits of the last address.
    #[must_use]
    pub fn last_bits(self) -> u128 {
        self.first | low_mask(self.host_bits())
    }

    /// The number of addresses; `u128::MAX` for `::/0`, which has one more.
    #[must_use]
    pub fn size(self) -> u128 {
        1u128.checked_shl(u32::from(self.host_bits())).unwrap_or(u128::MAX)
    }

    const fn host_bits(self) -> u8 {
        self.family.bits() - self.prefix
    }

    /// The address at a position, counted from 0. `None` beyond the end.
    #[must_use]
    pub fn nth(self, position: u128) -> Option<IpAddr> {
        (position <= low_mask(self.host_bits())).then(|| self.family.address(self.first + position))
    }

    /// The position of an address, counted from 0. `None` for an address outside.
    #[must_use]
    pub fn position(self, address: IpAddr) -> Option<u128> {
        self.contains_address(address).then(|| bits_of(address) - self.first)
    }

    /// Whether an address lies inside.
    #[must_use]
    pub fn contains_address(self, address: IpAddr) -> bool {
        Family::of(address) == self.family && bits_of(address) & !low_mask(self.host_bits()) == self.first
    }

    /// Whether all of `other` lies inside.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.family == other.family
            && self.prefix <= other.prefix
            && other.first & !low_mask(self.host_bits()) == self.first
    }

    /// Whether the two share an address: then one contains the other.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// How many networks of `prefix` bits it has. 0 when they would be larger than itself;
    /// `u128::MAX` for the one case that does not fit.
    #[must_use]
    pub fn subnet_count(self, prefix: u8) -> u128 {
        if prefix > self.family.bits() {
            return 0;
        }
        prefix
            .checked_sub(self.prefix)
            .map_or(0, |depth| 1u128.checked_shl(u32::from(depth)).unwrap_or(u128::MAX))
    }

    /// The network of `prefix` bits at a position, counted from 0. `None` beyond the end.
    #[must_use]
    pub fn nth_subnet(self, prefix: u8, position: u128) -> Option<Self> {
        if position >= self.subnet_count(prefix) {
            return None;
        }
        let shift = u32::from(self.family.bits() - prefix);
        // A shift by all 128 bits happens for ::/0 in ::/0 only, at position 0.
        let offset = position.checked_shl(shift).unwrap_or(0);
        Some(Self { family: self.family, first: self.first + offset, prefix })
    }

    /// The position of a network of the same grid, counted from 0. `None` when it lies outside.
    #[must_use]
    pub fn subnet_position(self, subnet: Self) -> Option<u128> {
        self.contains(subnet).then(|| {
            (subnet.first - self.first)
                .checked_shr(u32::from(self.family.bits() - subnet.prefix))
                .unwrap_or(0)
        })
    }

    /// Its text with every `.`, `:` and `/` turned into `-`, as Calico names objects after a CIDR:
    /// `10.244.3.64/26` is `10-244-3-64-26`. Not reversible for IPv6.
    #[must_use]
    pub fn object_name(self) -> String {
        self.to_string().replace(['.', ':', '/'], "-")
    }
}

/// The lowest `bits` bits set.
const fn low_mask(bits: u8) -> u128 {
    match bits {
        128.. => u128::MAX,
        _ => (1 << bits) - 1,
    }
}

fn split(text: &str) -> Result<(IpAddr, u8), ParseCidrError> {
    let fail = |problem| ParseCidrError::new(text, problem);
    let (address, length) = text.split_once('/').ok_or_else(|| fail(Problem::NoLength))?;
    let address = parse_address(address).ok_or_else(|| fail(Problem::Address))?;
    let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let canonical = digits && (length.len() == 1 || !length.starts_with('0'));
    let length = canonical.then(|| length.parse::<u8>().ok()).flatten();
    match length {
        Some(length) if length <= Family::of(address).bits() => Ok((address, length)),
        _ => Err(fail(Problem::Length)),
    }
}

/// Parses an address as Go does: no leading zeros, no zone. An IPv4-mapped IPv6 address is the IPv4 address.
#[must_use]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    IpAddr::from_str(text).ok().map(|address| address.to_canonical())
}

impl FromStr for Cidr {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = split(text)?;
        let cidr =
            Self::containing(address, prefix).ok_or_else(|| ParseCidrError::new(text, Problem::Length))?;
        if cidr.first() == address {
            Ok(cidr)
        } else {
            Err(ParseCidrError::new(text, Problem::HostBits(cidr)))
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.prefix)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Cidr> for ipnet::IpNet {
    fn from(cidr: Cidr) -> Self {
        ipnet::IpNet::new_assert(cidr.first(), cidr.prefix)
    }
}

impl From<ipnet::IpNet> for Cidr {
    fn from(net: ipnet::IpNet) -> Self {
        let net = net.trunc();
        Self { family: Family::of(net.network()), first: bits_of(net.network()), prefix: net.prefix_len() }
    }
}

impl Serialize for Cidr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Why a text is no CIDR.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {problem}")]
pub struct ParseCidrError {
    text: String,
    problem: Problem,
}

impl ParseCidrError {
    fn new(text: &str, problem: Problem) -> Self {
        Self { text: text.to_owned(), problem }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("has no prefix length; expected an address, a slash and a length, such as `10.0.0.0/24`")]
    NoLength,
    #[error("does not start with an IPv4 or IPv6 address")]
    Address,
    #[error("has no valid prefix length (0 to 32 for IPv4, 0 to 128 for IPv6)")]
    Length,
    #[error("has host bits set; did you mean `{0}`?")]
    HostBits(Cidr),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().expect(text)
    }

    #[test]
    fn only_canonical_text_is_a_cidr() {
        for good in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "fd00:77::/64", "1.2.3.4/32", "::1/128"] {
            assert_eq!(cidr(good).to_string(), good);
        }
        for bad in [
            "010.0.0.0/8",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "/8",
            "x/8",
            "10.0.0.5/24",
            "",
        ] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad} was taken");
        }
        assert_eq!(
            "10.0.0.5/24".parse::<Cidr>().expect_err("host bits").to_string(),
            "`10.0.0.5/24` has host bits set; did you mean `10.0.0.0/24`?"
        );
        assert_eq!(Cidr::parse_masking("10.0.0.5/24").expect("masked"), cidr("10.0.0.0/24"));
    }

    #[test]
    fn positions_and_addresses_are_inverse() {
        for text in ["10.1.2.0/24", "0.0.0.0/0", "255.255.255.255/32", "fd00::/64", "::/0"] {
            let net = cidr(text);
            let last = net.last_bits() - net.first_bits();
            for position in [0, 1, last / 2, last.saturating_sub(1), last] {
                if let Some(address) = net.nth(position) {
                    assert_eq!(net.position(address), Some(position), "{text} at {position}");
                }
            }
            assert_eq!(net.nth(last), Some(net.last()));
            if last < u128::MAX {
                assert_eq!(net.nth(last + 1), None);
            }
        }
    }

    #[test]
    fn subnets_tile_their_network() {
        let net = cidr("10.0.0.0/16");
        assert_eq!(net.subnet_count(26), 1024);
        assert_eq!(net.nth_subnet(26, 1023), Some(cidr("10.0.255.192/26")));
        assert_eq!(net.nth_subnet(26, 1024), None);
        assert_eq!(net.subnet_position(cidr("10.0.3.64/26")), Some(13));
        assert_eq!(net.subnet_count(8), 0);
        assert_eq!(cidr("::/0").subnet_count(128), u128::MAX);
        assert_eq!(cidr("::/0").nth_subnet(0, 0), Some(cidr("::/0")));
        assert_eq!(cidr("fd00::/48").subnet_count(122), 1 << 74);
    }

    #[test]
    fn two_networks_nest_or_are_apart() {
        assert!(cidr("10.0.0.0/8").contains(cidr("10.3.0.0/16")));
        assert!(cidr("10.3.0.0/16").overlaps(cidr("10.0.0.0/8")));
        assert!(!cidr("10.3.0.0/16").contains(cidr("10.0.0.0/8")));
        assert!(!cidr("10.0.0.0/9").overlaps(cidr("10.128.0.0/9")));
        assert!(!cidr("0.0.0.0/0").overlaps(cidr("::/0")));
    }
}
