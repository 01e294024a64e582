//! Under the main plugins of others: containers on one network reach each other, and what they had comes back.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::cni::{Call, Network, plugin, skip};
use crate::support::netns::Namespace;
use crate::support::store::{Lab, View};

/// Where the main plugins of others may be installed.
const FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// Two containers and a host, apart from this machine's own network.
pub(super) struct Scene {
    pub(super) lab: Lab,
    host: Namespace,
    containers: [Namespace; 2],
    main: PathBuf,
    path: String,
}

impl Scene {
    /// `Err`: why it cannot be set here.
    pub(super) fn set(main: &str) -> Result<Self, String> {
        let folder = FOLDERS.iter().map(Path::new).find(|folder| folder.join(main).is_file());
        let folder =
            folder.ok_or(format!("the main plugin `{main}` is in neither {}", FOLDERS.join(" nor ")))?;
        let host = Namespace::new("host")?;
        let containers = [Namespace::new("a")?, Namespace::new("b")?];
        let lab = Lab::new();
        let own = lab.path().join("bin");
        fs::create_dir(&own).expect("a directory");
        symlink(plugin(), own.join("host-affine")).expect("a link");
        let path = format!("{}:{}", own.display(), folder.display());
        Ok(Self { host, containers, main: folder.join(main), path, lab })
    }

    /// A call by the main plugin for the container of that number.
    pub(super) fn call(&self, network: &Network, verb: &str, number: usize) -> Call {
        self.call_as(network, verb, number, &format!("container-{number}"))
    }

    /// A call that was made for our plugin alone, by the main plugin for the container of that number.
    pub(super) fn dressed(&self, call: Call, number: usize) -> Call {
        let netns = self.containers[number].path().display().to_string();
        let call = call.variable("CNI_NETNS", netns).variable("CNI_PATH", self.path.clone());
        call.program(&self.main).under(&self.host.exec())
    }

    fn call_as(&self, network: &Network, verb: &str, number: usize, id: &str) -> Call {
        let netns = self.containers[number].path().display().to_string();
        let call =
            network.call(verb, id).variable("CNI_NETNS", netns).variable("CNI_PATH", self.path.clone());
        call.program(&self.main).under(&self.host.exec())
    }

    /// All addresses of a container are reached from the other one, and its gateway from it, where the host is that.
    pub(super) fn all_is_reached(&self, results: &[Value; 2], host_is_gateway: bool) {
        for (number, result) in results.iter().enumerate() {
            let (here, other) = (&self.containers[number], &self.containers[1 - number]);
            for ip in result["ips"].as_array().expect("addresses") {
                let address = address_of(ip);
                assert!(other.reaches(here, address), "{address} is not reached: {}", self.describe());
                if host_is_gateway {
                    let gateway: IpAddr =
                        ip["gateway"].as_str().expect("a gateway").parse().expect("an address");
                    assert!(
                        here.reaches(&self.host, gateway),
                        "{gateway} is not reached: {}",
                        self.describe()
                    );
                }
            }
        }
    }

    fn describe(&self) -> String {
        let of = |namespace: &Namespace| format!("{}{}", namespace.ip(&["addr"]), namespace.ip(&["route"]));
        format!("host\n{}\na\n{}\nb\n{}", of(&self.host), of(&self.containers[0]), of(&self.containers[1]))
    }
}

/// Two hosts with two containers each. Their stores are of their own; a network may name one for both.
pub(super) fn two_hosts(main: &str) -> Result<[Scene; 2], String> {
    Ok([Scene::set(main)?, Scene::set(main)?])
}

pub(super) fn address_of(ip: &Value) -> IpAddr {
    ip["address"].as_str().and_then(|text| text.split_once('/')?.0.parse().ok()).expect("an address")
}

pub(super) fn addresses_of(result: &Value) -> Vec<IpAddr> {
    result["ips"].as_array().expect("addresses").iter().map(address_of).collect()
}

