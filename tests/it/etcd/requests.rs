//! How often a call asks etcd. Calico's own plugin makes 10 requests for an ADD and 8 for a DEL.

use serde_json::json;

use super::need_etcd;
use crate::support::cni::Network;
use crate::support::etcd::{Fate, Passed, Proxy, Server};

struct Cluster {
    server: Server,
    proxy: Proxy,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Self {
        let server = Server::start();
        let proxy = Proxy::before(server.address());
        Self { server, proxy, folder: tempfile::tempdir().expect("a directory") }
    }

    /// A network whose hosts have blocks of 16 addresses.
    fn network(&self) -> Network {
        Network::of(&json!({
            "cniVersion": "1.1.0",
            "name": "net",
            "type": "bridge",
            "ipam_lock_file": self.folder.path().join("ipam.lock"),
            "ipam": {
                "type": "host-affine",
                "nodename": "node-1",
                "pools": [{ "cidr": "10.71.0.0/20", "blockSize": 28 }],
                "datastore": { "type": "etcdv3", "endpoints": [self.proxy.url()] },
            },
        }))
    }

    /// How many requests a call makes.
    fn count(&self, call: impl FnOnce()) -> usize {
        self.proxy.passed();
        call();
        self.proxy.passed().len()
    }

    fn blocks(&self) -> Vec<serde_json::Value> {
        let blocks = self.server.list("/calico/ipam/v2/assignment/");
        blocks.iter().map(|(_, value)| serde_json::from_str(value).expect("a block")).collect()
    }

    /// How many addresses are assigned in all.
    fn assigned(&self) -> usize {
        let of = |block: &serde_json::Value| block["allocations"].as_array().cloned().unwrap_or_default();
        self.blocks().iter().flat_map(of).filter(|place| !place.is_null()).count()
    }
}

/// Whether a host's last block can be remembered where the plugin does so.
fn remembers() -> bool {
    nix::unistd::geteuid().is_root()
}

#[test]
fn a_steady_add_makes_two_requests_and_a_del_no_more_than_three() {
    need_etcd!();
    let cluster = Cluster::new();
    let network = cluster.network();
    let first = cluster.count(|| {
        network.add("c0").address();
    });
    assert!(first <= 6, "the first ADD, with a new pool and a new block: {first}");
    network.add("c1").address();
    for n in 2..5 {
        let add = cluster.count(|| {
            network.add(&format!("c{n}")).address();
        });
        assert_eq!(add, if remembers() { 2 } else { 3 }, "ADD {n}");
    }
    let again = cluster.count(|| {
        network.add("c4").address();
    });
    assert!(again <= 3, "a repeated ADD: {again}");
    for n in 0..5 {
        let del = cluster.count(|| {
            network.del(&format!("c{n}")).succeeded();
        });
        assert!(del <= 3, "DEL {n}: {del}");
    }
    assert_eq!(
        cluster.count(|| {
            network.del("c0").succeeded();
        }),
        2,
        "a DEL of nothing, which looks through the host's blocks too: others may have lost its handle"
    );
    assert_eq!(cluster.assigned(), 0);
    assert!(cluster.server.list("/calico/ipam/v2/handle/").is_empty());
}

#[test]
fn a_wrong_guess_costs_one_request_and_no_block() {
    need_etcd!();
    let cluster = Cluster::new();
    let network = cluster.network();
    for n in 0..17 {
        network.add(&format!("c{n}")).address();
    }
    assert_eq!(cluster.blocks().len(), 2, "17 addresses in blocks of 16");
    // The first block has room again, and the second, which was used last, is filled by somebody else.
    network.del("c3").succeeded();
    for n in 17..32 {
        let mut node = network.clone();
        // Another endpoint's name for the same store: what is remembered of it is remembered apart.
        node.conf["ipam"]["datastore"]["endpoints"] = json!([cluster.server.url()]);
        node.add(&format!("c{n}")).address();
    }
    let add = cluster.count(|| {
        network.add("last").address();
    });
    assert_eq!((add, cluster.blocks().len(), cluster.assigned()), (3, 2, 32));
}

#[test]
fn a_lost_answer_never_costs_a_second_address() {
    need_etcd!();
    let cluster = Cluster::new();
    let network = cluster.network();
    network.add("before").address();
    for (container, fate) in [("a", Fate::DropAnswer), ("b", Fate::DropRequest), ("c", Fate::Keep)] {
        for verb in ["ADD", "DEL"] {
            let before = cluster.assigned();
            let mut is_first = true;
            cluster.proxy.decide(move |passed: &Passed| {
                if passed.is_commit() && std::mem::take(&mut is_first) { fate } else { Fate::Serve }
            });
            network.call(verb, container).run().succeeded();
            cluster.proxy.pass_on();
            let after = if verb == "ADD" { before + 1 } else { before - 1 };
            assert_eq!(cluster.assigned(), after, "{verb} {container}");
        }
    }
    let handles: Vec<_> =
        cluster.server.list("/calico/ipam/v2/handle/").into_iter().map(|(key, _)| key).collect();
    assert_eq!(handles, ["/calico/ipam/v2/handle/net.before"]);
}

#[test]
fn without_an_endpoint_a_runtime_is_told_to_ask_again() {
    need_etcd!();
    let mut cluster = Cluster::new();
    let mut network = cluster.network();
    network.conf["ipam"]["datastore"]["endpoints"] = json!([cluster.server.url()]);
    network.add("a").address();
    cluster.server.kill();
    for verb in ["ADD", "DEL", "CHECK"] {
        let previous = json!({ "ips": [{ "address": "10.71.0.1/20" }] });
        let refusal = network.call(verb, "a").previous(&previous).run().refused();
        assert_eq!(refusal.code, 11, "{verb}: {} {}", refusal.msg, refusal.details);
        assert!(refusal.msg.contains(cluster.server.address()), "{}", refusal.msg);
    }
    assert_eq!(network.call("STATUS", "").run().refused().code, 50);
}
