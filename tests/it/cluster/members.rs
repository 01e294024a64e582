//! Three members of etcd, of which some are lost while hosts add and delete.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::hosts::{held, is_sound, network, pool};
use super::load::{PODS, calls, container, set_up};
use crate::support::cni::{Answer, Call, all_different};
use crate::support::etcd::{Cluster, need_etcd};
use crate::support::files::allow_many_open;
use crate::support::tally::tell;

/// How often a runtime asks for a pod's network before this test calls it an outage.
const ATTEMPTS_MAX: usize = 5;

#[test]
fn with_one_member_of_three_lost_and_then_another_adds_go_on_and_no_answer_is_lost() {
    need_etcd!();
    allow_many_open();
    let mut cluster = Cluster::start();
    let urls = cluster.urls();
    set_up(&urls);
    let turns = tempfile::tempdir().expect("a directory for the hosts' locks");
    let attempts = AtomicUsize::new(0);
    let (answered, answers) = channel();
    let adds = calls(&urls, &turns, "ADD");
    let given: Vec<IpAddr> = thread::scope(|scope| {
        let pods: Vec<_> = adds
            .iter()
            .map(|call| {
                let (answered, attempts) = (answered.clone(), &attempts);
                scope.spawn(move || add(call, &answered, attempts))
            })
            .collect();
        drop(answered);
        // So many more were answered before each turn, so that each meets the load; fewer only when all have ended.
        let wait_for_more = || answers.iter().take(PODS / 6).count();
        wait_for_more();
        cluster.kill(0);
        wait_for_more();
        cluster.start_again(0);
        wait_for_more();
        cluster.cut_off(1);
        wait_for_more();
        cluster.connect(1);
        pods.into_iter().map(|pod| pod.join().expect("every ADD is answered")).collect()
    });
    tell(&format!(
        "{} ADDs in {} attempts while one member of etcd was killed and another cut off",
        given.len(),
        attempts.into_inner(),
    ));
    assert_eq!(all_different(given.iter().copied()).len(), PODS);
    let expected: BTreeSet<(IpAddr, String)> = given
        .iter()
        .enumerate()
        .map(|(pod, address)| (*address, format!("load.{}", container(pod))))
        .collect();
    assert_eq!(
        held(&urls).into_iter().collect::<BTreeSet<_>>(),
        expected,
        "what was answered, and nothing else"
    );
    is_sound(&urls);
}

/// An ADD, made again like a runtime does when it failed.
fn add(call: &Call, answered: &Sender<()>, attempts: &AtomicUsize) -> IpAddr {
    let attempt = |_| {
        attempts.fetch_add(1, Ordering::SeqCst);
        Some(call.run()).filter(Answer::is_success)
    };
    let answer = (0..ATTEMPTS_MAX).find_map(attempt).expect("an ADD is answered while two members are there");
    answered.send(()).expect("whoever waits for it lives as long");
    answer.address()
}

#[test]
fn with_two_members_of_three_gone_an_add_fails_in_time_and_says_so() {
    need_etcd!();
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