/// The pools of each network that is tried, with the name that the network gets.
fn kinds_of_pools() -> [(&'static str, Value); 3] {
    let (v4, v6) = (json!({ "cidr": "10.210.0.0/24" }), json!({ "cidr": "fd10:210::/64" }));
    [("four", json!([v4])), ("six", json!([v6])), ("both", json!([v4, v6]))]
}

/// ADD, CHECK and DEL of two containers by a main plugin, once for each kind of pools.
fn two_containers_meet(main: &str, version: &str, extra: &Value, host_is_gateway: bool) {
    for (name, pools) in kinds_of_pools() {
        let scene = match Scene::set(main) {
            Ok(scene) => scene,
            Err(reason) => return skip(&reason),
        };
        if main == "macvlan" {
            // A cable to nowhere, in the place of a network card.
            scene.host.ip(&["link", "add", "uplink", "type", "veth", "peer", "name", "socket"]);
            scene.host.ip(&["link", "set", "uplink", "up"]);
            scene.host.ip(&["link", "set", "socket", "up"]);
        }
        let mut network = Network::new(name, &scene.lab.store(), &pools)
            .with_top("cniVersion", version)
            .with_top("type", main);
        for (key, value) in extra.as_object().expect("an object") {
            network = network.with_top(key, value.clone());
        }
        let results = [0, 1].map(|number| scene.call(&network, "ADD", number).run().result());
        let given: Vec<Vec<IpAddr>> = results.iter().map(addresses_of).collect();
        assert_eq!(given[0].len(), pools.as_array().map_or(0, Vec::len));
        assert!(given[0].iter().all(|address| !given[1].contains(address)), "{given:?}");
        scene.all_is_reached(&results, host_is_gateway);
        let view = View::of(&scene.lab.store()).sound();
        assert_eq!(sorted(view.of_container("container-0")), sorted(given[0].clone()));

        if version >= "0.4.0" {
            check_sees_what_is_missing(&scene, &network, &results[0]);
        }
        for (number, result) in results.iter().enumerate() {
            scene.call(&network, "DEL", number).previous(result).run().succeeded();
            scene.call(&network, "DEL", number).variable("CNI_NETNS", "").run().succeeded();
        }
        let view = View::of(&scene.lab.store()).sound();
        assert_eq!((view.held.len(), view.handles), (0, 0));
    }
}

fn sorted(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.sort();
    addresses
}

fn check_sees_what_is_missing(scene: &Scene, network: &Network, result: &Value) {
    let check = || scene.call(network, "CHECK", 0).previous(result).run();
    check().succeeded();
    // Ours alone: the main plugin would see it itself.
    let own = || scene.call(network, "CHECK", 0).previous(result).program(plugin()).run();
    own().succeeded();
    let ip = &result["ips"][0];
    let address = ip["address"].as_str().expect("an address");
    scene.containers[0].ip(&["addr", "del", address, "dev", "eth0"]);
    let refusal = own().refused();
    assert_eq!(refusal.code, 112);
    refusal.says(&[&address_of(ip).to_string(), "eth0"]);
    assert!(!check().is_success());
    scene.containers[0].ip(&["addr", "add", address, "dev", "eth0", "nodad"]);
    own().succeeded();
}

#[test]
fn bridge() {
    let extra = json!({ "bridge": "affine0", "isGateway": true, "ipMasq": false });
    two_containers_meet("bridge", "1.0.0", &extra, true);
}

#[test]
fn bridge_of_an_old_runtime() {
    let extra = json!({ "bridge": "affine0", "isGateway": true });
    two_containers_meet("bridge", "0.3.1", &extra, true);
}

#[test]
fn ptp() {
    two_containers_meet("ptp", "1.0.0", &json!({}), false);
}

#[test]
fn macvlan() {
    two_containers_meet("macvlan", "0.4.0", &json!({ "master": "uplink", "mode": "bridge" }), false);
}

#[test]
fn a_main_plugin_that_fails_behind_ours_leaves_nothing_behind() {
    let scene = match Scene::set("bridge") {
        Ok(scene) => scene,
        Err(reason) => return skip(&reason),
    };
    // The kernel refuses a next hop that is on no link, when the address was given already.
    let network = Network::new("pods", &scene.lab.store(), &json!([{ "cidr": "10.210.1.0/24" }]))
        .with_top("cniVersion", "1.0.0")
        .with_top("bridge", "affine0")
        .with("routes", json!([{ "dst": "10.99.0.0/16", "gw": "192.0.2.1" }]));
    let answer = scene.call(&network, "ADD", 0).run();
    assert!(!answer.is_success() && answer.stdout.contains("unreachable"), "{answer:?}");
    let view = View::of(&scene.lab.store()).sound();
    assert_eq!(
        (view.held.len(), view.handles, view.usage.pools.len()),
        (0, 0, 1),
        "it was called, and again"
    );
    scene.call(&network, "DEL", 0).run().succeeded();
}

#[test]
fn a_route_of_the_configuration_gets_the_pools_gateway() {
    let scene = match Scene::set("bridge") {
        Ok(scene) => scene,
        Err(reason) => return skip(&reason),
    };
    let network = Network::new("pods", &scene.lab.store(), &json!([{ "cidr": "10.210.2.0/24" }]))
        .with_top("cniVersion", "1.0.0")
        .with_top("bridge", "affine0")
        .with_top("isGateway", true)
        .with("routes", json!([{ "dst": "0.0.0.0/0" }, { "dst": "10.99.0.0/16", "gw": "10.210.2.7" }]));
    scene.call(&network, "ADD", 0).run().succeeded();
    let routes = scene.containers[0].ip(&["route"]);
    assert!(routes.contains("default via 10.210.2.1 dev eth0"), "{routes}");
    assert!(routes.contains("10.99.0.0/16 via 10.210.2.7 dev eth0"), "{routes}");
}
