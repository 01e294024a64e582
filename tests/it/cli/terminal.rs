//! What a person at a terminal sees, and a program does not.

use std::process::Command;

use serde_json::json;

use super::support::{Ran, Store, feed};
use crate::support::cni::{program, skip};

/// The command line on a terminal of its own, with what is typed there. `None`: none can be made here.
fn at_terminal(store: &Store, variables: &[(&str, &str)], args: &str, typed: &str) -> Option<Ran> {
    let script = program("script")?;
    let typed_in =
        format!("{} --datastore file://{} {args}", env!("CARGO_BIN_EXE_host-affine"), store.path().display());
    let mut command = Command::new(script);
    command.env_clear().env("TERM", "xterm").envs(variables.iter().copied());
    command.args(["-qec", &typed_in, "/dev/null"]);
    let mut ran = store.ran(feed(&mut command, typed));
    ran.out = ran.out.replace("\r\n", "\n");
    Some(ran)
}

fn with_pool() -> Store {
    let store = Store::new();
    store.apply("IPPool", "old", &json!({ "cidr": "10.88.0.0/28", "blockSize": 29 })).exits(0);
    store
}

#[test]
fn who_is_asked_before_something_is_destroyed_can_say_no() {
    let store = with_pool();
    let Some(refused) = at_terminal(&store, &[], "delete ippool old", "n\n") else {
        return skip("`script` is not installed");
    };
    refused.exits(2);
    for part in [
        "This deletes IPPool `old`.\nGo on? [y/N] ",
        "error: nothing was done\nhint: answer `y`, or use `--yes`\n",
    ] {
        assert!(refused.out.contains(part), "{part}: {refused:?}");
    }
    store.run(&["get", "ippool", "old"]).exits(0);
    let network = store.network("n1", &json!([]));
    let address = store.add("a", &network)["ips"][0]["address"].as_str().expect("text").replace("/32", "");
    let of = |verb: &str| verb.replace("ADDRESS", &address);
    for verb in [
        "ipam release --ip=ADDRESS",
        "ipam release --handle=net.a",
        "ipam split 2 --pool=old",
        "ipam check --repair",
    ] {
        let refused = at_terminal(&store, &[], &of(verb), "\n").expect("it could be made just now");
        refused.exits(2);
        assert!(refused.out.contains("Go on? [y/N] "), "{verb}: {refused:?}");
    }
    store.run(&["ipam", "show", "--ip", &address]).exits(0);
    // What changes nothing is not asked about.
    for verb in [
        "ipam release --ip=ADDRESS --dry-run",
        "ipam gc --dry-run",
        "ipam show",
        "ipam release --ip=ADDRESS --yes",
    ] {
        let told = at_terminal(&store, &[], &of(verb), "").expect("it could be made just now");
        told.exits(0);
        assert!(!told.out.contains("Go on?"), "{verb}: {told:?}");
    }
    let done = at_terminal(&store, &[], "delete ippool old", "y\n").expect("it could be made just now");
    done.exits(0);
    assert!(done.out.contains("ippool.projectcalico.org/old deleted\n"), "{done:?}");
    store.run(&["get", "ippool", "old"]).exits(1);
}

#[test]
fn colour_is_for_terminals_alone_and_never_where_it_is_forbidden() {
    let store = with_pool();
    store.add("a", &store.network("n1", &json!([])));
    let map = |variables: &[(&str, &str)]| at_terminal(&store, variables, "ipam map", "");
    let Some(coloured) = map(&[]) else { return skip("`script` is not installed") };
    assert!(coloured.out.contains("\u{1b}[48;5;"), "{coloured:?}");
    let piped = store.run(&["ipam", "map"]);
    for plain in [&map(&[("NO_COLOR", "1")]), &map(&[("TERM", "dumb")])] {
        let plain = plain.as_ref().expect("it could be made just now");
        assert_eq!(plain.out.trim_start_matches("^D\u{8}\u{8}"), piped.out);
    }
    // Without colour, nothing is lost but the colour.
    let escapes = regex::Regex::new("\u{1b}\\[[0-9;]*m").expect("a pattern");
    assert_eq!(escapes.replace_all(coloured.out.trim_start_matches("^D\u{8}\u{8}"), ""), piped.out);
}
