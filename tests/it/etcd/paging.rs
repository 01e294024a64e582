//! Long lists, and what happens to them meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use host_affine::datastore::{Answer, Inspect as _, Want, run_in_place};
use serde_json::json;

use super::{claim, commit, need_etcd, open, options, read};
use crate::support::etcd::{Fate, Proxy, Server, ask, put};

/// More than one page has.
const NODES: usize = 1_203;

fn fill(server: &Server) {
    let node = |n: usize| {
        let metadata = json!({ "name": format!("n{n}") });
        let value =
            json!({ "kind": "Node", "apiVersion": "projectcalico.org/v3", "metadata": metadata, "spec": {} });
        (format!("/calico/resources/v3/projectcalico.org/nodes/n{n}"), value.to_string())
    };
    server.put_all(&(0..NODES).map(node).collect::<Vec<_>>());
}

#[test]
fn a_long_list_comes_in_pages_and_whole_even_if_its_revision_is_compacted() {
    need_etcd!();
    let server = Server::start();
    fill(&server);
    let proxy = Proxy::before(server.address());
    let mut store = open(&options(&[proxy.url()]));
    let mut count = |proxy: &Proxy| {
        let nodes = read(&mut store, &[Want::Nodes]).expect("it is read").remove(0);
        (nodes.objects().len(), proxy.passed().len())
    };
    assert_eq!(count(&proxy), (NODES, 3));
    let compacted = Arc::new(AtomicBool::new(false));
    let (address, done) = (server.address().to_owned(), compacted.clone());
    proxy.decide(move |passed| {
        if passed.body.contains("\"revision\"") && !done.swap(true, Ordering::SeqCst) {
            put(&address, "/other", "x");
            let revision =
                ask(&address, "/v3/kv/range", &json!({ "key": "AA==" }))["header"]["revision"].clone();
            ask(&address, "/v3/kv/compaction", &json!({ "revision": revision }));
        }
        Fate::Serve
    });
    assert_eq!(count(&proxy), (NODES, 2 + 3), "it begins again when a page is gone");
    assert!(compacted.load(Ordering::SeqCst));
}

#[test]
fn whoever_looks_through_everything_gets_blocks_in_chunks_and_hears_of_damage() {
    need_etcd!();
    let server = Server::start();
    let proxy = Proxy::before(server.address());
    let mut store = open(&options(&[proxy.url()]));
    for n in 0..100 {
        let range = format!("10.0.{n}.0/30");
        commit(&mut store, claim(&range, "n")).expect("a block");
    }
    server.put("/calico/ipam/v2/assignment/ipv4/block/10.0.7.0-30", "{");
    server.put("/calico/ipam/v2/host/n/ipv4/block/10.0.9.0-30", "[]");
    server.put("/calico/ipam/v2/handle/h", "no JSON");
    proxy.passed();
    let mut seen = Vec::new();
    let mut damaged = Vec::new();
    run_in_place(store.each_block(&mut |visit| {
        assert_eq!(visit.total, 100);
        seen.push(visit.cidr);
        damaged.extend(visit.block.err().map(|error| error.to_string()));
    }))
    .expect("all are seen");
    assert_eq!((seen.len(), seen.is_sorted()), (100, true));
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert!(damaged[0].contains("10.0.7.0-30"), "{damaged:?}");
    assert_eq!(proxy.passed().len(), 4, "names of two families, and two chunks");
    let affinities = run_in_place(store.all_affinities()).expect("they are read");
    assert_eq!((affinities.records.len(), affinities.damaged.len()), (99, 1));
    let unreadable = run_in_place(store.unreadable()).expect("it is read");
    assert_eq!(unreadable.len(), 1, "{unreadable:?}");
    let answers = read(&mut store, &[Want::AllHandles]).expect("a list passes damage over");
    assert_eq!(answers, [Answer::Objects(vec![])]);
}
