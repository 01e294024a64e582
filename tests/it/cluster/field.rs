//! What people who run such plugins on etcd have met: each report, from outside, with the outcome that is right. The other
//! reports are in `plugin::field`.
//!
//! | report | tested as |
//! | --- | --- |
//! | F11 a claim left in "pending" | `a_pending_claim_on_anothers_block_is_no_ownership` |
//! | F15 the first pool is full | `a_pool_that_is_full_costs_the_same_however_many_blocks_it_has` |
//! | F16 free room in a second own block | `room_in_an_own_block_is_used_whatever_its_record_says` |
//! | F33 an answer that was lost | `half_of_what_an_add_writes_is_freed_by_its_del` |
//! | F34 a hundred pods at once on one host | `a_hundred_at_once_on_one_host_are_served_from_two_blocks` |
//! | F35 forty hosts at once | `forty_hosts_claim_their_first_block_at_once` |

use std::collections::BTreeSet;

use host_affine::net::Cidr;
use serde_json::{Value, json};

use super::hosts::{held, is_sound, network, pool, typed};
use crate::support::cni::{Answer, all_different, at_once};
use crate::support::etcd::{Proxy, Server, need_etcd};

const BLOCKS: &str = "/calico/ipam/v2/assignment/ipv4/block/";
const HANDLES: &str = "/calico/ipam/v2/handle/";

