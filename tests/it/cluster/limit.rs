//! Exactly as many pods as there are addresses, on more hosts than there are blocks, all at once.

use super::hosts::{held, is_sound, typed};
use super::load::{BLOCKS, HOSTS, PODS, PODS_OF_HOST, calls, set_up};
use crate::support::cni::{Answer, all_different, at_once};
use crate::support::etcd::{Proxy, Server, need_etcd};
use crate::support::files::allow_many_open;
use crate::support::tally::tell;

/// Their codes: no address is free, and none may be had under strict affinity.
const REFUSALS: [u64; 2] = [101, 102];

#[test]
fn a_thousand_pods_of_forty_hosts_have_the_thousand_addresses_of_sixteen_blocks_each_time() {
    need_etcd!();
    allow_many_open();
    let server = Server::start();
    let proxy = Proxy::before(server.address());
    let direct = [server.url()];
    set_up(&direct);
    let turns = tempfile::tempdir().expect("a directory for the hosts' locks");
    let of_all = |verb| at_once(&calls(&[proxy.url()], &turns, verb));
    for round in 1..=2 {
        proxy.passed();
        let answers = of_all("ADD");
        let passed = proxy.passed();
        let addresses = answers.into_iter().flat_map(Answer::addresses);
        assert_eq!(all_different(addresses).len(), PODS);
        let (commits, requests) = (passed.iter().filter(|passed| passed.writes()).count(), passed.len());
        tell(&format!(
            "{HOSTS} hosts with {PODS_OF_HOST} pods each at one etcd, round {round}: {:.1} requests an ADD, {:.2} conflicts",
            ratio(requests),
            ratio(commits.saturating_sub(PODS)),
        ));
        assert_eq!(held(&direct).len(), PODS);
        is_sound(&direct);
        for answer in of_all("DEL") {
            answer.succeeded();
        }
        assert_eq!(held(&direct), []);
        is_sound(&direct);
        assert_eq!(server.list("/calico/ipam/v2/handle/"), []);
    }
    typed(&direct, &["ipam", "configure", "--strictaffinity=true"], "").succeeded();
    let (given, refused): (Vec<_>, Vec<_>) = of_all("ADD").into_iter().partition(Answer::is_success);
    assert_eq!(given.len(), BLOCKS * PODS_OF_HOST, "those of the hosts that have a block");
    for answer in refused {
        let refusal = answer.refused();
        assert!(REFUSALS.contains(&refusal.code), "{refusal:?}");
        refusal.says(&["strict"]);
    }
    let addresses = all_different(given.into_iter().flat_map(Answer::addresses));
    assert_eq!(held(&direct).len(), addresses.len());
    is_sound(&direct);
}

#[expect(clippy::cast_precision_loss, reason = "it is printed")]
fn ratio(count: usize) -> f64 {
    count as f64 / PODS as f64
}
