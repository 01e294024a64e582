use std::fmt;
use std::net::IpAddr;

use serde::{Serialize, Serializer};

use super::{AddResult, Ip};
use crate::cni::config::{Dns, Route};
use crate::cni::version::Version;
use crate::net::Family;

pub(super) fn render(result: &AddResult, version: Version) -> String {
    let dns = (!result.dns.is_empty()).then_some(&result.dns);
    let text = if version < Version::V0_3_0 {
        serde_json::to_string(&Old {
            cni_version: version,
            ip4: OldIp::of(result, Family::V4),
            ip6: OldIp::of(result, Family::V6),
            dns,
        })
    } else {
        let ips = result.ips.iter().map(|ip| NewIp {
            version: (version < Version::V1_0_0).then(|| match Family::of(ip.address) {
                Family::V4 => "4",
                Family::V6 => "6",
            }),
            address: Prefixed(ip),
            gateway: ip.gateway,
        });
        serde_json::to_string(&New {
            cni_version: version,
            ips: ips.collect(),
            routes: result.routes.iter().map(NewRoute::of).collect(),
            dns,
        })
    };
    // Strings and numbers cannot fail to be written.
    text.unwrap_or_default()
}

/// 0.3.0 and newer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct New<'a> {
    cni_version: Version,
    ips: Vec<NewIp<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<NewRoute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<&'a Dns>,
}

#[derive(Serialize)]
struct NewIp<'a> {
    /// Below 1.0.0 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    address: Prefixed<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
}

/// Members that came with 1.1.0 stay in older results: readers pass over them.
#[derive(Serialize)]
struct NewRoute {
    #[serde(flatten)]
    route: OldRoute,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advmss: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<u32>,
}

impl NewRoute {
    fn of(route: &Route) -> Self {
        Self {
            route: OldRoute::of(route),
            mtu: route.mtu,
            advmss: route.advmss,
            priority: route.priority,
            table: route.table,
            scope: route.scope,
        }
    }
}

/// 0.1.0 and 0.2.0.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Old<'a> {
    cni_version: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip4: Option<OldIp<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip6: Option<OldIp<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<&'a Dns>,
}

#[derive(Serialize)]
struct OldIp<'a> {
    ip: Prefixed<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<IpAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<OldRoute>,
}

impl<'a> OldIp<'a> {
    /// The first address of a family, with the routes of that family.
    fn of(result: &'a AddResult, family: Family) -> Option<Self> {
        let ip = result.ips.iter().find(|ip| Family::of(ip.address) == family)?;
        let routes = result.routes.iter().filter(|route| route.dst.family() == family).map(OldRoute::of);
        Some(Self { ip: Prefixed(ip), gateway: ip.gateway, routes: routes.collect() })
    }
}

#[derive(Serialize)]
struct OldRoute {
    dst: crate::net::Cidr,
    #[serde(skip_serializing_if = "Option::is_none")]
    gw: Option<IpAddr>,
}

impl OldRoute {
    fn of(route: &Route) -> Self {
        Self { dst: route.dst, gw: route.gw }
    }
}

/// `address/length`, host bits kept.
struct Prefixed<'a>(&'a Ip);

impl fmt::Display for Prefixed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.address, self.0.prefix)
    }
}

impl Serialize for Prefixed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> AddResult {
        let ip = |address: &str, prefix, gateway: Option<&str>| Ip {
            address: address.parse().expect("address"),
            prefix,
            gateway: gateway.map(|text| text.parse().expect("gateway")),
        };
        let route = |dst: &str| Route::to(dst.parse().expect("dst"));
        AddResult {
            ips: vec![ip("10.77.2.9", 24, Some("10.77.2.1")), ip("fd00:77:2::9", 64, None)],
            routes: vec![
                route("0.0.0.0/0"),
                Route { gw: Some("fd00:77:2::fe".parse().expect("gw")), ..route("2001:db8::/32") },
                Route {
                    mtu: Some(1400),
                    priority: Some(50),
                    table: Some(0),
                    scope: Some(0),
                    ..route("192.0.2.0/24")
                },
            ],
            dns: Dns::default(),
        }
    }

    #[test]
    fn every_version_gets_the_shape_it_knows() {
        for (version, wanted) in [
            (
                Version::V0_2_0,
                r#"{"cniVersion":"0.2.0","ip4":{"ip":"10.77.2.9/24","gateway":"10.77.2.1","routes":[{"dst":"0.0.0.0/0"},{"dst":"192.0.2.0/24"}]},"ip6":{"ip":"fd00:77:2::9/64","routes":[{"dst":"2001:db8::/32","gw":"fd00:77:2::fe"}]}}"#,
            ),
            (
                Version::V0_4_0,
                r#"{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.77.2.9/24","gateway":"10.77.2.1"},{"version":"6","address":"fd00:77:2::9/64"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"2001:db8::/32","gw":"fd00:77:2::fe"},{"dst":"192.0.2.0/24","mtu":1400,"priority":50,"table":0,"scope":0}]}"#,
            ),
            (
                Version::V1_1_0,
                r#"{"cniVersion":"1.1.0","ips":[{"address":"10.77.2.9/24","gateway":"10.77.2.1"},{"address":"fd00:77:2::9/64"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"2001:db8::/32","gw":"fd00:77:2::fe"},{"dst":"192.0.2.0/24","mtu":1400,"priority":50,"table":0,"scope":0}]}"#,
            ),
        ] {
            assert_eq!(result().render(version), wanted);
        }
        for version in Version::ALL {
            let text = result().render(version);
            assert!(text.starts_with(&format!("{{\"cniVersion\":\"{version}\"")), "{text}");
            assert_eq!(
                text.contains("\"version\""),
                (Version::V0_3_0..Version::V1_0_0).contains(&version),
                "{text}"
            );
            assert_eq!(text.contains("\"ips\""), version >= Version::V0_3_0, "{text}");
            assert!(!text.contains("interface"), "{text}");
        }
    }

    #[test]
    fn dns_is_written_when_there_is_any() {
        let mut result = result();
        result.routes.clear();
        result.ips.truncate(1);
        result.dns = Dns {
            nameservers: vec!["10.77.5.53".into()],
            domain: Some("example.test".into()),
            search: vec!["lab.test".into()],
            options: vec!["ndots:2".into()],
        };
        let dns = r#""dns":{"nameservers":["10.77.5.53"],"domain":"example.test","search":["lab.test"],"options":["ndots:2"]}}"#;
        for version in Version::ALL {
            assert!(result.render(version).ends_with(dns), "{version}");
        }
    }
}
