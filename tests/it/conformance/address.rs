//! Addresses as results print them, read without the plugin's own parser: a mistake there must not hide itself here.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

/// An address with its prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) ip: IpAddr,
    pub(crate) net: IpNet,
    /// Whether the prefix length was written. Without one it is that of a single address.
    pub(crate) has_prefix: bool,
}

impl Interface {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, prefix)) => (ip, Some(prefix)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().ok()?;
        let net = match prefix {
            // `parse` alone would take a sign.
            Some(digits) if !digits.bytes().all(|byte| byte.is_ascii_digit()) => return None,
            Some(digits) => IpNet::new(ip, digits.parse().ok()?).ok()?,
            None => IpNet::from(ip),
        };
        Some(Self { ip, net, has_prefix: prefix.is_some() })
    }

    /// Whether this is the address that names its subnet. A subnet of one or two addresses has none.
    pub(crate) fn is_network_address(&self) -> bool {
        self.ip == self.net.network() && self.net.prefix_len() < self.net.max_prefix_len() - 1
    }

    pub(crate) fn is_broadcast_of(&self, net: &IpNet) -> bool {
        matches!(net, IpNet::V4(net) if self.ip == IpAddr::from(net.broadcast()))
    }
}

/// Whether two texts are the same address or the same prefix, however they are spelt.
pub(crate) fn same_address(a: &str, b: &str) -> bool {
    match (Interface::parse(a), Interface::parse(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The addresses of a result of any spec version, as printed. What is no object is a result without addresses.
pub(crate) fn result_ips(result: &Value) -> Result<Vec<String>, String> {
    let (entries, member) = entries(result)?;
    let mut addresses = Vec::new();
    for entry in entries {
        match entry.get(member) {
            Some(Value::String(address)) => addresses.push(address.clone()),
            None if member == OLD_MEMBER => {}
            _ => return Err(format!("an entry of the result has no text `{member}`: {entry}")),
        }
    }
    Ok(addresses)
}

/// The gateways of a result of any spec version, in the order of the addresses; null where there is none.
pub(crate) fn result_gateways(result: &Value) -> Result<Vec<Value>, String> {
    let (entries, _) = entries(result)?;
    Ok(entries.into_iter().map(|entry| entry.get("gateway").cloned().unwrap_or(Value::Null)).collect())
}

/// The member that holds the address in an entry of spec 0.2.0 and older.
const OLD_MEMBER: &str = "ip";

/// The entries of a result, and the member of each that holds the address.
fn entries(result: &Value) -> Result<(Vec<&Value>, &'static str), String> {
    match result.get("ips") {
        Some(Value::Array(entries)) if !entries.is_empty() => {
            if let Some(other) = entries.iter().find(|entry| !entry.is_object()) {
                return Err(format!("`ips` holds something else than objects: {other}"));
            }
            Ok((entries.iter().collect(), "address"))
        }
        None | Some(Value::Array(_) | Value::Null) => {
            let old = ["ip4", "ip6"].into_iter().filter_map(|key| result.get(key));
            Ok((old.filter(|entry| entry.is_object()).collect(), OLD_MEMBER))
        }
        Some(other) => Err(format!("`ips` is no list: {other}")),
    }
}

mod tests {
    use serde_json::json;

    use super::*;

    fn interface(text: &str) -> Interface {
        Interface::parse(text).expect("an address")
    }

    #[test]
    fn an_address_is_the_same_however_it_is_spelt() {
        assert!(same_address("fd00:0:0::1/64", "FD00::1/64"));
        assert!(same_address("10.0.0.1", "10.0.0.1"));
        for other in ["fd00::2/64", "fd00::1/65", "fd00::1", "10.0.0.1/64", "", "fd00::1/"] {
            assert!(!same_address("fd00::1/64", other), "{other}");
        }
        assert!(!same_address("10.0.0.1/32", "10.0.0.1"), "a prefix length is part of the promise");
        assert!(!same_address("eth0", "eth0"), "only addresses compare as addresses");
    }

    #[test]
    fn a_malformed_address_is_none() {
        for text in [
            "",
            "/24",
            "10.0.0.1/",
            "10.0.0.1/33",
            "10.0.0.1/+24",
            "010.0.0.1/24",
            "10.0.0/24",
            "fd00::1/129",
        ] {
            assert_eq!(Interface::parse(text), None, "{text}");
        }
        assert!(!interface("10.0.0.1").has_prefix);
        assert!(interface("10.0.0.1/32").has_prefix);
    }

    #[test]
    fn the_network_address_is_known_and_tiny_subnets_have_none() {
        for text in ["10.0.0.0/24", "10.0.0.4/30", "fd00::/64"] {
            assert!(interface(text).is_network_address(), "{text}");
        }
        for text in ["10.0.0.1/24", "10.0.0.4/31", "10.0.0.4/32", "fd00::/127", "fd00::/128"] {
            assert!(!interface(text).is_network_address(), "{text}");
        }
    }

    #[test]
    fn only_v4_has_a_broadcast_address() {
        let v4 = "10.0.0.0/24".parse().expect("a net");
        assert!(interface("10.0.0.255/24").is_broadcast_of(&v4));
        assert!(!interface("10.0.0.254/24").is_broadcast_of(&v4));
        let v6 = "fd00::/120".parse().expect("a net");
        assert!(!interface("fd00::ff/120").is_broadcast_of(&v6));
    }

    #[test]
    fn both_forms_of_a_result_give_their_addresses_and_gateways() {
        let new =
            json!({"ips": [{"address": "10.0.0.2/24", "gateway": "10.0.0.1"}, {"address": "fd00::2/64"}]});
        assert_eq!(result_ips(&new), Ok(vec!["10.0.0.2/24".into(), "fd00::2/64".into()]));
        assert_eq!(result_gateways(&new), Ok(vec![json!("10.0.0.1"), Value::Null]));
        let old = json!({"ip6": {"ip": "fd00::2/64"}, "ip4": {"ip": "10.0.0.2/24", "gateway": "10.0.0.1"}});
        assert_eq!(result_ips(&old), result_ips(&new));
        assert_eq!(result_gateways(&old), result_gateways(&new));
    }

    #[test]
    fn a_result_of_another_shape_is_told_and_no_result_has_no_addresses() {
        for shape in
            [json!({"ips": {}}), json!({"ips": ["10.0.0.2/24"]}), json!({"ips": [{}]}), json!({"ips": 1})]
        {
            assert!(result_ips(&shape).is_err(), "{shape}");
        }
        for shape in [
            json!(null),
            json!({}),
            json!({"ips": []}),
            json!({"ips": null}),
            json!({"ip4": null}),
            json!([]),
        ] {
            assert_eq!(result_ips(&shape), Ok(Vec::new()), "{shape}");
        }
    }
}
