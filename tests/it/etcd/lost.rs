//! Commits whose answer is lost.

use host_affine::datastore::{Commit, Key, Want};

use super::{claim, commit, get, handle, held, need_etcd, open, options, read};
use crate::support::etcd::{Fate, Passed, Proxy, Server};

/// The first commit fares so, the rest is served.
fn first_commit(fate: Fate) -> impl FnMut(&Passed) -> Fate + Send + 'static {
    let mut is_first = true;
    move |passed| {
        if passed.is_commit() && std::mem::take(&mut is_first) { fate } else { Fate::Serve }
    }
}

#[test]
fn a_commit_whose_answer_is_lost_is_unknown_and_reading_tells() {
    need_etcd!();
    for (fate, applied) in [(Fate::DropAnswer, true), (Fate::DropRequest, false)] {
        let server = Server::start();
        let proxy = Proxy::before(server.address());
        let mut store = open(&options(&[proxy.url()]));
        assert!(get(&mut store, Key::Handle(handle("h"))).is_none());
        proxy.decide(first_commit(fate));
        let unknown = commit(&mut store, held("h", "10.0.0.0/30")).expect("no error");
        assert_eq!(unknown, Commit::Unknown, "{fate:?}");
        let commits = proxy.passed().iter().filter(|passed| passed.is_commit()).count();
        assert_eq!(commits, 1, "it is never sent again");
        assert_eq!(get(&mut store, Key::Handle(handle("h"))).is_some(), applied, "{fate:?}");
    }
}

#[test]
fn a_commit_that_arrives_after_it_was_looked_for_is_not_applied() {
    need_etcd!();
    let server = Server::start();
    let proxy = Proxy::before(server.address());
    let mut store = open(&options(&[proxy.url()]));
    assert_eq!(commit(&mut store, claim("10.0.0.0/30", "n")).expect("no error"), Commit::Applied);
    proxy.decide(first_commit(Fate::Keep));
    assert_eq!(commit(&mut store, held("h", "10.0.0.0/30")).expect("no error"), Commit::Unknown);
    assert!(get(&mut store, Key::Handle(handle("h"))).is_none());
    assert_eq!(proxy.pass_on(), 1);
    assert!(get(&mut store, Key::Handle(handle("h"))).is_none(), "it came too late");
    // Without anybody looking for it, it is applied: the proxy does pass it on.
    let mut other = open(&options(&[proxy.url()]));
    proxy.decide(first_commit(Fate::Keep));
    assert_eq!(commit(&mut other, held("h", "10.0.0.0/30")).expect("no error"), Commit::Unknown);
    assert_eq!(proxy.pass_on(), 1);
    assert!(get(&mut store, Key::Handle(handle("h"))).is_some());
}

#[test]
fn reading_after_a_lost_commit_may_itself_be_lost() {
    need_etcd!();
    let server = Server::start();
    let proxy = Proxy::before(server.address());
    let mut store = open(&options(&[proxy.url()]));
    let mut drops = 3;
    proxy.decide(move |passed| {
        let drop = passed.writes() && drops > 0;
        drops -= i32::from(drop);
        if drop { Fate::DropAnswer } else { Fate::Serve }
    });
    assert_eq!(commit(&mut store, held("h", "10.0.0.0/30")).expect("no error"), Commit::Unknown);
    let found = read(&mut store, &[Want::AllHandles, Want::Settings]).expect("it is read in the end");
    assert_eq!(found.into_iter().next().expect("an answer").objects().len(), 1);
    // What shut the door goes by itself.
    assert_eq!(server.list("/host-affine/doors/").len(), 1);
    assert_eq!(commit(&mut store, held("i", "10.0.0.0/30")).expect("no error"), Commit::Applied);
}
