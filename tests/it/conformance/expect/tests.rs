use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use serde_json::json;

use super::super::placeholder::tests::{context, profiles};
use super::*;

/// A plugin that ended with this exit status after having printed this.
fn outcome(exit: i32, stdout: &str) -> Outcome {
    Outcome {
        status: ExitStatus::from_raw(exit << 8),
        stdout: stdout.as_bytes().to_vec(),
        stderr: Vec::new(),
        elapsed: Duration::from_millis(10),
        killed: false,
    }
}

fn checked(outcome: &Outcome, step: Value) -> Result<Option<Value>, Stop> {
    let profiles = profiles();
    let step = serde_json::from_value(step).expect("a step");
    check(outcome, &step, &context(&profiles), 0)
}

#[track_caller]
fn passes(outcome: &Outcome, step: Value) {
    assert_eq!(checked(outcome, step).map(drop), Ok(()));
}

#[track_caller]
fn fails(outcome: &Outcome, step: Value, because: &str) {
    match checked(outcome, step) {
        Err(Stop::Fail(why)) => assert!(why.contains(because), "{why}"),
        other => panic!("{other:?}"),
    }
}

fn add(expect: Value) -> Value {
    let mut step = json!({"command": "ADD"});
    step["expect"] = expect;
    step
}

fn result(address: &str) -> Outcome {
    outcome(0, &json!({"ips": [{"address": address}]}).to_string())
}

const ERROR: &str = r#"{"code": 7, "msg": "bad `subnet`", "details": "é"}"#;

#[test]
fn a_signal_or_a_panic_fails_whatever_the_case_expects() {
    let any = || json!({"expect": {"exit": "any"}});
    let signal = Outcome { status: ExitStatus::from_raw(11), ..outcome(0, "") };
    fails(&signal, any(), "died of signal 11");
    for text in
        ["thread 'main' panicked at src/main.rs", "x\npanic: oh", "goroutine 1 [running]", "stack overflow"]
    {
        let stderr = text.as_bytes().to_vec();
        fails(&Outcome { stderr, ..outcome(1, ERROR) }, any(), "panicked");
        fails(&outcome(1, text), any(), "panicked");
    }
    passes(&Outcome { stderr: b"dont panic: no".to_vec(), ..outcome(1, ERROR) }, any());
    passes(&Outcome { killed: true, ..signal }, any());
}

#[test]
fn stdout_is_empty_or_one_document() {
    for text in ["{", "{} {}", "result: {}", "\u{feff}{}", "{}\n}"] {
        fails(&outcome(0, text), json!({}), "not exactly one JSON document");
    }
    fails(
        &Outcome { stdout: vec![b'"', 0xff, b'"'], ..outcome(0, "") },
        json!({}),
        "not exactly one JSON document",
    );
    for text in ["", " \n", "{}\n", "[1]"] {
        passes(&outcome(0, text), json!({}));
    }
}

#[test]
fn the_exit_status_is_the_expected_one() {
    passes(&outcome(0, ""), json!({}));
    fails(&outcome(1, ERROR), json!({}), "exit 1, want 0");
    fails(&outcome(0, ""), json!({"expect": {"exit": "nonzero"}}), "exit 0, want an error");
    fails(&outcome(0, ""), json!({"expect": {"exit": 1}}), "exit 0, want 1");
    passes(&outcome(3, ERROR), json!({"expect": {"exit": "nonzero"}}));
    passes(&outcome(3, ERROR), json!({"expect": {"exit": "any"}}));
}

#[test]
fn a_failing_call_prints_an_error_object() {
    for text in [
        "",
        "{}",
        "[]",
        r#"{"code": "7", "msg": "m"}"#,
        r#"{"code": 7, "msg": ""}"#,
        r#"{"code": 7.5, "msg": "m"}"#,
    ] {
        fails(&outcome(1, text), json!({"expect": {"exit": "any"}}), "no error object");
        passes(&outcome(1, text), json!({"expect": {"exit": "any", "error_json": false}}));
    }
    fails(&outcome(0, ERROR), json!({}), "exit 0 with an error object");
}

#[test]
fn only_add_and_version_print_on_success() {
    for command in ["DEL", "CHECK", "GC", "STATUS"] {
        fails(&outcome(0, "{}"), json!({"command": command}), "must print nothing on success");
        passes(&outcome(0, "\n"), json!({"command": command}));
    }
    passes(&outcome(0, "{}"), json!({"command": "VERSION"}));
    for text in ["", "[]", "null"] {
        fails(&outcome(0, text), add(json!({})), "without a result object");
    }
}

