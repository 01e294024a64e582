//! Addresses that never come back.

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{io::Write as _, thread};

use serde_json::json;

use super::Field;
use crate::support::cni::plugin;

/// F01.
#[test]
fn whatever_an_add_that_is_killed_left_the_runtimes_del_takes_back() {
    let field = Field::new();
    field.pool("p1", "10.61.0.0/28", 28);
    let conf = field.on("n1").conf.to_string();
    let mut killed = 0;
    for n in 0..200_u64 {
        let mut child = Command::new(plugin())
            .env_clear()
            .envs([("CNI_COMMAND", "ADD"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/"), ("CNI_NETNS", "/x")])
            .env("CNI_CONTAINERID", format!("k{n}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        child.stdin.take().expect("piped").write_all(conf.as_bytes()).expect("a pipe holds it");
        // Wherever it is by then; `plugin::kill` tries every place in turn.
        thread::sleep(Duration::from_micros(n * 40));
        child.kill().expect("a child can be killed");
        killed += usize::from(!child.wait().expect("its end").success());
        field.del(&format!("k{n}"), "n1");
    }
    assert!(killed > 0, "nothing was killed");
    assert_eq!(field.count(), (0, 0));
    field.add("fresh", "n1").succeeded();
}

/// F02: the attachment alone says what is to be released.
#[test]
fn a_del_needs_no_namespace_no_result_and_not_even_the_path_of_plugins() {
    let field = Field::new();
    field.pool("p1", "10.61.1.0/28", 28);
    let network = field.on("n1");
    for id in ["c1", "c2", "c3", "c4"] {
        field.add(id, "n1").succeeded();
    }
    network.del("c1").succeeded();
    let gone = network.call("DEL", "c2").variable("CNI_NETNS", "/var/run/netns/never-existed");
    assert_eq!(gone.run().succeeded().stdout, "");
    assert_eq!(field.count(), (2, 2));
    network.del("c1").succeeded();
    // Its siblings: a result of another attachment, a pool that is gone, arguments that ADD would refuse.
    let odd = network.call("DEL", "c3").previous(&json!({ "cniVersion": "1.0.0", "ips": [] }));
    odd.variable("CNI_ARGS", "IP=nonsense;UNKNOWN=1").run().succeeded();
    network.with("ipv4_pools", json!(["no-such-pool"])).del("c4").succeeded();
    assert_eq!(field.count(), (0, 0));
}

/// F03: an ADD gives all that was asked for, or nothing.
#[test]
fn the_family_that_is_short_is_named_and_nothing_of_the_other_stays_taken() {
    for (v4, v6, short) in [
        (("10.61.2.0/28", 28), ("fd61:2::/127", 127), "IPv6"),
        (("10.61.2.0/31", 31), ("fd61:2::/124", 124), "IPv4"),
    ] {
        let field = Field::new();
        field.pool("p4", v4.0, v4.1);
        field.pool("p6", v6.0, v6.1);
        field.add_both("a1", "n1").succeeded();
        field.add_both("a2", "n1").succeeded();
        for n in 3..=12 {
            let refusal = field.add_both(&format!("a{n}"), "n1").refused();
            assert_eq!(refusal.code, 101);
            refusal.says(&[short]);
        }
        assert_eq!(field.count(), (4, 2), "{short}");
        let by_family = |is_v4: bool| field.view().held.keys().filter(|a| a.is_ipv4() == is_v4).count();
        assert_eq!((by_family(true), by_family(false)), (2, 2));
    }
}
