//! More hosts than blocks, and exactly as many addresses as pods, all asked for at once.

use std::collections::BTreeSet;
use std::net::IpAddr;

use host_affine::clock::{Clock as _, SystemClock};
use host_affine::datastore::etcd::EtcdStore;
use host_affine::datastore::run_in_place;
use host_affine::ipam::{
    Assign, Attachment, Error, Host, Ipam, NoOwnAddresses, Owner, PoolChoice, Sharing, Wanted,
};
use host_affine::net::Family;
use serde_json::json;

use super::{host, need_etcd, open, options};
use crate::support::etcd::{Proxy, Server};
use crate::support::tally::tell;

const HOSTS: usize = 40;
const PODS_OF_HOST: usize = 25;
const RESERVED: usize = 24;

/// A /22 in blocks of 64, of which 24 addresses are kept back: 1,000 are left, in 16 blocks.
fn fill(server: &Server) {
    let pool = json!({
        "kind": "IPPool", "apiVersion": "projectcalico.org/v3", "metadata": { "name": "pool" },
        "spec": { "cidr": "10.71.0.0/22", "blockSize": 26 },
    });
    let reserved: Vec<String> = (0..RESERVED).map(|n| format!("10.71.{}.{}", n % 4, 7 * n)).collect();
    let reservation = json!({
        "kind": "IPReservation", "apiVersion": "projectcalico.org/v3", "metadata": { "name": "kept" },
        "spec": { "reservedCIDRs": reserved },
    });
    server.put("/calico/resources/v3/projectcalico.org/ippools/pool", &pool.to_string());
    server.put("/calico/resources/v3/projectcalico.org/ipreservations/kept", &reservation.to_string());
}

struct Pod {
    host: Host,
    owner: Owner,
}

impl Pod {
    fn of(host_number: usize, pod: usize) -> Self {
        let host = Host { name: host(&format!("host-{host_number}")), boot: None };
        let attachment = Attachment {
            network: "net".into(),
            container_id: format!("pod-{host_number}-{pod}"),
            ifname: "eth0".into(),
        };
        let owner = Owner { attachment, node: host.name.clone(), boot: None, netns: None, pod: None };
        Self { host, owner }
    }

    fn add(&self, store: EtcdStore) -> Result<IpAddr, Error> {
        let wanted = [Wanted { family: Family::V4, choice: PoolChoice::Any, usable: None, address: None }];
        let request = Assign {
            host: &self.host,
            owner: &self.owner,
            sharing: Sharing::Attachment,
            wanted: &wanted,
            pools: &[],
            gateways: None,
            takeover: None,
            own_addresses: &NoOwnAddresses,
            now: SystemClock.now(),
        };
        run_in_place(Ipam::new(store).assign(&request)).map(|assigned| assigned.addresses[0].address)
    }

    fn del(&self, store: EtcdStore) {
        let released =
            run_in_place(Ipam::new(store).release(&self.owner.attachment, &self.host, SystemClock.now()));
        assert_eq!(released.expect("it is released").addresses.len(), 1);
    }
}

/// Runs something for every pod, one after another on each host, all hosts at once.
fn on_all_hosts<T: Send>(one: impl Fn(&Pod) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let one = &one;
        let of_host =
            |number| move || (0..PODS_OF_HOST).map(|pod| one(&Pod::of(number, pod))).collect::<Vec<_>>();
        let hosts: Vec<_> = (0..HOSTS).map(|number| scope.spawn(of_host(number))).collect();
        hosts.into_iter().flat_map(|host| host.join().expect("no host panics")).collect()
    })
}

fn count(server: &Server, prefix: &str) -> usize {
    server.list(prefix).len()
}

#[test]
fn as_many_pods_as_addresses_are_served_at_once_each_exactly_once() {
    need_etcd!();
    let server = Server::start();
    fill(&server);
    let proxy = Proxy::before(server.address());
    for round in 0..2 {
        let answers = on_all_hosts(|pod| pod.add(open(&options(&[proxy.url()]))));
        let addresses: BTreeSet<IpAddr> =
            answers.into_iter().map(|address| address.expect("there is one for each")).collect();
        assert_eq!(addresses.len(), HOSTS * PODS_OF_HOST, "round {round}");
        let passed = proxy.passed();
        let commits = passed.iter().filter(|passed| passed.is_commit()).count();
        let (pods, requests) = (HOSTS * PODS_OF_HOST, passed.len());
        tell(&format!(
            "LIMIT round {round}: {pods} ADDs made {requests} requests, {commits} of them commits"
        ));
        assert_eq!(count(&server, "/calico/ipam/v2/assignment/"), 16);
        assert_eq!(count(&server, "/calico/ipam/v2/handle/"), HOSTS * PODS_OF_HOST);
        on_all_hosts(|pod| pod.del(open(&options(&[server.url()]))));
        assert_eq!(count(&server, "/calico/ipam/v2/handle/"), 0);
        let blocks = server.list("/calico/ipam/v2/assignment/");
        let is_empty = |(_, block): &(String, String)| {
            let block: serde_json::Value = serde_json::from_str(block).expect("a block");
            block["unallocated"].as_array().map_or(0, Vec::len) == 64
        };
        assert!(blocks.iter().all(is_empty), "{blocks:?}");
    }
}
