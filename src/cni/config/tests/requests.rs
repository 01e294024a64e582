use super::*;

/// The addresses asked for by a configuration with these members and `CNI_ARGS`.
fn asked(members: &str, args: &str) -> Vec<String> {
    let conf = read(&format!(r#"{{"name":"n",{members},"ipam":{{}}}}"#), Verb::Add, args).expect(members);
    conf.request.addresses.iter().map(ToString::to_string).collect()
}

fn annotated(annotations: &str) -> Result<NetConf, Failure> {
    add(&format!(
        r#"{{"name":"n","runtimeConfig":{{"io.kubernetes.cri.pod-annotations":{annotations}}},
            "ipam":{{"ipv4_pools":["blue"],"ipv6_pools":["six"]}}}}"#
    ))
}

#[test]
fn for_each_family_the_first_source_counts() {
    let runtime = r#""runtimeConfig":{"ips":["10.0.0.1/24"]}"#;
    let args = r#""args":{"cni":{"ips":["10.0.0.2","fd00::2"]}}"#;
    let annotation = r#""runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"cni.projectcalico.org/ipAddrs":"[\"10.0.0.4\",\"fd00::4\"]"}}"#;
    let cni_args = "IP=10.0.0.3,fd00::3";
    assert_eq!(asked(runtime, ""), ["10.0.0.1"]);
    assert_eq!(asked(&format!("{runtime},{args}"), cni_args), ["10.0.0.1", "fd00::2"]);
    assert_eq!(asked(args, cni_args), ["10.0.0.2", "fd00::2"]);
    assert_eq!(asked(annotation, "IP=10.0.0.3"), ["10.0.0.3", "fd00::4"]);
    assert_eq!(asked(runtime, "IP=10.0.0.1"), ["10.0.0.1"], "the same by two ways is one request");
    assert_eq!(
        asked(r#""runtimeConfig":{"ips":["fd00::9","10.0.0.9","10.0.0.9/8"]}"#, ""),
        ["10.0.0.9", "fd00::9"]
    );
}

#[test]
fn a_request_that_cannot_be_read_is_refused() {
    for bad in ["banana", "10.77.0.010", "10.77.0.5/99", ""] {
        refused(
            add(&format!(r#"{{"name":"n","ipam":{{}},"runtimeConfig":{{"ips":["{bad}"]}}}}"#)),
            7,
            "`runtimeConfig.ips[0]` is ",
        );
    }
    refused(
        add(r#"{"name":"n","ipam":{},"args":{"cni":{"ips":[5]}}}"#),
        7,
        "`args.cni.ips[0]` is `5`; expected a string",
    );
    refused(
        add(r#"{"name":"n","ipam":{},"runtimeConfig":{"ips":"10.0.0.9"}}"#),
        7,
        "`runtimeConfig.ips` is `10.0.0.9`",
    );
    refused(read(r#"{"name":"n","ipam":{}}"#, Verb::Add, "IP=banana"), 4, "CNI_ARGS");
}

#[test]
fn annotations_of_the_pod_stand_before_the_networks_settings() {
    let conf = annotated(
        r#"{"cni.projectcalico.org/ipv4pools":"[\"red\",\"10.9.0.0/16\"]","cni.projectcalico.org/ipFamilies":"[\"IPv6\"]",
            "kubevirt.io/domain":"db","other":"x","kubevirt.io/odd":5}"#,
    );
    let conf = conf.expect("good");
    let shown = |pools: &[PoolRef]| pools.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&conf.ipam.ipv4_pools), ["red", "10.9.0.0/16"]);
    assert_eq!(shown(&conf.ipam.ipv6_pools), ["six"], "what no annotation names stays");
    assert_eq!((conf.ipam.assign_ipv4, conf.ipam.assign_ipv6), (Some(false), Some(true)));
    assert_eq!(conf.request.annotations.len(), 3);
    assert_eq!(conf.request.annotations.get("kubevirt.io/domain").map(String::as_str), Some("db"));
}

#[test]
fn annotations_that_cannot_be_read_are_refused_by_name() {
    for (key, value, says) in [
        ("ipAddrs", "10.0.0.1", "is no JSON list of strings"),
        ("ipAddrs", "[]", "expected one IPv4 address, one IPv6 address, or one of each"),
        ("ipAddrs", r#"[\"10.0.0.1\",\"10.0.0.2\"]"#, "expected one IPv4 address"),
        ("ipAddrs", r#"[\"x\"]"#, "\"x\" is no address"),
        ("ipv4pools", "[5]", "is no JSON list of strings"),
        ("ipv6pools", r#"[\"10.0.0.0/8\"]"#, "`10.0.0.0/8` is an IPv4 network"),
        ("ipFamilies", r#"[\"ipv4\"]"#, "\"ipv4\" is no family; expected `IPv4` or `IPv6`"),
    ] {
        let conf = annotated(&format!(r#"{{"cni.projectcalico.org/{key}":"{value}"}}"#));
        refused(conf, 7, &format!("pod annotation `cni.projectcalico.org/{key}`: "));
        let conf = annotated(&format!(r#"{{"cni.projectcalico.org/{key}":"{value}"}}"#));
        refused(conf, 7, says);
    }
}

#[test]
fn the_pod_is_known_when_both_its_names_are() {
    let pod = |args: &str| read(r#"{"name":"n","ipam":{}}"#, Verb::Add, args).expect(args).request.pod;
    assert_eq!(
        pod("K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=prod"),
        Some(Pod { namespace: "prod".into(), name: "web-0".into() })
    );
    assert_eq!(pod("K8S_POD_NAME=web-0"), None);
    assert_eq!(pod("K8S_POD_NAME=web-0;K8S_POD_NAMESPACE="), None);
}

#[test]
fn long_pod_name_is_noted_as_kubernetes_allows() {
    let args = format!("K8S_POD_NAME=x{};K8S_POD_NAMESPACE={}", "ä".repeat(60_000), "n".repeat(254));
    let pod = read(r#"{"name":"n","ipam":{}}"#, Verb::Add, &args).expect("is taken").request.pod;
    let expected = Pod { namespace: "n".repeat(253), name: format!("x{}", "ä".repeat(126)) };
    assert_eq!(pod, Some(expected));
}

#[test]
fn what_is_asked_for_finds_its_place_or_is_refused() {
    let slots = |section: &str, ips: &str| {
        let text = format!(r#"{{"name":"n","ipam":{section},"runtimeConfig":{{"ips":{ips}}}}}"#);
        let conf = add(&text).expect("good");
        let slots = conf.ipam.slots(&conf.request)?;
        let shown =
            |slot: &Slot<'_>| slot.requested.map_or_else(|| slot.family.to_string(), |ip| ip.to_string());
        Ok::<_, Failure>(slots.iter().map(shown).collect::<Vec<_>>())
    };
    let dual = r#"{"ranges":[[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.5"}],[{"subnet":"fd00::/64"}]]}"#;
    for (section, ips, wanted) in [
        (dual, r#"["fd00::77","10.0.0.77"]"#, vec!["10.0.0.77", "fd00::77"]),
        (dual, r#"["10.0.0.77"]"#, vec!["10.0.0.77", "IPv6"]),
        (
            r#"{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.1.0/24"}]]}"#,
            r#"["10.0.1.7"]"#,
            vec!["IPv4", "10.0.1.7"],
        ),
        ("{}", r#"["10.0.0.7"]"#, vec!["10.0.0.7"]),
        ("{}", r#"["fd00::7"]"#, vec!["IPv4", "fd00::7"]),
        (r#"{"assign_ipv4":false}"#, r#"["fd00::7"]"#, vec!["fd00::7"]),
    ] {
        assert_eq!(slots(section, ips).expect(section), wanted, "{section} {ips}");
    }
    for (section, ips, code, says) in [
        (dual, r#"["192.0.2.1"]"#, 108, "`192.0.2.1` is in none of the network's ranges"),
        (dual, r#"["10.0.0.4"]"#, 108, "`10.0.0.4` is in none"),
        (
            dual,
            r#"["10.0.0.6","10.0.0.7"]"#,
            7,
            "`10.0.0.7` and `10.0.0.6` are asked for, where one address is assigned",
        ),
        (r#"{"subnet":"10.0.0.0/24"}"#, r#"["fd00::1"]"#, 108, "`fd00::1` is in none"),
        ("{}", r#"["10.0.0.6","10.0.0.7"]"#, 7, "where one address is assigned"),
        (r#"{"assign_ipv6":"false"}"#, r#"["fd00::1"]"#, 7, "no IPv6 address is to be assigned"),
        (r#"{"assign_ipv4":"false"}"#, "[]", 7, "no address is to be assigned"),
        (
            r#"{"subnet":"10.0.0.0/24","assign_ipv6":true}"#,
            "[]",
            7,
            "an IPv6 address is to be assigned, but no range is IPv6",
        ),
    ] {
        let failure = slots(section, ips).expect_err(says);
        assert!(failure.msg.contains(says), "{}", failure.msg);
        assert_eq!(failure.code.number(), code);
    }
}
