use serde_json::{Value, json};

use super::*;

/// The objects of a file, or its complaints.
fn read(file: &str, text: &str) -> Result<Vec<Value>, Vec<String>> {
    let (mut manifests, mut faults) = (Vec::new(), Vec::new());
    read_file(file, text.as_bytes(), &mut manifests, &mut faults);
    find_twice(&manifests, &mut faults);
    if faults.is_empty() {
        Ok(manifests.into_iter().map(|manifest| manifest.object).collect())
    } else {
        Err(faults.iter().map(ToString::to_string).collect())
    }
}

fn specs(text: &str) -> Vec<Value> {
    read("f.yaml", text).expect(text).into_iter().map(|object| object["spec"].clone()).collect()
}

fn faults(text: &str) -> Vec<String> {
    read("f.yaml", text).expect_err(text)
}

fn pool(spec: &str) -> String {
    format!("apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata: {{name: p}}\nspec: {spec}\n")
}

fn configuration(spec: &str) -> String {
    format!(
        "apiVersion: projectcalico.org/v3\nkind: IPAMConfiguration\nmetadata: {{name: default}}\nspec: {spec}\n"
    )
}

#[test]
fn yaml_and_json_say_the_same() {
    let wanted = [json!({ "cidr": "fd00::/64", "disabled": true, "nodeSelector": "!all()" })];
    assert_eq!(specs(&pool("{cidr: fd00::/64, disabled: true, nodeSelector: '!all()'}")), wanted);
    assert_eq!(
        specs(
            "apiVersion: projectcalico.org/v3\r\nkind: IPPool\r\nmetadata:\r\n  name: p\r\nspec:\r\n  cidr: fd00::/64\r\n  disabled: true\r\n  nodeSelector: \"!all()\"\r\n"
        ),
        wanted
    );
    let text = r#"{"apiVersion": "projectcalico.org/v3", "kind": "IPPool", "metadata": {"name": "p"},
        "spec": {"cidr": "fd00::/64", "disabled": true, "nodeSelector": "\u0021all()"}}"#;
    assert_eq!(specs(text), wanted);
    assert_eq!(specs(&format!("\u{feff}{text}\n{}", text.replace("\"p\"", "\"q\""))).len(), 2);
}

#[test]
fn a_file_holds_documents_lists_and_lists_of_lists() {
    let one = pool("{cidr: 10.0.0.0/16}");
    let two = one.replace("name: p", "name: q");
    assert_eq!(specs(&format!("# a comment\n---\n{one}---\n---\n{two}...\n")).len(), 2);
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "projectcalico.org/v3", "kind": "IPPool", "metadata": {"name": "a"}, "spec": {"cidr": "10.0.0.0/16"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"zone": "y"}}, "spec": {"podCIDR": "x"}}]}"#;
    let read = read("f.json", list).expect("a list");
    assert_eq!(read[1]["metadata"]["labels"]["zone"], "y");
    assert_eq!(read[1]["spec"], json!({}));
    assert_eq!(specs(&format!("[{list}]")).len(), 2);
    assert_eq!(specs("").len(), 0);
}

#[test]
fn a_word_that_old_yaml_took_for_a_truth_value_is_text() {
    let node = "apiVersion: projectcalico.org/v3\nkind: Node\nmetadata:\n  name: n1\n  labels:\n    x: y\n    a: no\n    b: on\n";
    let read = read("f.yaml", node).expect(node);
    assert_eq!(read[0]["metadata"]["labels"], json!({ "x": "y", "a": "no", "b": "on" }));
    assert_eq!(
        faults(&configuration("{strictAffinity: yes}")),
        [
            "f.yaml:4:8: IPAMConfiguration `default`: `spec.strictAffinity` is the text \"yes\"; expected true or false, without quotes"
        ]
    );
    assert_eq!(
        faults(&node.replace("x: y", "x: 5")),
        ["f.yaml:6:5: Node `n1`: `metadata.labels.x` is 5; expected a text: write it in quotes"]
    );
}