#[test]
fn an_ipam_result_has_addresses_with_prefix_lengths_and_no_interfaces() {
    for (text, because) in [
        (r#"{"interfaces": [{"name": "eth0"}]}"#, "must not carry interfaces"),
        (r#"{"ips": [{"address": "10.0.0.2/24", "interface": 0}]}"#, "`ips[].interface`"),
        (r#"{"ips": [{"address": "10.0.0.2"}]}"#, "without a prefix length"),
        (r#"{"ips": [{"address": "10.0.0/24"}]}"#, "not an address"),
        (r#"{"ips": [{"address": "10.0.0.0/24"}]}"#, "is the network address"),
        (r#"{"ip4": {"ip": "10.0.0.0/24"}}"#, "is the network address"),
    ] {
        fails(&outcome(0, text), add(json!({})), because);
    }
    passes(&outcome(0, r#"{"interfaces": [], "ips": [{"address": "10.0.0.0/31"}]}"#), add(json!({})));
}

#[test]
fn the_error_has_an_expected_code() {
    let failing = |expect: Value| {
        let mut step = json!({"expect": {"exit": "any"}});
        step["expect"]
            .as_object_mut()
            .expect("an object")
            .extend(expect.as_object().expect("an object").clone());
        step
    };
    passes(&outcome(1, ERROR), failing(json!({"error_code": [4, 7]})));
    passes(&outcome(1, ERROR), failing(json!({"if_error_code": ["5-7"]})));
    fails(
        &outcome(1, ERROR),
        failing(json!({"error_code": [4, "100-999"]})),
        "error code 7, want 4, 100-999",
    );
    fails(&outcome(1, ERROR), failing(json!({"if_error_code": [6]})), "error code");
    fails(&outcome(0, ""), failing(json!({"error_code": [7]})), "error code null, want 7");
    passes(&outcome(0, ""), failing(json!({"if_error_code": [7]})));
}

#[test]
fn the_error_text_is_searched_as_ascii_json() {
    let failing = |key: &str, word: &str| json!({"expect": {"exit": 1, key: [word]}});
    passes(&outcome(1, ERROR), failing("error_text_contains", "subnet"));
    passes(&outcome(1, ERROR), failing("error_text_contains", "\\u00e9"));
    fails(&outcome(1, ERROR), failing("error_text_contains", "gateway"), "does not name `gateway`");
    fails(&outcome(1, ERROR), failing("error_text_lacks", "subnet"), "contains `subnet`");
    passes(&outcome(1, ERROR), failing("error_text_lacks", "gateway"));
    passes(&outcome(0, r#""subnet""#), json!({"expect": {"error_text_lacks": ["subnet"]}}));
}

#[test]
fn stdout_says_what_is_expected_of_it() {
    fails(&outcome(0, "{}"), json!({"expect": {"stdout_empty": true}}), "stdout not empty");
    passes(&outcome(0, " "), json!({"expect": {"stdout_empty": true}}));
    fails(&result("10.0.0.2/24"), json!({"expect": {"stdout_not_result": true}}), "printed a result");
    passes(&outcome(0, "{}"), json!({"expect": {"stdout_not_result": true}}));
    let wanted = json!({"expect": {"stdout_json_subset": {"a": "@DATADIR@"}}});
    passes(&outcome(0, r#"{"a": "/store"}"#), wanted.clone());
    fails(&outcome(0, r#"{"a": "/other"}"#), wanted.clone(), "$.a: want");
    fails(&outcome(0, ""), wanted, "$: want an object, got null");
}

#[test]
fn addresses_are_those_expected_in_number_value_and_order() {
    let two = outcome(0, r#"{"ips": [{"address": "10.0.0.3/24"}, {"address": "fd00:0::2/64"}]}"#);
    passes(&two, add(json!({"ips_count": 2, "ips": ["10.0.0.3/24", "@IP:a:1@"]})));
    fails(&two, add(json!({"ips_count": 1})), "2 addresses, want 1");
    fails(&two, add(json!({"ips": ["@IP:a:1@", "10.0.0.3/24"]})), "want [");
    fails(&two, add(json!({"ips": ["10.0.0.3/24"]})), "want [");
    fails(&two, add(json!({"ips_not": ["10.0.0.3"]})), "must not be handed out");
    passes(&two, add(json!({"ips_not": ["@ADDR:a:0@"]})));
    passes(&two, add(json!({"distinct_from": []})));
    fails(&result("10.0.0.2/24"), add(json!({"distinct_from": ["a"]})), "handed out twice");
    fails(&two, add(json!({"distinct_from": ["nobody"]})), "no earlier step saved");
    passes(&result("10.0.0.3/24"), add(json!({"distinct_from": ["a"]})));
}

#[test]
fn addresses_lie_in_the_subnet_with_its_prefix_length() {
    let expect = || add(json!({"ips_in": ["10.0.0.0/24", "fd00::/64"]}));
    passes(&result("10.0.0.254/24"), expect());
    passes(&result("fd00::ffff:ffff:ffff:ffff/64"), expect());
    fails(&result("10.0.1.2/24"), expect(), "lies in none of");
    fails(&result("10.0.0.255/24"), expect(), "broadcast");
    fails(&result("10.0.0.2/25"), expect(), "prefix length is not the subnet's (24)");
}

#[test]
fn gateways_are_those_expected_address_by_address() {
    let two = outcome(
        0,
        r#"{"ips": [{"address": "10.0.0.3/24", "gateway": "10.0.0.1"}, {"address": "fd00::2/64"}]}"#,
    );
    passes(&two, add(json!({"gateways": ["10.0.0.1", null]})));
    fails(&two, add(json!({"gateways": ["10.0.0.1"]})), "gateways");
    fails(&two, add(json!({"gateways": [null, "10.0.0.1"]})), "gateways");
}

#[test]
fn a_call_that_takes_longer_than_allowed_fails() {
    passes(&outcome(0, ""), json!({"expect": {"max_seconds": 0.01}}));
    fails(&outcome(0, ""), json!({"expect": {"max_seconds": 0.009}}), "at most 9ms allowed");
}

#[test]
fn a_result_is_saved_only_when_all_is_as_expected() {
    let profiles = profiles();
    let context = context(&profiles);
    let mut step: Step = serde_json::from_value(json!({"command": "ADD", "save": "r@I@"})).expect("a step");
    check(&result("10.0.0.9/24"), &step, &context, 5).expect("as expected");
    assert_eq!(context.saved_result("r5"), Ok(json!({"ips": [{"address": "10.0.0.9/24"}]})));
    step.expect.ips_count = Some(2);
    check(&result("10.0.0.9/24"), &step, &context, 6).expect_err("one address, not two");
    assert!(context.saved_result("r6").is_err());
}
