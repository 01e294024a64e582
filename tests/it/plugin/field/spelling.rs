//! Addresses are numbers, of which each counts, however they are written.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::json;

use super::{Field, asking, exits, shows};
use crate::support::cni::{Answer, Network};

fn six(field: &Field) -> Network {
    field.on("n1").with("assign_ipv4", "false").with("assign_ipv6", "true")
}

/// F20.
#[test]
fn a_pool_that_begins_with_zero_bytes_is_like_any_other() {
    let field = Field::new();
    let pools =
        [("z1", "ab::/96", "00ab::/96"), ("z2", "::7:0/112", "::7:0/112"), ("z3", "::/120", "::/120")];
    for (number, (name, canonical, written)) in pools.iter().enumerate() {
        field.pool(name, written, 124);
        let id = format!("g{number}");
        let result = six(&field).with("ipv6_pools", json!([name])).call("ADD", &id).run().result();
        let text = result["ips"][0]["address"].as_str().expect("text");
        let (address, _) = text.split_once("/128").expect("a length");
        let parsed: IpAddr = address.parse().expect(text);
        assert_eq!(parsed.to_string(), address, "canonical text");
        let range: host_affine::net::Cidr = canonical.parse().expect(canonical);
        assert!(range.contains_address(parsed), "{address} is not in {canonical}");
        shows(&field.cli(&["ipam", "show", "--show-blocks"]), &[&format!("| {canonical} ")]);
        exits(field.cli(&["ipam", "show", "--ip", address]), 0);
    }
    for number in 0..pools.len() {
        six(&field).del(&format!("g{number}")).succeeded();
    }
    assert_eq!(field.count(), (0, 0));
}

/// F21.
#[test]
fn an_address_is_asked_for_found_and_released_in_any_spelling() {
    let field = Field::new();
    field.pool("p6", "fd67:7::/120", 122);
    let ask = |id: &str, text: &str| asking(six(&field).call("ADD", id), id, &format!(";IP={text}")).run();
    let result = ask("g3", "FD67:0007:0:0:0:0:0:0005").result();
    assert_eq!(result["ips"][0]["address"], "fd67:7::5/128");
    for spelling in ["fd67:7::5", "FD67:7:0::5", "fd67:0007:0000:0000:0000:0000:0000:0005", "fd67:7::0.0.0.5"]
    {
        shows(&exits(field.cli(&["ipam", "show", "--ip", spelling]), 0), &["IP fd67:7::5 is in use"]);
        assert_eq!(ask("g4", spelling).refused().code, 107, "{spelling}");
    }
    field.cli(&["ipam", "release", "--ip", "fd67:0007::0005", "--force", "--yes"]).succeeded();
    exits(field.cli(&["ipam", "show", "--ip", "fd67:7::5"]), 1);
    // What only looks like an address, and who could mean two, is refused and not guessed at.
    for text in ["10.67.0.010", "10.67.5", "fd67:7::5%eth0", "fd67:7:::5", "0x0a.0.0.1"] {
        let refusal = ask("g5", text).refused();
        assert!([4, 7].contains(&refusal.code), "{text}: {refusal:?}");
        refusal.says(&[text]);
    }
    assert_eq!(field.count(), (0, 0));
}

/// F22: in routed addressing a pool is a set of addresses and no subnet.
#[test]
fn blocks_of_one_and_two_addresses_give_every_one_of_them_once() {
    for (cidr, size) in
        [("10.67.0.0/30", 32), ("10.67.0.8/30", 31), ("fd67:1::/126", 128), ("fd67:2::/126", 127)]
    {
        let field = Field::new();
        field.pool("p", cidr, size);
        let is_v4 = cidr.contains('.');
        let network = if is_v4 { field.on("n1") } else { six(&field) };
        let answers: Vec<Answer> = (1..=4).map(|n| network.add(&format!("a{n}"))).collect();
        let length = if is_v4 { "/32" } else { "/128" };
        assert!(answers.iter().all(|answer| answer.stdout.contains(length)), "{answers:?}");
        let given: BTreeSet<IpAddr> = answers.into_iter().map(Answer::address).collect();
        let range: host_affine::net::Cidr = cidr.parse().expect(cidr);
        let all: BTreeSet<IpAddr> = (0..4).filter_map(|n| range.nth(n)).collect();
        assert_eq!(given, all, "{cidr}");
        assert_eq!(network.add("a5").refused().code, 101);
        field.view();
    }
}
