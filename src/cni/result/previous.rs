use std::net::IpAddr;

use crate::cni::failure::Failure;
use crate::cni::json::{Kind, Raw};
use crate::net::{Cidr, Family, parse_address};

/// The addresses of `prevResult`: the final result of the whole chain of plugins, so some may be others'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrevResult {
    /// In their order.
    pub addresses: Vec<PrevAddress>,
}

/// One address of `prevResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrevAddress {
    /// Compared as a number: texts differ in spelling.
    pub address: IpAddr,
    /// The prefix length on the interface.
    pub prefix: u8,
}

impl PrevResult {
    /// Whether an address is among them.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|previous| previous.address == address)
    }

    /// Reads the shape of any version: a list `ips`, or `ip4` and `ip6`.
    pub(in crate::cni) fn read(value: Raw<'_>) -> Result<PrevResult, Failure> {
        let Some(result) = value.object() else {
            return Err(wrong("", value.kind(), Kind::Object));
        };
        let mut addresses = Vec::new();
        if let Some(ips) = result.get("ips") {
            let list = ips.array().ok_or_else(|| wrong(".ips", ips.kind(), Kind::Array))?;
            for (index, ip) in list.enumerate() {
                addresses.push(address_of(ip, "address", format_args!(".ips[{index}]"))?);
            }
        }
        for key in ["ip4", "ip6"] {
            if let Some(ip) = result.get(key) {
                addresses.push(address_of(ip, "ip", format_args!(".{key}"))?);
            }
        }
        Ok(PrevResult { addresses })
    }
}

fn address_of(ip: Raw<'_>, key: &str, path: std::fmt::Arguments<'_>) -> Result<PrevAddress, Failure> {
    let members = ip.object().ok_or_else(|| wrong(path, ip.kind(), Kind::Object))?;
    let text = members.get(key).and_then(Raw::string).unwrap_or_default();
    parse(&text).ok_or_else(|| {
        Failure::config(format!(
            "`prevResult{path}.{key}` is {text:?}; expected an address and a prefix length"
        ))
    })
}

fn parse(text: &str) -> Option<PrevAddress> {
    let Some((address, _)) = text.split_once('/') else {
        let address = parse_address(text)?;
        return Some(PrevAddress { address, prefix: Family::of(address).bits() });
    };
    let prefix = Cidr::parse_masking(text).ok()?.prefix();
    Some(PrevAddress { address: parse_address(address)?, prefix })
}

fn wrong(path: impl std::fmt::Display, found: Kind, expected: Kind) -> Failure {
    Failure::config(format!("`prevResult{path}` is {found}; expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cni::json::document;

    fn read(text: &str) -> Result<Vec<String>, Failure> {
        let result = PrevResult::read(document(text.as_bytes()).expect("json"))?;
        Ok(result.addresses.iter().map(|ip| format!("{}/{}", ip.address, ip.prefix)).collect())
    }

    #[test]
    fn addresses_of_every_version_are_found() {
        for (text, wanted) in [
            (
                r#"{"ips":[{"address":"10.0.0.5/24","gateway":"10.0.0.1","interface":0}]}"#,
                vec!["10.0.0.5/24"],
            ),
            (
                r#"{"CNIVersion":"0.4.0","ips":[{"version":"6","address":"FD00:0077:0003:0000:0:0:0:00AB/64"}]}"#,
                vec!["fd00:77:3::ab/64"],
            ),
            (
                r#"{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.5/24"},"ip6":{"ip":"fd00::5/64"},"dns":{}}"#,
                vec!["10.0.0.5/24", "fd00::5/64"],
            ),
            (r#"{"ips":null,"ip4":null}"#, vec![]),
            ("{}", vec![]),
        ] {
            assert_eq!(read(text).expect(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_result_is_refused_by_name() {
        for (text, named) in [
            (r#""nonsense""#, "`prevResult` is a string; expected an object"),
            (r#"{"ips":"nonsense"}"#, "`prevResult.ips` is a string; expected a list"),
            (r#"{"ips":[5]}"#, "`prevResult.ips[0]` is a number; expected an object"),
            (r#"{"ips":[{"address":"x"}]}"#, "`prevResult.ips[0].address` is \"x\"; expected"),
            (r#"{"ip4":{"ip":"10.0.0.1/99"}}"#, "`prevResult.ip4.ip` is \"10.0.0.1/99\"; expected"),
        ] {
            let failure = read(text).expect_err(text);
            assert_eq!(failure.code.number(), 7);
            assert!(failure.msg.contains(named), "{}", failure.msg);
        }
    }
}
