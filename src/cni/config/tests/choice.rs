use super::*;
use crate::net::Family::{self, V4, V6};

#[test]
fn pools_are_described_as_in_their_resource() {
    let conf = ipam(
        r#"{"pools":[{"cidr":"10.88.0.0/16"},
            {"cidr":"fd00:88::/64","name":"six","blockSize":122,"disabled":false,"nodeSelector":"all()","namespaceSelector":"has(x)",
             "allowedUses":["Workload"],"assignmentMode":"Manual","ipipMode":"Never","vxlanMode":"CrossSubnet",
             "natOutgoing":true,"disableBGPExport":true}]}"#,
    );
    let conf = conf.expect("good").ipam;
    assert_eq!(conf.dialect, Dialect::Pools);
    assert_eq!(conf.pools[0], PoolConf::new("10.88.0.0/16".parse().expect("cidr")));
    assert_eq!(conf.pools[0].resource_name(), "10-88-0-0-16");
    assert_eq!(serde_json::Value::from(conf.pools[0].spec()).to_string(), r#"{"cidr":"10.88.0.0/16"}"#);
    assert_eq!(conf.pools[1].resource_name(), "six");
    assert_eq!(
        serde_json::Value::from(conf.pools[1].spec()),
        serde_json::json!({
            "cidr": "fd00:88::/64", "blockSize": 122, "disabled": false, "nodeSelector": "all()", "namespaceSelector": "has(x)",
            "allowedUses": ["Workload"], "assignmentMode": "Manual", "ipipMode": "Never", "vxlanMode": "CrossSubnet",
            "natOutgoing": true, "disableBGPExport": true,
        })
    );
}

