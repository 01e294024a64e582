//! What people are told is true, and what they change is what they meant.

use serde_json::json;

use super::{Field, exits, shows};
use crate::support::cni::skip;
use crate::support::netns::Namespace;

/// F39: counts are exact, and what is in use, reserved and free makes up the whole.
#[test]
fn counts_of_a_huge_pool_and_of_a_reserved_one_are_exact() {
    let field = Field::new();
    field.pool("big", "fd73::/48", 122);
    field.pool("sm", "10.73.0.0/26", 29);
    field.add_both("i1", "n1").succeeded();
    field.add("i2", "n1").succeeded();
    field.add("i3", "n1").succeeded();
    // A whole block that the host does not have.
    let own = field.view().blocks.iter().any(|block| block.cidr.to_string() == "10.73.0.8/29");
    let reserved = if own { "10.73.0.16/29" } else { "10.73.0.8/29" };
    field.apply("IPReservation", "r", &json!({ "reservedCIDRs": [reserved] })).succeeded();
    shows(&field.cli(&["ipam", "show"]), &["1208925819614629174706176", "1208925819614629174706175"]);
    let shown: serde_json::Value =
        serde_json::from_str(&field.cli(&["ipam", "show", "-o", "json"]).stdout).expect("JSON");
    let pool = |name: &str| {
        let all = shown["pools"].as_array().expect("pools");
        all.iter().find(|pool| pool["name"] == name).expect("it is shown").clone()
    };
    let (big, small) = (pool("big"), pool("sm"));
    assert_eq!((&big["total"], &big["inUse"]), (&json!("1208925819614629174706176"), &json!(1)));
    let counts = ["total", "inUse", "reserved", "free"].map(|key| small[key].clone());
    assert_eq!(counts, [json!(64), json!(3), json!(8), json!(53)]);
}

/// F40: strictness can be switched off, and the limit stays.
#[test]
fn a_setting_that_is_refused_or_switched_off_leaves_the_others_as_they_were() {
    let field = Field::new();
    field.configure(&["--strictaffinity=true", "--max-blocks-per-host=4"]);
    field.configure(&["--kubevirt-ip-persistence=Disabled"]);
    let shown = |strict: &str| {
        let shown = field.cli(&["ipam", "show", "--show-configuration", "-o", "json"]);
        shows(&shown, &[&format!("\"strictAffinity\": {strict}"), "\"maxBlocksPerHost\": 4", "\"Disabled\""]);
    };
    shown("true");
    field.configure(&["--strictaffinity=false"]);
    shown("false");
    for bad in [&["--max-blocks-per-host=-1"][..], &["--strictaffinity=yes"], &[]] {
        let refused = exits(field.cli(&[&["ipam", "configure"], bad].concat()), 2);
        assert!(!refused.stderr.is_empty());
        shown("false");
    }
}

/// Seen under podman's bridge: the host's own address in its block is in order, and none that a DEL should find.
#[test]
fn the_address_of_the_hosts_own_bridge_is_no_finding() {
    let host = match Namespace::new("own") {
        Ok(host) => host,
        Err(reason) => return skip(&reason),
    };
    host.ip(&["link", "add", "bridge0", "type", "bridge"]);
    host.ip(&["addr", "add", "10.73.9.1/28", "dev", "bridge0"]);
    host.ip(&["link", "set", "bridge0", "up"]);
    let field = Field::new();
    field.pool("p1", "10.73.9.0/28", 28);
    field.on("n1").call("ADD", "c1").under(&host.exec()).run().succeeded();
    shows(&exits(field.cli(&["ipam", "show", "--ip", "10.73.9.1"]), 0), &["hostAddress"]);
    assert_eq!(field.view().held.len(), 1);
    exits(field.cli(&["ipam", "check"]), 0);
    crate::support::store::write_out(&field.on("n1"), &field.lab.store());
    exits(field.cli(&["ipam", "check"]), 0);
    field.cli(&["ipam", "check", "--repair", "--yes"]).succeeded();
    field.view();
}