fn owner_of(server: &Server, block: &str) -> String {
    let listed = server.list(&format!("{BLOCKS}{block}"));
    let value: Value = serde_json::from_str(&listed[0].1).expect("JSON");
    value["affinity"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_pending_claim_on_anothers_block_is_no_ownership() {
    need_etcd!();
    let server = Server::start();
    let urls = [server.url()];
    pool(&urls, "p1", "10.64.1.0/29", 30);
    let network = network("fieldnet", &urls);
    network.on("n2").add("x1").address();
    let block = server.list(BLOCKS)[0].0.trim_start_matches(BLOCKS).to_owned();
    let claim = format!("/calico/ipam/v2/host/n1/ipv4/block/{block}");
    server.put(&claim, r#"{"state":"pending","deleted":false}"#);
    network.on("n1").add("y1").address();
    assert!(server.list(&claim).iter().all(|(_, value)| value.contains("pending")), "never confirmed");
    assert_eq!(owner_of(&server, &block), "host:n2");
    let owners: BTreeSet<String> = server
        .list(BLOCKS)
        .iter()
        .map(|(key, _)| owner_of(&server, key.trim_start_matches(BLOCKS)))
        .collect();
    assert_eq!(owners, ["host:n1".to_owned(), "host:n2".to_owned()].into());
}

#[test]
fn a_pool_that_is_full_costs_the_same_however_many_blocks_it_has() {
    let mut requests = Vec::new();
    need_etcd!();
    // 8 and 128 blocks.
    for (hosts, range) in [(8, "10.65.64.0/27"), (128, "10.65.64.0/23")] {
        let server = Server::start();
        let urls = [server.url()];
        typed(&urls, &["ipam", "configure", "--strictaffinity=true"], "").succeeded();
        pool(&urls, "one", range, 30);
        let network_of_others = network("fieldnet", &urls);
        for host in 0..hosts {
            network_of_others.on(&format!("n{host}")).add(&format!("z{host}")).address();
        }
        assert_eq!(server.list(BLOCKS).len(), hosts);
        pool(&urls, "two", "10.65.96.0/22", 30);
        let proxy = Proxy::before(server.address());
        let given = network("fieldnet", &[proxy.url()]).on("nnew").add("znew").address();
        let two: Cidr = "10.65.96.0/22".parse().expect("a range");
        assert!(two.contains_address(given), "{given}");
        requests.push(proxy.passed().len());
    }
    assert_eq!(requests[0], requests[1], "with 8 full blocks and with 128");
    assert!(requests[1] <= 5, "{requests:?}");
}

#[test]
fn a_hundred_at_once_on_one_host_are_served_from_two_blocks() {
    need_etcd!();
    let server = Server::start();
    let urls = [server.url()];
    pool(&urls, "p1", "10.71.64.0/18", 26);
    let network = network("fieldnet", &urls).on("n1");
    let calls = |verb: &str| (0..100).map(|n| network.call(verb, &format!("u{n}"))).collect::<Vec<_>>();
    let addresses = at_once(&calls("ADD")).into_iter().map(Answer::address);
    assert_eq!(all_different(addresses).len(), 100);
    assert_eq!((server.list(BLOCKS).len(), held(&urls).len()), (2, 100));
    for answer in at_once(&calls("DEL")) {
        answer.succeeded();
    }
    assert_eq!((held(&urls), server.list(HANDLES)), (vec![], vec![]));
    is_sound(&urls);
}

#[test]
fn room_in_an_own_block_is_used_whatever_its_record_says() {
    need_etcd!();
    let server = Server::start();
    let urls = [server.url()];
    pool(&urls, "p1", "10.65.128.0/26", 30);
    let network = network("fieldnet", &urls).on("n1");
    for number in 1..=5 {
        network.add(&format!("s{number}")).address();
    }
    assert_eq!(server.list(BLOCKS).len(), 2);
    network.del("s1").succeeded();
    network.del("s2").succeeded();
    let records = server.list("/calico/ipam/v2/host/n1/ipv4/block/");
    for (record, stateless) in records.iter().zip(["{}", ""]) {
        server.put(&record.0, stateless);
        for number in 6..=8 {
            network.add(&format!("s{number}")).address();
        }
        assert_eq!((server.list(BLOCKS).len(), held(&urls).len()), (2, 6));
        for number in 6..=8 {
            network.del(&format!("s{number}")).succeeded();
        }
    }
    for number in 6..=10 {
        network.add(&format!("s{number}")).address();
    }
    assert_eq!((server.list(BLOCKS).len(), held(&urls).len()), (2, 8), "all of both blocks");
    is_sound(&urls);
}

#[test]
fn half_of_what_an_add_writes_is_freed_by_its_del() {
    need_etcd!();
    let server = Server::start();
    let urls = [server.url()];
    pool(&urls, "p1", "10.71.0.0/29", 29);
    let network = network("fieldnet", &urls).on("n1");
    // An address whose handle is gone.
    network.add("c1").address();
    server.clear(&format!("{HANDLES}fieldnet.c1"));
    network.del("c1").succeeded();
    assert_eq!(held(&urls), []);
    // A handle that counts an address which was never given.
    server.put(
        &format!("{HANDLES}fieldnet.c2"),
        r#"{"id":"fieldnet.c2","block":{"10.71.0.0/29":1},"deleted":false}"#,
    );
    network.add("c2").address();
    assert_eq!(held(&urls).len(), 1);
    network.del("c2").succeeded();
    assert_eq!((held(&urls), server.list(HANDLES)), (vec![], vec![]));
    // The same, and no ADD.
    server.put(&format!("{HANDLES}fieldnet.c3"), r#"{"block":{"10.71.0.0/29":1},"deleted":false}"#);
    network.del("c3").succeeded();
    assert_eq!(server.list(HANDLES), vec![]);
    is_sound(&urls);
}

#[test]
fn forty_hosts_claim_their_first_block_at_once() {
    need_etcd!();
    let server = Server::start();
    let urls = [server.url()];
    typed(&urls, &["ipam", "configure", "--strictaffinity=true"], "").succeeded();
    pool(&urls, "p1", "10.71.128.0/25", 30);
    pool(&urls, "p2", "10.71.129.0/27", 30);
    let network = network("fieldnet", &urls);
    let calls: Vec<_> =
        (1..=40).map(|host| network.on(&format!("host{host}")).call("ADD", &format!("n{host}"))).collect();
    let addresses = at_once(&calls).into_iter().map(Answer::address);
    assert_eq!(all_different(addresses).len(), 40);
    assert_eq!(server.list(BLOCKS).len(), 40);
    let listed = typed(&urls, &["get", "blockaffinities", "-o", "json"], "").succeeded().stdout;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let hosts: BTreeSet<&str> = listed["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter(|record| record["spec"]["state"] == json!("confirmed"))
        .filter_map(|record| record["spec"]["node"].as_str())
        .collect();
    assert_eq!(hosts.len(), 40);
    is_sound(&urls);
}
