//! Address arithmetic. Knows nothing of pools, blocks or hosts.
//!
//! Addresses are `u128` inside; IPv4 uses the low 32 bits. Nothing here iterates over a network.

mod cidr;
mod set;

pub use cidr::{Cidr, Family, ParseCidrError, parse_address};
pub use set::AddrSet;
