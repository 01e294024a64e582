use super::*;
use crate::net::Family;

fn ranges(section: &str) -> Vec<Vec<String>> {
    let conf = ipam(section).expect(section);
    assert_eq!(conf.ipam.dialect, Dialect::HostLocal);
    let range = |range: &Range| {
        let (first, last) = range.bounds();
        let gateway = range.gateway.map(|gateway| format!(" gw {gateway}")).unwrap_or_default();
        format!("{} {first}-{last}{gateway}", range.subnet)
    };
    conf.ipam.sets.iter().map(|set| set.ranges.iter().map(range).collect()).collect()
}

#[test]
fn the_dialect_of_host_local_is_understood() {
    assert_eq!(
        ranges(
            r#"{"subnet":"10.77.1.0/24","rangeStart":"10.77.1.10","rangeEnd":"10.77.1.11","gateway":"10.77.1.1"}"#
        ),
        [["10.77.1.0/24 10.77.1.10-10.77.1.11 gw 10.77.1.1"]]
    );
    assert_eq!(
        ranges(r#"{"subnet":"fd00:77:3::/64"}"#),
        [["fd00:77:3::/64 fd00:77:3::-fd00:77:3:0:ffff:ffff:ffff:ffff"]]
    );
    assert_eq!(
        ranges(
            r#"{"ranges":[[{"subnet":"10.0.0.0/24","gateway":"10.0.0.1"},{"subnet":"10.9.0.0/24","rangeEnd":"10.9.0.7"}],
                          [{"subnet":"fd00::/64","rangeStart":"fd00::10","rangeEnd":"fd00::11"}]]}"#
        ),
        [
            vec!["10.0.0.0/24 10.0.0.0-10.0.0.255 gw 10.0.0.1", "10.9.0.0/24 10.9.0.0-10.9.0.7"],
            vec!["fd00::/64 fd00::10-fd00::11"]
        ]
    );
    assert_eq!(
        ranges(
            r#"{"subnet":"10.0.0.0/24","ranges":[[{"subnet":"fd00::/64"}]],"gateway":["10.0.0.9","fd00::9"]}"#
        ),
        [
            vec!["10.0.0.0/24 10.0.0.0-10.0.0.255 gw 10.0.0.9"],
            vec!["fd00::/64 fd00::-fd00::ffff:ffff:ffff:ffff gw fd00::9"]
        ],
        "of several gateways each counts for the subnet it lies in"
    );
}