#[test]
fn a_selector_that_yaml_takes_for_a_tag_is_refused_with_its_remedy() {
    assert_eq!(
        faults(
            "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata:\n  name: p\nspec:\n  cidr: 10.0.0.0/16\n  nodeSelector: !all()\n"
        ),
        ["f.yaml:7:17: `!all()` is a YAML tag, and no text; write it in quotes: \"!all()\""]
    );
    for selector in ["!has(x) && zone == 'y'", "!has(x)", "!(has(x))", "! has(x)", "!zone in {'a', 'b'}"] {
        let told = faults(&format!(
            "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata:\n  name: p\nspec:\n  nodeSelector: {selector}\n  cidr: 10.0.0.0/16\n"
        ));
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("f.yaml:6:17: ") && told[0].contains("quotes"), "{selector}: {told:?}");
    }
    assert_eq!(specs(&pool("{cidr: !!str 10.0.0.0/16}")), [json!({ "cidr": "10.0.0.0/16" })]);
}

#[test]
fn an_unknown_field_is_answered_with_what_was_meant() {
    let known = "known: `strictAffinity`, `maxBlocksPerHost`, `kubeVirtVMAddressPersistence`, `autoAllocateBlocks`, `ipCooldownSeconds`";
    for (field, meant) in [
        ("strict_affinity", "; did you mean `strictAffinity`?"),
        ("maxBlockPerHost", "; did you mean `maxBlocksPerHost`?"),
        ("gateway", ""),
    ] {
        assert_eq!(
            faults(&configuration(&format!("\n  {field}: true"))),
            [format!(
                "f.yaml:5:3: IPAMConfiguration `default`: `spec.{field}` is no field of IPAMConfiguration{meant} ({known})"
            )]
        );
    }
}

#[test]
fn options_accept_exactly_what_the_reference_says() {
    for good in [
        "{}",
        "{strictAffinity: false, maxBlocksPerHost: 4, kubeVirtVMAddressPersistence: Disabled}",
        "{maxBlocksPerHost: 0}",
        "{maxBlocksPerHost: 2147483647}",
        "{kubeVirtVMAddressPersistence: Enabled, ipCooldownSeconds: 1200}",
        "{strictAffinity: true, autoAllocateBlocks: false}",
        "{strictAffinity: null}",
        "",
    ] {
        assert_eq!(specs(&configuration(good)).len(), 1, "{good}");
    }
    let number = "expected a whole number from 0 to 2147483647";
    for (bad, told) in [
        ("{maxBlocksPerHost: 2147483648}", format!("`spec.maxBlocksPerHost` is 2147483648; {number}")),
        ("{maxBlocksPerHost: -1}", format!("`spec.maxBlocksPerHost` is -1; {number}")),
        ("{maxBlocksPerHost: 1.5}", format!("`spec.maxBlocksPerHost` is 1.5; {number}")),
        (
            "{maxBlocksPerHost: \"4\"}",
            format!("`spec.maxBlocksPerHost` is the text \"4\"; {number}, without quotes"),
        ),
        (
            "{strictAffinity: \"true\"}",
            "`spec.strictAffinity` is the text \"true\"; expected true or false, without quotes".into(),
        ),
        ("{strictAffinity: 1}", "`spec.strictAffinity` is 1; expected true or false".into()),
        (
            "{kubeVirtVMAddressPersistence: enabled}",
            "`spec.kubeVirtVMAddressPersistence` is the text \"enabled\"; expected `Enabled` or `Disabled`"
                .into(),
        ),
        (
            "{ipCooldownSeconds: 1201}",
            "`spec.ipCooldownSeconds` is 1201; expected a whole number from 0 to 1200".into(),
        ),
        (
            "{autoAllocateBlocks: false}",
            "`spec.autoAllocateBlocks` is false, which needs `spec.strictAffinity` to be true".into(),
        ),
        ("[]", "`spec` is a list; expected an object".into()),
    ] {
        let found = faults(&configuration(bad));
        assert!(
            found.len() == 1 && found[0].ends_with(&format!("IPAMConfiguration `default`: {told}")),
            "{bad}: {found:?}"
        );
    }
    assert_eq!(
        faults(&configuration("{}").replace("name: default", "name: other")),
        [
            "f.yaml:3:12: IPAMConfiguration `other`: `metadata.name` is `other`; the only IPAMConfiguration is `default`"
        ]
    );
}

