//! The result of ADD, and what CHECK is told of it.

use std::net::IpAddr;

use super::config::{Dns, Route};
use super::failure::{Code, Failure};
use super::version::Version;
use crate::net::Family;

mod previous;
mod render;

pub use previous::{PrevAddress, PrevResult};

/// What ADD answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddResult {
    /// The addresses, in the order in which they are to be listed.
    pub ips: Vec<Ip>,
    /// The routes.
    pub routes: Vec<Route>,
    /// The name servers.
    pub dns: Dns,
}

/// An address of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// The address itself.
    pub address: IpAddr,
    /// The prefix length that the interface gets.
    pub prefix: u8,
    /// `None`: the main plugin has to know, or needs none.
    pub gateway: Option<IpAddr>,
}

impl AddResult {
    /// The result in the shape that `version` has for it.
    ///
    /// # Source
    /// CNI 0.2.0, 0.4.0, 1.0.0 and 1.1.0, *Result*; there is no `interfaces` in what an IPAM plugin answers.
    #[must_use]
    pub fn render(&self, version: Version) -> String {
        render::render(self, version)
    }
}

/// Fails when a result of `version` cannot hold an address of each of these families.
///
/// To be asked before anything is assigned: a result that cannot be written would leave its addresses behind.
pub fn check_expressible(
    version: Version,
    families: impl IntoIterator<Item = Family>,
) -> Result<(), Failure> {
    if version >= Version::V0_3_0 {
        return Ok(());
    }
    let mut count = [0u32; 2];
    for family in families {
        let slot = &mut count[usize::from(family == Family::V6)];
        *slot += 1;
        if *slot > 1 {
            return Err(Failure::new(
                Code::InvalidConfig,
                format!("network config: two {family} addresses are wanted, but `cniVersion` {version} has room for one"),
            )
            .with_details("set `cniVersion` to 0.3.0 or newer, or leave one range set for each family"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_results_have_no_room_for_two_addresses_of_a_family() {
        for version in Version::ALL {
            assert!(check_expressible(version, Family::BOTH).is_ok(), "{version}");
            let two = check_expressible(version, [Family::V6, Family::V6]);
            assert_eq!(two.is_ok(), version >= Version::V0_3_0, "{version}");
            if let Err(failure) = two {
                assert_eq!(failure.code.number(), 7);
            }
        }
    }
}