#[test]
fn pools_that_cannot_be_meant_are_refused_by_name() {
    for (pool, code, says) in [
        (r#"{"cidr":"10.0.0.5/24"}"#, 7, "`ipam.pools[1].cidr`: `10.0.0.5/24` has host bits set"),
        (r#"{"cidr":5}"#, 7, "`ipam.pools[1].cidr` is `5`; expected a string"),
        ("{}", 7, "`ipam.pools[1]` has no `cidr`"),
        (r#""10.0.0.0/24""#, 7, "`ipam.pools[1]` is `10.0.0.0/24`; expected an object"),
        (
            r#"{"cidr":"10.0.0.0/24","block_size":26}"#,
            2,
            "`ipam.pools[1].block_size` with value `26` is not supported; did you mean `blockSize`?",
        ),
        (
            r#"{"cidr":"10.0.0.0/24","gateway":"10.0.0.1"}"#,
            2,
            "`ipam.pools[1].gateway` with value `10.0.0.1`",
        ),
        (
            r#"{"cidr":"10.0.0.0/24","blockSize":19}"#,
            7,
            "`ipam.pools[1].blockSize` is `19`; expected 20 to 32 for IPv4",
        ),
        (r#"{"cidr":"10.0.0.0/24","blockSize":22}"#, 7, "is `22`; expected at least 24"),
        (r#"{"cidr":"10.0.0.0/24","blockSize":26.5}"#, 7, "expected 20 to 32 for IPv4"),
        (r#"{"cidr":"fd00::/64","blockSize":26}"#, 7, "expected 116 to 128 for IPv6"),
        (
            r#"{"cidr":"10.0.0.0/24","allowedUses":["Work"]}"#,
            7,
            "`ipam.pools[1].allowedUses[0]` is `Work`; expected `Workload`, `Tunnel` or `LoadBalancer`",
        ),
        (r#"{"cidr":"10.0.0.0/24","assignmentMode":"manual"}"#, 7, "expected `Automatic` or `Manual`"),
        (r#"{"cidr":"10.0.0.0/24","name":"Blue"}"#, 7, "`ipam.pools[1].name` is `Blue`; expected lower-case"),
        (r#"{"cidr":"10.0.0.0/24","name":"a/b"}"#, 7, "`ipam.pools[1].name`"),
        (
            r#"{"cidr":"10.9.1.0/24"}"#,
            7,
            "`ipam.pools[1]`: `10.9.1.0/24` overlaps `10.9.0.0/16` of `ipam.pools[0]`",
        ),
    ] {
        refused(ipam(&format!(r#"{{"pools":[{{"cidr":"10.9.0.0/16"}},{pool}]}}"#)), code, says);
    }
    let conf = ipam(r#"{"pools":[{"cidr":"10.0.0.0/24","blocksize":0}]}"#).expect("any letter case");
    assert_eq!(conf.ipam.pools[0].block_size, None, "0 is the default");
}

#[test]
fn a_network_is_restricted_to_pools_by_name_or_cidr() {
    let conf =
        ipam(r#"{"ipv4_pools":["blue","10.9.1.1/16"],"ipv6_pools":["fd00::/64"]}"#).expect("good").ipam;
    let shown = |pools: &[PoolRef]| pools.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&conf.ipv4_pools), ["blue", "10.9.0.0/16"]);
    assert_eq!(shown(&conf.ipv6_pools), ["fd00::/64"]);
    for (section, says) in [
        (
            r#"{"ipv4_pools":["fd00::/64"]}"#,
            "`ipam.ipv4_pools[0]`: `fd00::/64` is an IPv6 network; expected an IPv4 one",
        ),
        (r#"{"ipv6_pools":["a/b"]}"#, "`ipam.ipv6_pools[0]`: `a/b`"),
        (r#"{"ipv6_pools":[""]}"#, "`ipam.ipv6_pools[0]`: is empty"),
        (r#"{"ipv4_pools":"blue"}"#, "`ipam.ipv4_pools` is `blue`; expected a list"),
    ] {
        refused(ipam(section), 7, says);
    }
}

#[test]
fn families_are_switched_by_booleans_and_by_calicos_strings() {
    let families = |section: &str| -> Vec<Family> {
        let conf = ipam(section).expect(section);
        let slots = conf.ipam.slots(&conf.request);
        slots.map(|slots| slots.iter().map(|slot| slot.family).collect()).unwrap_or_default()
    };
    let pools = r#""pools":[{"cidr":"fd00::/64"},{"cidr":"10.0.0.0/24"}]"#;
    let sets = r#""ranges":[[{"subnet":"fd00::/64"}],[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.1.0/24"}]]"#;
    for (section, wanted) in [
        ("{}".to_owned(), vec![V4]),
        (r#"{"assign_ipv6":true}"#.to_owned(), vec![V4, V6]),
        (r#"{"assign_ipv4":"false","assign_ipv6":"true"}"#.to_owned(), vec![V6]),
        (r#"{"assign_ipv4":"False","assign_ipv6":""}"#.to_owned(), vec![]),
        (r#"{"assign_ipv4":null,"assign_ipv6":false}"#.to_owned(), vec![V4]),
        (format!("{{{pools}}}"), vec![V4, V6]),
        (r#"{"pools":[{"cidr":"fd00::/64"}]}"#.to_owned(), vec![V6]),
        (format!(r#"{{{pools},"assign_ipv6":false}}"#), vec![V4]),
        (format!("{{{sets}}}"), vec![V6, V4, V4]),
        (format!(r#"{{{sets},"assign_ipv6":"false"}}"#), vec![V4, V4]),
        (r#"{"subnet":"10.0.0.0/24","assign_ipv6":true}"#.to_owned(), vec![]),
    ] {
        assert_eq!(families(&section), wanted, "{section}");
    }
    refused(ipam(r#"{"assign_ipv4":"yes"}"#), 7, "`ipam.assign_ipv4` is `yes`; expected true or false");
    refused(ipam(r#"{"assign_ipv6":1}"#), 7, "`ipam.assign_ipv6` is `1`; expected true or false");
}

#[test]
fn addressing_follows_the_main_plugin_unless_it_is_set() {
    let addressing = |main: &str, called_as: &str, own: &str| {
        let text = format!(r#"{{"name":"n","type":"{main}","ipam":{{{own}}}}}"#);
        let stdin = Stdin::parse(text.as_bytes()).expect("json");
        NetConf::whole(&stdin, Verb::Add, "", called_as).expect("good").ipam.addressing
    };
    assert_eq!(addressing("bridge", "host-affine", ""), Addressing::Subnet);
    assert_eq!(addressing("calico", "host-affine", ""), Addressing::Routed);
    assert_eq!(addressing("bridge", "calico-ipam", ""), Addressing::Routed);
    assert_eq!(addressing("calico", "calico-ipam", r#""addressing":"subnet""#), Addressing::Subnet);
    assert_eq!(addressing("bridge", "host-affine", r#""addressing":"routed""#), Addressing::Routed);
    refused(
        ipam(r#"{"addressing":"bridged"}"#),
        7,
        "`ipam.addressing` is `bridged`; expected `subnet` or `routed`",
    );
}

#[test]
fn gateways_are_one_or_several() {
    let gateways =
        |value: &str| ipam(&format!(r#"{{"gateway":{value}}}"#)).map(|conf| conf.ipam.gateways.len()).ok();
    assert_eq!(gateways("\"10.0.0.1\""), Some(1));
    assert_eq!(gateways(r#"["10.0.0.1","fd00::1"]"#), Some(2));
    assert_eq!((gateways("[]"), gateways("null"), gateways("\"\"")), (Some(0), Some(0), Some(0)));
    refused(
        ipam(r#"{"gateway":"10.0.0.1/24"}"#),
        7,
        "`ipam.gateway` is `10.0.0.1/24`; expected an IPv4 or IPv6 address",
    );
    refused(ipam(r#"{"gateway":["x"]}"#), 7, "`ipam.gateway[0]` is `x`");
}

#[test]
fn exhaustion_is_an_error_of_status_when_it_is_asked_for() {
    assert!(!ipam("{}").expect("good").ipam.status_exhaustion);
    assert!(ipam(r#"{"status":{"exhaustion":true}}"#).expect("good").ipam.status_exhaustion);
    refused(ipam(r#"{"status":{"exhaustion":1}}"#), 7, "`ipam.status.exhaustion`");
}