#[test]
fn a_number_beyond_all_bounds_is_no_crash() {
    for huge in
        ["99999999999999999999", "-99999999999999999999", "1e400", "340282366920938463463374607431768211456"]
    {
        for text in [
            configuration(&format!("{{maxBlocksPerHost: {huge}}}")),
            format!(
                r#"{{"apiVersion":"projectcalico.org/v3","kind":"IPAMConfiguration","metadata":{{"name":"default"}},"spec":{{"maxBlocksPerHost":{huge}}}}}"#
            ),
        ] {
            assert_eq!(faults(&text).len(), 1, "{text}");
        }
    }
}

#[test]
fn the_rules_of_a_pool_hold() {
    for good in [
        "{cidr: 10.0.0.0/26}",
        "{cidr: 10.0.0.0/28, blockSize: 28}",
        "{cidr: 10.0.0.0/28, disabled: true}",
        "{cidr: 'fd00::/122', blockSize: 0}",
        "{cidr: 10.0.0.0/16, ipipMode: CrossSubnet, vxlanMode: Never, natOutgoing: true}",
        "{cidr: 10.0.0.0/16, allowedUses: [LoadBalancer], nodeSelector: all()}",
        "{cidr: 10.0.0.0/16, namespaceSelector: has(team)}",
        "{cidr: 10.0.0.0/16, nodeSelector: zone == 'x' && !has(spare)}",
    ] {
        assert_eq!(specs(&pool(good)).len(), 1, "{good}");
    }
    for (bad, told) in [
        ("{}", "`spec.cidr` is missing"),
        (
            "{cidr: 10.0.0.5/16}",
            "`spec.cidr` is the text \"10.0.0.5/16\"; expected a network without host bits: `10.0.0.0/16`, or `10.0.0.5/32` for the one address",
        ),
        (
            "{cidr: 010.0.0.0/8}",
            "`spec.cidr` is the text \"010.0.0.0/8\"; expected a CIDR such as \"10.0.0.0/16\"",
        ),
        (
            "{cidr: 10.0.0.0/16, blockSize: 19}",
            "`spec.blockSize` is 19; expected 20 to 32 for IPv4, or 0 for the default",
        ),
        (
            "{cidr: 10.0.0.0/16, blockSize: 122}",
            "`spec.blockSize` is 122; expected 20 to 32 for IPv4, or 0 for the default",
        ),
        (
            "{cidr: 'fd00::/64', blockSize: 26}",
            "`spec.blockSize` is 26; expected 116 to 128 for IPv6, or 0 for the default",
        ),
        (
            "{cidr: 10.0.0.0/28}",
            "`spec.blockSize` is not given, and the default 26: such a block is larger than the pool 10.0.0.0/28; expected 28 or more",
        ),
        (
            "{cidr: 169.254.8.0/24}",
            "`spec.cidr` is 169.254.8.0/24, which overlaps the link-local range 169.254.0.0/16",
        ),
        ("{cidr: 'fe80::/64'}", "`spec.cidr` is fe80::/64, which overlaps the link-local range fe80::/10"),
        (
            "{cidr: 10.0.0.0/16, ipipMode: Always, vxlanMode: CrossSubnet}",
            "`spec.vxlanMode` is on, and so is `spec.ipipMode`; expected `Never` for one of them",
        ),
        (
            "{cidr: 'fd00::/64', ipipMode: Always}",
            "`spec.ipipMode` is on; IP in IP does not carry IPv6: expected `Never`",
        ),
        (
            "{cidr: 10.0.0.0/16, ipipMode: always}",
            "`spec.ipipMode` is the text \"always\"; expected `Never`, `Always` or `CrossSubnet`",
        ),
        (
            "{cidr: 10.0.0.0/16, allowedUses: [LoadBalancer, Workload]}",
            "`spec.allowedUses` has `LoadBalancer` beside other uses; expected it alone",
        ),
        (
            "{cidr: 10.0.0.0/16, allowedUses: [LoadBalancer], nodeSelector: has(x)}",
            "`spec.nodeSelector` is `has(x)`; a pool for `LoadBalancer` needs `all()`",
        ),
        (
            "{cidr: 10.0.0.0/16, allowedUses: [Workload, Workload]}",
            "`spec.allowedUses[1]` is the text \"Workload\" again",
        ),
        (
            "{cidr: 10.0.0.0/16, allowedUses: [Tunnel], namespaceSelector: has(x)}",
            "`spec.namespaceSelector` is given, but the pool serves tunnels, which are in no namespace: take `Tunnel` out of `spec.allowedUses`",
        ),
        (
            "{cidr: 10.0.0.0/16, nodeSelector: global()}",
            "`spec.nodeSelector` has `global()`, which a pool may not",
        ),
    ] {
        let found = faults(&pool(bad));
        assert!(found.len() == 1 && found[0].ends_with(&format!("IPPool `p`: {told}")), "{bad}: {found:?}");
    }
    assert!(
        faults(&pool("{cidr: 10.0.0.0/16, nodeSelector: zone ==}"))[0]
            .contains("`spec.nodeSelector` does not parse")
    );
}

