use std::os::unix::ffi::OsStringExt;

use super::*;

type Vars<'a> = &'a [(&'a str, &'a str)];

fn read(vars: Vars<'_>) -> Result<Option<Call>, Failure> {
    Call::read(|name| vars.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
}

fn full(more: Vars<'_>) -> Result<Option<Call>, Failure> {
    let mut vars = vec![
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/x"),
        ("CNI_IFNAME", "eth0"),
    ];
    vars.extend_from_slice(more);
    read(&vars)
}

#[test]
fn every_missing_variable_of_the_verb_is_named() {
    for (verb, wanted) in [
        ("ADD", vec!["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"]),
        ("CHECK", vec!["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"]),
        ("DEL", vec!["CNI_CONTAINERID", "CNI_IFNAME"]),
    ] {
        let failure = read(&[("CNI_COMMAND", verb), ("CNI_CONTAINERID", "")]).expect_err(verb);
        assert_eq!(failure.code.number(), 4);
        for name in ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_PATH"] {
            assert_eq!(failure.msg.contains(name), wanted.contains(&name), "{verb} {name}: {}", failure.msg);
        }
    }
    for verb in ["GC", "STATUS", "VERSION"] {
        let call = read(&[("CNI_COMMAND", verb), ("CNI_CONTAINERID", "../x"), ("CNI_IFNAME", "a b")]);
        assert_eq!(call.expect(verb).expect(verb).container_id, "", "{verb} looks at no attachment");
    }
}

#[test]
fn verbs_are_case_sensitive_and_no_verb_is_no_call() {
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[("CNI_COMMAND", "")]), Ok(None));
    for verb in ["FOO", "add", "UPDATE", " ADD"] {
        let failure = full(&[("CNI_COMMAND", verb)]).expect_err(verb);
        assert_eq!((failure.code.number(), failure.msg), (4, format!("unknown CNI_COMMAND: {verb}")));
    }
}

#[test]
fn container_ids_are_held_to_the_specification() {
    let long = "a".repeat(300);
    for good in ["a", "aZ0_.-..x-", "0", &long] {
        assert_eq!(full(&[("CNI_CONTAINERID", good)]).expect(good).expect(good).container_id, good);
    }
    for bad in
        ["a/b", "../../x", "-abc", ".abc", "..", "a b", "abc\n", "a\\b", "a;b", "kontéiner", "a:b", "_a"]
    {
        for verb in ["ADD", "DEL", "CHECK"] {
            let failure = full(&[("CNI_COMMAND", verb), ("CNI_CONTAINERID", bad)]).expect_err(bad);
            assert_eq!(failure.code.number(), 4);
            assert!(failure.msg.contains("CNI_CONTAINERID"), "{}", failure.msg);
        }
    }
}

#[test]
fn interface_names_are_held_to_the_kernels_rules() {
    for good in ["abcdefghijklmno", "v.100@x", "e", "ethαβγδ"] {
        assert_eq!(full(&[("CNI_IFNAME", good)]).expect(good).expect(good).ifname, good);
    }
    for bad in [
        "abcdefghijklmnop",
        ".",
        "..",
        "eth/0",
        "eth0:1",
        "eth 0",
        "eth\t0",
        "eth\u{a0}0",
        "ethαβγδεζηθ",
        "e\n",
    ] {
        let failure = full(&[("CNI_IFNAME", bad)]).expect_err(bad);
        assert_eq!(failure.code.number(), 4);
        assert!(failure.msg.contains("CNI_IFNAME"), "{}", failure.msg);
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_matter() {
    let read = |verb: &'static str, broken: &'static str| {
        Call::read(|name| match name {
            _ if name == broken => Some(OsString::from_vec(vec![b'a', 0xff, 0xfe])),
            "CNI_COMMAND" => Some(verb.into()),
            "CNI_CONTAINERID" | "CNI_IFNAME" | "CNI_NETNS" => Some("x".into()),
            _ => None,
        })
    };
    for broken in ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS"] {
        let failure = read("ADD", broken).expect_err(broken);
        assert_eq!(failure.code.number(), 4);
        assert!(failure.msg.contains(broken), "{}", failure.msg);
    }
    for harmless in ["CNI_NETNS", "CNI_ARGS", "CNI_PATH"] {
        assert!(read("DEL", harmless).is_ok(), "{harmless} cannot stop a DEL");
    }
}

#[test]
fn a_delete_needs_no_namespace() {
    for netns in ["", "/run/netns/gone"] {
        let call = full(&[("CNI_COMMAND", "DEL"), ("CNI_NETNS", netns)]).expect("call").expect("call");
        assert_eq!(call.netns.as_deref().unwrap_or(""), netns);
    }
}
