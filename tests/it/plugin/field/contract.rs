//! The contract with runtimes.

use serde_json::{Value, json};

use super::Field;
use crate::support::cni::{Answer, Call};

/// F23.
#[test]
fn a_del_of_what_never_was_or_is_gone_succeeds_silently_and_touches_nothing() {
    let field = Field::new();
    field.del("never", "n1");
    assert!(!field.lab.store().exists(), "not even a store is made");
    field.pool("p1", "10.68.0.0/31", 31);
    let kept = (field.add("a", "n1").address(), field.add("b", "n1").address());
    field.add("c", "n1").refused();
    for id in ["c", "c", "a", "a"] {
        field.del(id, "n1");
    }
    let held: Vec<_> = field.view().held.into_keys().collect();
    assert_eq!(held, [kept.1]);
    // Its siblings: another interface, another network of the same container.
    field.on("n1").call("DEL", "b").ifname("eth1").run().succeeded();
    field.on("n1").with_top("name", "othernet").del("b").succeeded();
    assert_eq!(field.count().0, 1);
}

/// F24. CNI leaves a repeated ADD to the plugin: the same answer again is what a runtime that lost the first one needs.
#[test]
fn an_add_that_is_repeated_on_a_full_pool_has_what_it_had() {
    let field = Field::new();
    field.pool("p1", "10.68.1.0/31", 31);
    let first = field.add("r1", "n1").result();
    field.add("r2", "n1").succeeded();
    assert_eq!(field.add("r1", "n1").result(), first);
    assert_eq!(field.count(), (2, 2));
    field.cli(&["patch", "ippool", "p1", "-p", r#"{"spec":{"disabled":true}}"#]).succeeded();
    assert_eq!(field.add("r1", "n1").result(), first, "nothing new is given");
}

/// F25.
#[test]
fn standard_output_has_one_document_and_nothing_else_whatever_is_logged() {
    let field = Field::new();
    field.pool("p1", "10.68.2.0/28", 28);
    let debug = field.on("n1").with_top("log_level", "debug");
    let is_one = |answer: Answer| serde_json::from_str::<Value>(&answer.stdout).expect("one document");
    for (id, path) in [("o1", None), ("o2", Some("/proc/nope/x.log")), ("o3", Some("/dev/full"))] {
        let network = path.map_or_else(|| debug.clone(), |path| debug.with_top("log_file_path", path));
        is_one(network.add(id).succeeded());
        assert_eq!(network.del(id).succeeded().stdout, "");
        is_one(network.with("ipv4_pools", json!(["none"])).add(id));
    }
    let version = Call::typed::<&str>(&[], "").variable("CNI_COMMAND", "VERSION").run().succeeded();
    assert!(is_one(version)["supportedVersions"].is_array());
}

/// F26.
#[test]
fn every_broken_call_ends_with_an_error_object_of_the_specifications_code_and_costs_nothing() {
    let field = Field::new();
    field.pool("p1", "10.68.3.0/28", 28);
    let conf = |edit: &dyn Fn(&mut Value)| {
        let mut conf = field.on("n1").conf;
        edit(&mut conf);
        conf.to_string()
    };
    let whole = conf(&|_| ());
    let call = |stdin: &str, variables: &[(&'static str, &str)]| {
        let call = Call::typed::<&str>(&[], stdin);
        variables.iter().fold(call, |call, (name, value)| call.variable(name, *value)).run()
    };
    let full = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "b"),
        ("CNI_NETNS", "x"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/"),
    ];
    let without = |name: &str| full.into_iter().filter(|(known, _)| *known != name).collect::<Vec<_>>();
    let with = |name: &'static str, value: &'static str| {
        without(name).into_iter().chain([(name, value)]).collect::<Vec<_>>()
    };
    let broken = r#"{"name":"n","ipam":{"type":"calico-ipam","assign_ipv4:"true"}}"#;
    let cases: Vec<(String, Vec<_>, u64, &str)> = vec![
        (String::new(), full.into(), 6, ""),
        (broken.into(), full.into(), 6, ""),
        ("[]".into(), full.into(), 6, ""),
        (whole.clone(), without("CNI_CONTAINERID"), 4, "CNI_CONTAINERID"),
        (whole.clone(), without("CNI_IFNAME"), 4, "CNI_IFNAME"),
        (whole.clone(), with("CNI_IFNAME", "a/b"), 4, "CNI_IFNAME"),
        (whole.clone(), with("CNI_IFNAME", "sixteen-letters-"), 4, "CNI_IFNAME"),
        (whole.clone(), with("CNI_COMMAND", "FROB"), 4, "FROB"),
        (whole.clone(), with("CNI_ARGS", "IP"), 4, "CNI_ARGS"),
        (conf(&|conf| conf["cniVersion"] = "9.9.9".into()), full.into(), 1, "9.9.9"),
        (conf(&|conf| conf["nodename"] = Value::Null), full.into(), 0, "nodename"),
        (conf(&|conf| conf["nodename"] = json!(7)), full.into(), 7, "nodename"),
        (conf(&|conf| conf["ipam"]["assign_ipv4"] = "maybe".into()), full.into(), 7, "assign_ipv4"),
        (conf(&|conf| conf["name"] = "".into()), full.into(), 7, "name"),
        (conf(&|conf| conf["ipam"] = json!([])), full.into(), 7, "ipam"),
    ];
    for (stdin, variables, code, word) in cases {
        let answer = call(&stdin, &variables);
        // A `null` is no value: it may be taken for a name that was not given, or be refused.
        if code == 0 && answer.is_success() {
            // It was added under the kernel's name.
            assert!(call(&stdin, &with("CNI_COMMAND", "DEL")).is_success(), "{stdin}");
            continue;
        }
        let refusal = answer.refused();
        assert!(refusal.code == code || code == 0, "{stdin} {variables:?}: {refusal:?}");
        refusal.says(&[word]);
    }
    assert_eq!(field.count(), (0, 0));
}