#[test]
fn the_rules_of_a_reservation_hold() {
    let reservation =
        |entries: &str| pool(&format!("{{reservedCIDRs: {entries}}}")).replace("IPPool", "IPReservation");
    assert_eq!(specs(&reservation("[10.0.0.0/30, 10.0.0.9, 'fd00::1']")).len(), 1);
    for (bad, told) in [
        (
            "[10.0.0.9, 10.0.0.9/32]",
            "`spec.reservedCIDRs[1]` is `10.0.0.9/32`, as is `spec.reservedCIDRs[0]`",
        ),
        (
            "[10.0.0.300]",
            "`spec.reservedCIDRs[0]` is the text \"10.0.0.300\"; expected a CIDR such as \"10.0.0.0/16\"",
        ),
        ("10.0.0.1", "`spec.reservedCIDRs` is the text \"10.0.0.1\"; expected a list"),
    ] {
        let found = faults(&reservation(bad));
        assert!(found.len() == 1 && found[0].ends_with(told), "{bad}: {found:?}");
    }
}

#[test]
fn what_is_no_resource_is_said_with_its_place() {
    for (text, told) in [
        ("a: b: c\n", "f.yaml:1:"),
        ("kind: IPPool\n", "f.yaml:1:1: `apiVersion` is missing"),
        (
            "\n\napiVersion: apps/v1\nkind: Deployment\n",
            "f.yaml:3:13: `apiVersion` is `apps/v1`; expected `projectcalico.org/v3`",
        ),
        (
            "apiVersion: projectcalico.org/v3\nkind: Pool\n",
            "f.yaml:2:7: `kind` is `Pool`; expected one of `IPAMConfiguration`, `IPPool`, `IPReservation`, `Node`",
        ),
        (
            "apiVersion: projectcalico.org/v3\nkind: IPAMBlock\nmetadata: {name: x}\n",
            "f.yaml:2:7: IPAMBlock is read-only: it is made by assigning addresses",
        ),
        (
            "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata: {}\nspec: {cidr: 10.0.0.0/16}\n",
            "f.yaml:3:1: `metadata.name` is missing",
        ),
        ("- 5\n", "f.yaml:1:3: is no resource"),
        ("{\"a\": 1, \"a\": 2}", "f.yaml:1:10: `a` is given twice"),
        ("a: 1\na: 2\n", "f.yaml:2:1: is not valid YAML"),
        ("{\"a\": }", "f.yaml:1:"),
    ] {
        let found = faults(text);
        assert!(found.len() == 1 && found[0].starts_with(told), "{text}: {found:?}");
    }
    let one = pool("{cidr: 10.0.0.0/16}");
    assert_eq!(
        faults(&format!("{one}---\n{one}")),
        ["f.yaml:6:1: IPPool `p`: is given twice: first at f.yaml:1:1"]
    );
}

