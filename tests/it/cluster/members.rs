//! Three members of etcd, of which some are lost while hosts add and delete.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::hosts::{held, is_sound, network, pool};
use crate::support::cni::{all_different, skip};
use crate::support::etcd::{Cluster, is_installed};
use crate::support::tally::tell;

const HOSTS: usize = 6;

#[test]
fn with_one_member_of_three_lost_and_then_another_adds_go_on_and_no_answer_is_lost() {
    if !is_installed() {
        return skip("etcd is not installed");
    }
    let mut cluster = Cluster::start();
    let urls = cluster.urls();
    pool(&urls, "p", "10.78.0.0/21", 26);
    let answered = Answered::default();
    let is_over = AtomicBool::new(false);
    let given: Vec<(String, IpAddr)> = thread::scope(|scope| {
        let hosts: Vec<_> = (0..HOSTS)
            .map(|host| {
                let (urls, answered, is_over) = (&urls, &answered, &is_over);
                scope.spawn(move || adds(host, urls, answered, is_over))
            })
            .collect();
        // So many were answered before each turn, so that each meets a load.
        answered.wait_for(60);
        cluster.kill(0);
        answered.wait_for(60);
        cluster.start_again(0);
        answered.wait_for(30);
        cluster.cut_off(1);
        answered.wait_for(60);
        cluster.connect(1);
        answered.wait_for(30);
        is_over.store(true, Ordering::SeqCst);
        hosts.into_iter().flat_map(|host| host.join().expect("every ADD is answered")).collect()
    });
    tell(&format!(
        "{} ADDs of {HOSTS} hosts while one member of etcd was killed and another cut off",
        given.len()
    ));
    all_different(given.iter().map(|(_, address)| *address));
    let held = held(&urls);
    let stored: BTreeSet<(IpAddr, String)> = held.iter().cloned().collect();
    for (container, address) in &given {
        let handle = format!("members.{container}");
        assert!(
            stored.contains(&(*address, handle)),
            "{container} was answered {address}, which is not there"
        );
    }
    assert_eq!(held.len(), given.len(), "nothing else is held");
    is_sound(&urls);
}

#[test]
fn with_two_members_of_three_gone_an_add_fails_in_time_and_says_so() {
    if !is_installed() {
        return skip("etcd is not installed");
    }
    let mut cluster = Cluster::start();
    let urls = cluster.urls();
    pool(&urls, "p", "10.78.0.0/21", 26);
    let network = network("members", &urls);
    network.add("before").address();
    cluster.kill(0);
    cluster.kill(1);
    let refusal = network.add("after").refused();
    assert_eq!(refusal.code, 11, "{refusal:?}");
    refusal.says(&["etcd", &urls[2]]);
    cluster.start_again(0);
    network.add("after").address();
    assert_eq!(held(&urls).len(), 2);
    is_sound(&urls);
}

/// How many ADDs were answered.
#[derive(Default)]
struct Answered(AtomicUsize);

impl Answered {
    fn wait_for(&self, more: usize) {
        let until = self.0.load(Ordering::SeqCst) + more;
        while self.0.load(Ordering::SeqCst) < until {
            thread::yield_now();
        }
    }
}

/// One host's ADDs until it is over: every one must succeed, at the second attempt of the runtime at the latest. Now and
/// then it ends a container, and asks for it anew.
fn adds(host: usize, urls: &[String], answered: &Answered, is_over: &AtomicBool) -> Vec<(String, IpAddr)> {
    let network = network("members", urls).on(&format!("host-{host}"));
    let mut given = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let container = format!("c{host}-{number}");
        let answer = network.add(&container);
        let address = if answer.is_success() { answer.address() } else { network.add(&container).address() };
        answered.0.fetch_add(1, Ordering::SeqCst);
        if number % 5 == 4 {
            // A runtime sends a DEL until it succeeds.
            while !network.del(&container).is_success() {}
        } else {
            given.push((container, address));
        }
    }
    given
}
