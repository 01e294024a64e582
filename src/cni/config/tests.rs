use log::LevelFilter::{Debug, Error, Info, Warn};

use proptest::prelude::*;

use super::*;

mod choice;
mod ranges;
mod release;
mod requests;
mod store;

/// A configuration for ADD with this `ipam` section.
fn ipam(section: &str) -> Result<NetConf, Failure> {
    add(&format!(r#"{{"cniVersion":"1.0.0","name":"n","type":"bridge","ipam":{section}}}"#))
}

/// A configuration for ADD.
fn add(config: &str) -> Result<NetConf, Failure> {
    read(config, Verb::Add, "")
}

/// A configuration for a verb, with `CNI_ARGS`.
fn read(config: &str, verb: Verb, args: &str) -> Result<NetConf, Failure> {
    let stdin = Stdin::parse(config.as_bytes())?;
    let call = Call {
        verb,
        container_id: "c".into(),
        netns: None,
        ifname: "eth0".into(),
        args: args.into(),
        path: None,
    };
    match verb {
        Verb::Add => NetConf::for_add(&stdin, &call, "host-affine"),
        Verb::Status => NetConf::for_status(&stdin, "host-affine"),
        Verb::Check => NetConf::for_check(&stdin, &call),
        _ => NetConf::for_release(&stdin, &call),
    }
}

/// What is refused, with its code, and what the message says.
#[track_caller]
fn refused(conf: Result<NetConf, Failure>, code: u32, says: &str) {
    let failure = conf.expect_err(says);
    assert!(failure.msg.contains(says), "{:?} does not say {says:?}", failure.msg);
    assert_eq!(failure.code.number(), code, "{}", failure.msg);
}

#[test]
fn standard_input_must_be_one_object() {
    for text in [
        "",
        " \n",
        "this is not json",
        r#"{"name":"n","ipam":{"#,
        "[]",
        "\"n\"",
        "42",
        "null",
        "{} xyz",
        "{}{}",
    ] {
        refused(add(text), 6, "network config");
    }
    refused(
        add(r#"{"name":"n","ipam":{"type":"x","assign_ipv4:"true"}}"#),
        6,
        "byte 45: expected a colon, found `t`",
    );
}

#[test]
fn a_network_has_a_name_that_names_nothing_else() {
    let named = |name: &str| add(&format!(r#"{{"cniVersion":"1.0.0","name":{name},"ipam":{{}}}}"#));
    for good in ["n", "lock", "last_reserved_ip.0", "a-b_c.d", &"n".repeat(300)] {
        assert_eq!(named(&format!("\"{good}\"")).expect(good).name, good);
    }
    for bad in [
        "../../x",
        "a/b",
        "/etc",
        r"a\u0000b",
        "nét",
        ".hidden",
        "..",
        r"net\n",
        "my net",
        "-net",
        "a%2fb",
        "",
    ] {
        refused(named(&format!("\"{bad}\"")), 7, "`name` is ");
    }
    refused(named("null"), 7, "`name` is missing");
    refused(named("5"), 7, "`name` is `5`; expected a string");
    refused(add(r#"{"cniVersion":"1.0.0","ipam":{}}"#), 7, "`name` is missing");
}

#[test]
fn a_wrong_version_is_refused_before_anything_else_is_read() {
    for verb in [Verb::Add, Verb::Del] {
        let conf = read(r#"{"cniVersion":"9.9.9","name":"n","ipam":5}"#, verb, "IP=banana");
        refused(conf, 1, "`9.9.9`");
    }
    let old = |verb| read(r#"{"cniVersion":"0.3.1","name":"n","ipam":{}}"#, verb, "");
    refused(old(Verb::Check), 1, "0.3.1, which has no CHECK");
    refused(old(Verb::Status), 1, "0.3.1, which has no STATUS");
    refused(old(Verb::Gc), 1, "0.3.1, which has no GC");
    assert!(old(Verb::Del).is_ok());
}

#[test]
fn errors_are_written_in_the_configurations_own_version() {
    let answer = |text: &str| Stdin::parse(text.as_bytes()).expect(text).answer_version();
    assert_eq!(answer(r#"{"cniVersion":"0.4.0","name":"a/b"}"#), Version::V0_4_0);
    assert_eq!(answer("{}"), Version::V0_1_0);
    assert_eq!(answer(r#"{"cniVersion":"9.9.9"}"#), Version::LATEST);
}

#[test]
fn an_address_needs_an_ipam_section() {
    for verb in [Verb::Add, Verb::Check, Verb::Status] {
        let conf =
            |section: &str| read(&format!(r#"{{"cniVersion":"1.1.0","name":"n"{section}}}"#), verb, "");
        refused(conf(""), 7, "`ipam` is missing");
        for wrong in ["\"host-local\"", "[]", "5", "true"] {
            refused(conf(&format!(",\"ipam\":{wrong}")), 7, "`ipam` is ");
        }
    }
}

#[test]
fn what_belongs_to_others_does_not_matter() {
    let conf = add(
        r#"{"cniVersion":"1.0.0","name":"n","type":"bridge","bridge":"cni0","isGateway":true,"mtu":1400,
            "nested":{"a":[1,{"b":null}]},"dns":null,"capabilities":{"mac":true},
            "args":{"cni":{"labels":[{"key":"app"}]},"org.example":[1,2]},
            "runtimeConfig":{"mac":"c2:11:22:33:44:55","ips":null,"ipRanges":null,"dns":{"servers":["8.8.8.8"]}},
            "prevResult":{"ips":"nonsense"},"note":"\ud800",
            "ipam":{"type":"host-affine","whereabouts":[],"subnet":null}}"#,
    )
    .expect("taken");
    assert_eq!(conf.ipam, IpamConf::default());
    assert_eq!(conf.request, Request::default());
    assert_eq!(conf.prev_result, None);
    for args in ["\"x\"", "[]", r#"{"cni":5}"#, r#"{"cni":{"ips":null}}"#] {
        let conf = add(&format!(r#"{{"name":"n","args":{args},"runtimeConfig":{{"ips":[]}},"ipam":{{}}}}"#));
        assert_eq!(conf.expect(args).request, Request::default());
    }
}

#[test]
fn keys_are_read_in_any_letter_case_and_the_last_one_counts() {
    let conf = add(r#"{"name":"n","name":"m","ipam":{"SUBNET":"10.0.0.0/24","rangestart":"10.0.0.9"}}"#)
        .expect("taken");
    assert_eq!(conf.name, "m");
    assert_eq!(conf.ipam.sets[0].ranges[0].first, Some("10.0.0.9".parse().expect("address")));
}

#[test]
fn logging_is_set_in_either_place_and_never_fails_a_call() {
    let log = |top: &str, own: &str| {
        let conf = add(&format!(r#"{{"name":"n",{top}"ipam":{{{own}}}}}"#)).expect("taken").log;
        (conf.level, conf.file)
    };
    assert_eq!(log("", ""), (Warn, None));
    assert_eq!(log(r#""log_level":"Debug","log_file_path":"/l","#, ""), (Debug, Some("/l".into())));
    assert_eq!(log(r#""log_level":"debug","#, r#""log_level":"error""#), (Error, None));
    assert_eq!(log(r#""log_level":"INFO","#, r#""log_level":"""#), (Info, None));
    assert_eq!(log(r#""log_level":"loud","#, ""), (Warn, None));
    assert_eq!(log("", r#""log_level":"WARNING""#), (Warn, None));
}

const RICH: &str = r#"{"cniVersion":"1.1.0","name":"n","type":"calico","nodename":"a","etcd_endpoints":"http://a:2379",
    "cni.dev/valid-attachments":[{"containerID":"a","ifname":"eth0"}],"args":{"cni":{"ips":["10.0.0.7"],"vm":{}}},
    "runtimeConfig":{"ips":["fd00::7/64"],"ipRanges":[[{"subnet":"10.2.0.0/16"}]],
      "io.kubernetes.cri.pod-annotations":{"cni.projectcalico.org/ipFamilies":"[\"IPv4\",\"IPv6\"]"}},
    "prevResult":{"ips":[{"address":"10.0.0.5/24"}],"ip4":{"ip":"10.0.0.6/24"}},
    "ipam":{"type":"host-affine","datastore":{"type":"file","path":"/s"},"subnet":"10.0.0.0/24","rangeStart":"10.0.0.5",
      "ranges":[[{"subnet":"fd00::/64","gateway":"fd00::1"}]],"routes":[{"dst":"::/0","gw":"fd00::1","mtu":1400}],
      "dns":{"nameservers":["10.0.0.53"]},"assign_ipv6":"true","gateway":["10.0.0.1"],"ipv4_pools":["blue","10.9.0.0/16"]}}"#;

proptest! {
    /// Fuzzed input ends in a value or in an error that says whose fault it is, whatever the verb.
    #[test]
    fn no_input_is_a_crash(
        changes in prop::collection::vec((0..RICH.len(), any::<u8>(), any::<bool>()), 0..4),
        args in "[A-Z=;,0-9./:]{0,20}",
    ) {
        let mut text = RICH.as_bytes().to_vec();
        for (at, byte, swap) in changes {
            let printable = b"{}[],:\"\\0n1/."[usize::from(byte) % 13];
            if swap { text[at] = printable } else { text.insert(at, byte) }
        }
        let Ok(stdin) = Stdin::parse(&text) else { return Ok(()) };
        for verb in [Verb::Add, Verb::Del, Verb::Check, Verb::Gc, Verb::Status] {
            let call = Call { verb, container_id: "c".into(), netns: None, ifname: "e".into(), args: args.clone(), path: None };
            let conf = match verb {
                Verb::Add => NetConf::for_add(&stdin, &call, ""),
                Verb::Status => NetConf::for_status(&stdin, ""),
                Verb::Check => NetConf::for_check(&stdin, &call),
                _ => NetConf::for_release(&stdin, &call),
            };
            let slots = conf.and_then(|conf| conf.ipam.slots(&conf.request).map(|slots| slots.len()));
            if let Err(failure) = slots {
                prop_assert!(matches!(failure.code.number(), 1 | 2 | 4 | 6 | 7 | 108), "{}", failure.msg);
            }
        }
    }
}

#[test]
fn the_fuzzed_configuration_is_a_good_one() {
    let conf = add(RICH).expect("good");
    assert_eq!(conf.ipam.sets.len(), 3);
    assert_eq!(conf.ipam.slots(&conf.request).expect("slots").len(), 3);
}
