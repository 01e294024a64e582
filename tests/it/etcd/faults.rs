//! Servers that are gone, silent, full, or something else.

use std::net::TcpListener;
use std::time::Duration;

use host_affine::api::calico::{Node, NodeSpec};
use host_affine::datastore::etcd::{EtcdOptions, Patience};
use host_affine::datastore::{Batch, Class, Commit, Fault, Guard, Key, Want};

use super::{cidr, claim, commit, fault, get, handle, held, host, need_etcd, open, options, read};
use crate::support::etcd::{Server, Start, free_address};

/// Takes connections and never says a word.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    (listener, url)
}

fn impatient(urls: &[String]) -> EtcdOptions {
    EtcdOptions { patience: Patience::Call(Duration::from_millis(900)), ..options(urls) }
}

#[test]
fn where_nobody_listens_the_error_names_all_who_were_asked_and_why() {
    let urls = [free_address(), free_address()].map(|address| format!("http://{address}"));
    let error = read(&mut open(&options(&urls)), &[Want::Settings]).expect_err("nobody is there");
    let (fault, class, said) = fault(&error);
    assert_eq!((fault, class), (Fault::Unreachable, Class::Retry));
    assert!(urls.iter().all(|url| said.matches(url.as_str()).count() == 2), "{said}");
    assert!(said.contains("refused"), "{said}");
}

#[test]
fn a_silent_server_is_given_up_within_the_patience() {
    let (_listener, url) = silent();
    let error = read(&mut open(&impatient(std::slice::from_ref(&url))), &[Want::Settings])
        .expect_err("it says nothing");
    let (fault, class, said) = fault(&error);
    assert_eq!((fault, class), (Fault::Unreachable, Class::Retry));
    assert!(said.contains(&url) && said.contains("1 s"), "{said}");
    let mut store = open(&impatient(&[url]));
    let outcome = commit(&mut store, held("h", "10.0.0.0/30")).expect("no error");
    assert_eq!(outcome, Commit::Unknown, "what was sent may arrive");
}

#[test]
fn another_member_answers_for_one_that_is_gone_or_silent() {
    need_etcd!();
    let server = Server::start();
    let (_listener, silent) = silent();
    let gone = format!("http://{}", free_address());
    let mut store = open(&EtcdOptions {
        patience: Patience::Call(Duration::from_secs(4)),
        ..options(&[gone.clone(), silent, server.url()])
    });
    assert!(read(&mut store, &[Want::Settings]).is_ok());
    assert_eq!(commit(&mut store, held("h", "10.0.0.0/30")).expect("no error"), Commit::Applied);
    // A commit that surely was not sent may be sent to another.
    let mut store = open(&options(&[gone, server.url()]));
    assert_eq!(commit(&mut store, held("i", "10.0.0.0/30")).expect("no error"), Commit::Applied);
    assert!(get(&mut store, Key::Handle(handle("i"))).is_some());
}

#[test]
fn a_silent_member_keeps_one_call_waiting_and_not_the_next() {
    need_etcd!();
    let server = Server::start();
    let (listener, silent) = silent();
    let folder = tempfile::tempdir().expect("a directory");
    let options = EtcdOptions {
        patience: Patience::Call(Duration::from_secs(4)),
        memory: Some(folder.path().to_owned()),
        ..options(&[silent, server.url()])
    };
    for _ in 0..3 {
        assert!(read(&mut open(&options), &[Want::Settings]).is_ok());
    }
    listener.set_nonblocking(true).expect("a listener");
    assert_eq!(listener.incoming().map_while(Result::ok).count(), 1, "asked once");
}

#[test]
fn a_server_without_a_gateway_is_told_from_one_that_is_gone() {
    need_etcd!();
    let off = vec!["--enable-grpc-gateway=false".to_owned()];
    let server = Server::start_with(&Start { options: off, ..Start::default() });
    let error = read(&mut open(&options(&[server.url()])), &[Want::Settings]).expect_err("no gateway");
    let (fault, class, said) = fault(&error);
    assert_eq!((fault, class), (Fault::NoGateway, Class::Refused), "{said}");
    assert!(said.contains(server.address()) && said.contains("--enable-grpc-gateway"), "{said}");
}

#[test]
fn a_full_server_changes_nothing_and_can_still_be_read() {
    need_etcd!();
    let quota = vec!["--quota-backend-bytes=4000000".to_owned()];
    let server = Server::start_with(&Start { options: quota, ..Start::default() });
    let mut store = open(&options(&[server.url()]));
    assert_eq!(commit(&mut store, held("h", "10.0.0.0/30")).expect("no error"), Commit::Applied);
    while server.try_put("/other", &"x".repeat(1_000_000)) {}
    let error = commit(&mut store, held("i", "10.0.0.0/30")).expect_err("there is no space");
    let (fault, class, said) = fault(&error);
    assert_eq!((fault, class), (Fault::Full, Class::Broken), "{said}");
    assert!(said.contains(server.address()) && said.contains("etcdctl defrag"), "{said}");
    assert!(get(&mut store, Key::Handle(handle("h"))).is_some());
    assert!(get(&mut store, Key::Handle(handle("i"))).is_none());
}

#[test]
fn an_object_that_is_too_large_is_refused_by_name() {
    need_etcd!();
    let server = Server::start();
    let mut store = open(&options(&[server.url()]));
    let mut node = Node::new("n", NodeSpec::default());
    node.metadata.labels.insert("large".to_owned(), "x".repeat(2_000_000));
    let error = commit(&mut store, |batch| batch.create(Key::Node(host("n")), node)).expect_err("too large");
    let (fault, class, said) = fault(&error);
    assert_eq!((fault, class), (Fault::TooLarge, Class::Broken), "{said}");
}

#[test]
fn a_batch_of_many_new_blocks_fits_into_one_transaction() {
    need_etcd!();
    let server = Server::start();
    let mut store = open(&options(&[server.url()]));
    let many = |batch: &mut Batch| {
        for n in 0..35 {
            let range = format!("10.{n}.0.192/28");
            claim(&range, "n")(batch);
            held(&format!("h{n}"), &range)(batch);
            batch.guards.push(Guard::NothingNewIn(cidr(&range), Vec::new()));
        }
    };
    assert_eq!(commit(&mut store, claim("10.7.0.192/27", "other")).expect("no error"), Commit::Applied);
    match commit(&mut store, many).expect("no error") {
        Commit::Refused(conflicts) => assert_eq!(conflicts[0].key, Key::Block(cidr("10.7.0.192/27"))),
        other => panic!("{other:?}"),
    }
    server.clear("/calico/");
    assert_eq!(commit(&mut store, many).expect("no error"), Commit::Applied);
    assert_eq!(server.list("/calico/ipam/v2/assignment/").len(), 35);
}