#[test]
fn a_gateway_may_lie_outside_of_its_range_and_subnet() {
    for gateway in ["10.0.0.1", "10.0.0.200", "192.0.2.1"] {
        let conf =
            ipam(&format!(r#"{{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.100","gateway":"{gateway}"}}"#));
        assert_eq!(
            conf.expect(gateway).ipam.sets[0].ranges[0].gateway,
            Some(gateway.parse().expect("address"))
        );
    }
    refused(ipam(r#"{"subnet":"10.0.0.0/24","gateway":"fd00::1"}"#), 7, "`ipam` has the gateway `fd00::1`");
    refused(
        ipam(r#"{"ranges":[[{"subnet":"fd00::/64","gateway":"10.0.0.1"}]]}"#),
        7,
        "`ipam.ranges[0][0]` has the gateway `10.0.0.1`",
    );
}

#[test]
fn ranges_that_cannot_be_meant_are_refused_by_name() {
    for (section, says) in [
        (r#"{"subnet":"not-a-subnet"}"#, "`ipam.subnet`: `not-a-subnet` has no prefix length"),
        (
            r#"{"subnet":"10.0.0.5/24"}"#,
            "`ipam.subnet`: `10.0.0.5/24` has host bits set; did you mean `10.0.0.0/24`?",
        ),
        (r#"{"subnet":5}"#, "`ipam.subnet` is `5`; expected a string"),
        (
            r#"{"subnet":"10.0.0.0/31"}"#,
            "`ipam.subnet`: `10.0.0.0/31` has no room for hosts; expected at most /30",
        ),
        (r#"{"subnet":"fd00::/127"}"#, "expected at most /126"),
        (r#"{"rangeStart":"10.0.0.5"}"#, "`ipam` has `rangeStart`, but no `subnet`"),
        (
            r#"{"subnet":"10.0.0.0/24","rangeStart":"10.0.1.5"}"#,
            "`ipam.rangeStart`: `10.0.1.5` is not in the subnet `10.0.0.0/24`",
        ),
        (
            r#"{"subnet":"10.0.0.0/24","rangeEnd":"fd00::1"}"#,
            "`ipam.rangeEnd`: `fd00::1` is not in the subnet",
        ),
        (
            r#"{"subnet":"10.0.0.0/24","rangeStart":"010.0.0.5"}"#,
            "`ipam.rangeStart` is `010.0.0.5`; expected an IPv4",
        ),
        (
            r#"{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.9","rangeEnd":"10.0.0.8"}"#,
            "`ipam` starts at `10.0.0.9`, behind its end `10.0.0.8`",
        ),
        (r#"{"ranges":[[{}]]}"#, "`ipam.ranges[0][0]` has no `subnet`"),
        (r#"{"ranges":[[]]}"#, "`ipam.ranges[0]`: has no range in it"),
        (r#"{"ranges":[{"subnet":"10.0.0.0/24"}]}"#, "`ipam.ranges[0]` is an object; expected a list"),
        (
            r#"{"ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"fd00::/64"}]]}"#,
            "`ipam.ranges[0]`: `10.0.0.0/24` and",
        ),
        (
            r#"{"subnet":"10.0.0.0/24","ranges":[[{"subnet":"10.0.0.0/24"}]]}"#,
            "the ranges 10.0.0.0 to 10.0.0.255 and 10.0.0.0 to 10.0.0.255 overlap",
        ),
        (
            r#"{"ranges":[[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.9"},{"subnet":"10.0.0.0/24","rangeEnd":"10.0.0.9"}]]}"#,
            "overlap",
        ),
        (
            r#"{"pools":[{"cidr":"10.1.0.0/16"}],"subnet":"10.0.0.0/24"}"#,
            "`ipam` has both `pools` and ranges",
        ),
    ] {
        refused(ipam(section), 7, says);
    }
    assert_eq!(
        ranges(
            r#"{"ranges":[[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.9"},{"subnet":"10.0.0.0/24","rangeEnd":"10.0.0.8"}]]}"#
        )[0]
        .len(),
        2,
        "two ranges may share a subnet"
    );
}

#[test]
fn the_runtime_may_bring_ranges() {
    let conf = |section: &str| {
        add(&format!(
            r#"{{"name":"n","ipam":{section},"runtimeConfig":{{"ipRanges":[[{{"subnet":"10.77.9.0/24","rangeStart":"10.77.9.20"}}]]}}}}"#
        ))
    };
    let sets = |section: &str| conf(section).expect(section).ipam.sets;
    assert_eq!(sets("{}").len(), 1);
    let both = sets(r#"{"subnet":"fd00::/64"}"#);
    assert_eq!(
        both.iter().map(RangeSet::family).collect::<Vec<_>>(),
        [Family::V6, Family::V4],
        "behind the network's own"
    );
    refused(conf(r#"{"subnet":"10.77.9.0/24"}"#), 7, "overlap");
    refused(
        add(r#"{"name":"n","ipam":{},"runtimeConfig":{"ipRanges":[[{"subnet":"x"}]]}}"#),
        7,
        "`runtimeConfig.ipRanges[0][0].subnet`: `x` has no prefix length",
    );
}

#[test]
fn routes_that_the_kernel_would_refuse_are_refused() {
    let routes = |list: &str| ipam(&format!(r#"{{"routes":{list}}}"#));
    let good = routes(
        r#"[{"dst":"0.0.0.0/0"},{"dst":"0.0.0.0/0","priority":9},{"dst":"0.0.0.0/0","table":0,"gw":"10.0.0.1"},
            {"dst":"::/0","gw":"fd00::1","mtu":1400,"advmss":1360,"priority":50,"table":100,"scope":0},{"dst":"10.9.0.0/16","mtu":0}]"#,
    );
    let good = good.expect("good").ipam.routes;
    assert_eq!(
        good[3],
        Route {
            dst: "::/0".parse().expect("dst"),
            gw: Some("fd00::1".parse().expect("gw")),
            mtu: Some(1400),
            advmss: Some(1360),
            priority: Some(50),
            table: Some(100),
            scope: Some(0),
        }
    );
    assert_eq!((good[2].table, good[4].mtu, good[4].table), (Some(0), None, None));
    for (list, says) in [
        (r#"[{"dst":"10.0.0.1/8"}]"#, "`ipam.routes[0].dst`: `10.0.0.1/8` has host bits set"),
        (r#"[{"gw":"10.0.0.1"}]"#, "`ipam.routes[0]` has no `dst`"),
        (r#"[{"dst":"::/0","gw":"10.0.0.1"}]"#, "`ipam.routes[0]` leads to `::/0` by `10.0.0.1`"),
        (
            r#"[{"dst":"::/0"},{"dst":"::/0"}]"#,
            "`ipam.routes[1]`: the route to `::/0` is already in `ipam.routes[0]`",
        ),
        (r#"[{"dst":"::/0"},{"dst":"::/0","gw":"fd00::1"}]"#, "is already in"),
        (r#"[{"dst":"::/0","table":-1}]"#, "`ipam.routes[0].table` is `-1`; expected a whole number"),
        (r#"[{"dst":"::/0","mtu":"1400"}]"#, "`ipam.routes[0].mtu` is `1400`; expected a whole number"),
        (r#"{"dst":"::/0"}"#, "`ipam.routes` is an object; expected a list"),
    ] {
        refused(routes(list), 7, says);
    }
}

#[test]
fn name_servers_are_addresses() {
    let conf = ipam(
        r#"{"resolvConf":"/etc/r","dns":{"nameservers":["10.0.0.53"],"domain":"d","search":["s","t"],"options":["ndots:2"]}}"#,
    );
    let conf = conf.expect("good").ipam;
    assert_eq!(conf.resolv_conf, Some("/etc/r".into()));
    assert_eq!((conf.dns.nameservers[0].as_str(), conf.dns.search.len()), ("10.0.0.53", 2));
    refused(
        ipam(r#"{"dns":{"nameservers":["ns1.example"]}}"#),
        7,
        "`ipam.dns.nameservers[0]` is `ns1.example`; expected an IPv4 or IPv6 address",
    );
}
