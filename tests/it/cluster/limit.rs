//! Exactly as many pods as there are addresses, on more hosts than there are blocks, all at once.

use std::thread;

use serde_json::json;

use super::hosts::{held, is_sound, network, pool, typed};
use crate::support::cni::{Answer, all_different, at_once, skip};
use crate::support::etcd::{Proxy, Server, is_installed};
use crate::support::files::allow_many_open;
use crate::support::tally::tell;

const HOSTS: usize = 40;
const PODS: usize = 25;
/// Of 1,024 in the pool, besides the pods'.
const RESERVED: [&str; 2] = ["10.77.1.16/28", "10.77.2.8/29"];
/// Their codes: no address is free, and none may be had under strict affinity.
const REFUSALS: [u64; 2] = [101, 102];

#[test]
fn a_thousand_pods_of_forty_hosts_have_the_thousand_addresses_of_sixteen_blocks_each_time() {
    if !is_installed() {
        return skip("etcd is not installed");
    }
    allow_many_open();
    let server = Server::start();
    let proxy = Proxy::before(server.address());
    let direct = [server.url()];
    pool(&direct, "p", "10.77.0.0/22", 26);
    let reservation = json!({
        "apiVersion": "projectcalico.org/v3",
        "kind": "IPReservation",
        "metadata": { "name": "kept" },
        "spec": { "reservedCIDRs": RESERVED },
    });
    typed(&direct, &["apply", "-f", "-"], &reservation.to_string()).succeeded();
    for round in 1..=2 {
        proxy.passed();
        let answers = of_all(&proxy.url(), "ADD");
        let passed = proxy.passed();
        let addresses = answers.into_iter().flat_map(Answer::addresses);
        assert_eq!(all_different(addresses).len(), HOSTS * PODS);
        let (commits, requests) = (passed.iter().filter(|passed| passed.writes()).count(), passed.len());
        tell(&format!(
            "{HOSTS} hosts with {PODS} pods each at one etcd, round {round}: {:.1} requests an ADD, {:.2} conflicts",
            ratio(requests),
            ratio(commits.saturating_sub(HOSTS * PODS)),
        ));
        assert_eq!(held(&direct).len(), HOSTS * PODS);
        is_sound(&direct);
        for answer in of_all(&proxy.url(), "DEL") {
            answer.succeeded();
        }
        assert_eq!(held(&direct), []);
        is_sound(&direct);
        assert_eq!(server.list("/calico/ipam/v2/handle/"), []);
    }
    typed(&direct, &["ipam", "configure", "--strictaffinity=true"], "").succeeded();
    let (given, refused): (Vec<_>, Vec<_>) =
        of_all(&proxy.url(), "ADD").into_iter().partition(Answer::is_success);
    assert!(!refused.is_empty() && !given.is_empty(), "{} of {}", given.len(), HOSTS * PODS);
    for answer in refused {
        let refusal = answer.refused();
        assert!(REFUSALS.contains(&refusal.code), "{refusal:?}");
        refusal.says(&["strict"]);
    }
    let addresses = all_different(given.into_iter().flat_map(Answer::addresses));
    assert_eq!(held(&direct).len(), addresses.len());
    is_sound(&direct);
}

/// The call of every pod, all at once, in the order of the hosts.
fn of_all(url: &str, verb: &str) -> Vec<Answer> {
    let turns = tempfile::tempdir().expect("a directory for the hosts' locks");
    let calls: Vec<_> = (0..HOSTS * PODS)
        .map(|pod| {
            let host = format!("host-{}", pod / PODS);
            let lock = turns.path().join(&host).display().to_string();
            let network = network("limit", &[url.to_owned()]).on(&host).with_top("ipam_lock_file", lock);
            network.call(verb, &format!("pod-{pod}"))
        })
        .collect();
    thread::scope(|scope| {
        let hosts: Vec<_> = calls.chunks(PODS).map(|calls| scope.spawn(|| at_once(calls))).collect();
        hosts.into_iter().flat_map(|host| host.join().expect("a call does not panic")).collect()
    })
}

#[expect(clippy::cast_precision_loss, reason = "it is printed")]
fn ratio(count: usize) -> f64 {
    count as f64 / (HOSTS * PODS) as f64
}
