use std::process::{Command, Stdio};

use serde_json::json;

use super::support::{Store, feed, program};

fn run(args: &[&str]) -> super::support::Ran {
    Store::new().ran(feed(program().args(args), ""))
}

#[test]
fn without_arguments_help_comes_on_standard_error_and_all_is_well() {
    let ran = run(&[]);
    ran.exits(0);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("Usage: host-affine"), "{}", ran.err);
}

#[test]
fn help_that_was_asked_for_is_data_and_every_verb_has_an_example() {
    let top =
        ["", "get", "describe", "explain", "apply", "create", "replace", "patch", "delete", "completion"];
    for verb in top.map(str::to_owned).into_iter().chain(
        ["show", "configure", "check", "release", "gc", "why", "split", "metrics"]
            .map(|verb| format!("ipam {verb}")),
    ) {
        let ran = run(&verb.split_whitespace().chain(["--help"]).collect::<Vec<_>>());
        ran.exits(0);
        assert_eq!(ran.err, "", "{verb:?}");
        assert!(ran.out.contains("Examples:\n  host-affine "), "{verb:?}: {}", ran.out);
    }
}

#[test]
fn a_command_line_that_is_not_understood_is_no_answer() {
    for args in [&["frob"][..], &["get"], &["ipam"], &["ipam", "show", "--frob"], &["-o", "json"]] {
        let ran = run(args);
        ran.exits(2);
        assert_eq!(ran.out, "", "{args:?}");
        assert!(ran.err.starts_with("error: ") || ran.err.contains("Usage:"), "{args:?}: {}", ran.err);
    }
    run(&["get", "ippools", "-o", "xml"])
        .says(2, "error: `--output` is `xml`; expected `table`, `wide`, `json`, `yaml` or `name`\n");
}

#[test]
fn options_of_every_verb_stand_before_or_after_it() {
    let store = Store::new();
    store.add("a", &store.network("n1", &json!([{ "cidr": "10.88.0.0/24", "name": "p" }])));
    let name = "ippool.projectcalico.org/p\n";
    store.run(&["-o", "name", "get", "pools"]).prints(0, name);
    store.run(&["get", "-o=name", "pools"]).prints(0, name);
    store.run(&["get", "pools", "--output", "name"]).prints(0, name);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let store = Store::new();
    store.add("a", &store.network("n1", &json!([{ "cidr": "10.88.0.0/24" }])));
    let script = format!(
        "{{ \"{}\" --datastore \"file://{}\" get ippools; echo \"status $?\" >&2; }} | true",
        env!("CARGO_BIN_EXE_host-affine"),
        store.path().display()
    );
    let output = Command::new("sh").arg("-c").arg(script).stdin(Stdio::null()).output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "status 0\n");
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let store = Store::new();
    let mut command = program();
    command.arg("--datastore").arg(format!("file://{}", store.path().display()));
    let output =
        command.args(["ipam", "show"]).stdout(full).stderr(Stdio::piped()).output().expect("its end");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).starts_with("error: could not write to standard output: "),
        "{output:?}"
    );
}