#[test]
fn calicos_first_names_are_understood() {
    let old = "apiVersion: crd.projectcalico.org/v1\nkind: IPAMConfig\nmetadata: {name: default}\nspec: {strictAffinity: true}\n";
    let read = read("f.yaml", old).expect(old);
    assert_eq!(
        (&read[0]["apiVersion"], &read[0]["kind"]),
        (&json!("projectcalico.org/v3"), &json!("IPAMConfiguration"))
    );
}

#[test]
fn namespaces_and_names_that_cannot_be_are_refused() {
    let told = faults(&pool("{cidr: 10.0.0.0/16}").replace("{name: p}", "{name: P_1, namespace: prod}"));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("expected lower-case letters"), "{told:?}");
    assert!(told[1].contains("IPPool is not namespaced"), "{told:?}");
}

#[test]
fn what_is_printed_as_yaml_reads_back_the_same() {
    let texts = [
        "!all()",
        "!has(x) && y == \"z\"",
        "no",
        "y",
        "on",
        "true",
        "null",
        "~",
        "",
        " lead",
        "trail ",
        "1e3",
        "0x10",
        "0o17",
        "007",
        "1_000",
        ".inf",
        ".nan",
        "=",
        "<<",
        "fd00::/64",
        "::",
        "::/0",
        "a: b",
        "a #b",
        "# x",
        "- x",
        "?",
        "'",
        "\"",
        "\\",
        "multi\nline",
        "multi\nline\n",
        "tab\t",
        "\u{7}",
        "2026-11-30",
        "2026-11-30T00:00:00Z",
        "12:30:00",
        "{}",
        "[]",
        "{a",
        "@x",
        "`x`",
        "%x",
        "&a",
        "*a",
        "|",
        ">",
        ",",
        "é☃",
        "---",
        "...",
        "k8s.io/a",
        "+5",
        "-",
        "5",
    ];
    let value = json!({
        "texts": texts.as_slice(),
        "keys": texts.iter().map(|text| ((*text).to_owned(), Value::from(1))).collect::<serde_json::Map<_, _>>(),
        "numbers": [0, -1, 1_796_023_342_654_822_734_u64, u64::MAX, 1.5],
        "others": [true, false, null, {}, [], { "a": [] }, [[1], { "b": { "c": null } }]],
    });
    let text = crate::cli::render::yaml(&value);
    let documents =
        parse::documents(&text, false).unwrap_or_else(|(at, reason)| panic!("{at:?}: {reason}\n{text}"));
    let read: Vec<Value> = documents.iter().map(Node::value).collect();
    assert_eq!(read, [value], "{text}");
}

#[test]
fn json_is_read_in_time_linear_in_its_length() {
    // Work that grows with the square of these lengths would not end.
    let list = format!("[{}1]", "1,".repeat(1_000_000));
    assert_eq!(value(&list).expect("a list").as_array().map(Vec::len), Some(1_000_001));
    let members: Vec<_> = (0..300_000).map(|n| format!(r#""{n}":{n}"#)).collect();
    let text = format!("{{{}}}", members.join(","));
    assert_eq!(value(&text).expect("an object").as_object().map(serde_json::Map::len), Some(300_000));
    let twice = format!("{{\n {}, \"299999\":1}}", members.join(",\n "));
    let found = read("f.json", &twice).expect_err("refused");
    assert_eq!(found, [r"f.json:300001:19: `299999` is given twice"]);
}

#[test]
fn deep_and_doubling_documents_are_refused() {
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    value(&deep(60)).expect("read");
    for depth in [129, 10_000, 1_000_000] {
        let found = read("f.json", &deep(depth)).expect_err("refused");
        assert!(found[0].starts_with("f.json:1:129: nests deeper than 128 levels"), "{found:?}");
        let found = read("f.yaml", &format!("a: {}", deep(depth))).expect_err("refused");
        assert!(found[0].contains("is not valid YAML"), "{found:?}");
    }
    let double = |n: usize| format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1);
    let doubling: String =
        std::iter::once("a0: &a0 [1, 1]\n".to_owned()).chain((1..=40).map(double)).collect();
    let found = read("f.yaml", &doubling).expect_err("refused");
    assert!(found[0].contains("is not valid YAML"), "{found:?}");
}
