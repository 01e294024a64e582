//! A virtual machine that moves between hosts which know of each other only by etcd.

use serde_json::json;

use super::hosts::{held, is_sound, network, pool, typed};
use crate::support::cni::{Call, Network};
use crate::support::etcd::{Server, need_etcd};

fn call(network: &Network, node: &str, verb: &str, pod: &str, is_target: bool) -> Call {
    let mut annotations = json!({ "kubevirt.io/domain": "db" });
    if is_target {
        annotations["kubevirt.io/migrationJobName"] = "mig".into();
    }
    let network = network
        .on(node)
        .with_top("runtimeConfig", json!({ "io.kubernetes.cri.pod-annotations": annotations }));
    let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME={pod}");
    network.call(verb, pod).variable("CNI_ARGS", args)
}

#[test]
fn a_machine_moves_between_hosts_by_etcd_and_keeps_its_address() {
    need_etcd!();
    let server = Server::start();
    let urls = [server.url()];
    typed(&urls, &["ipam", "configure", "--kubevirt-ip-persistence=Enabled"], "").succeeded();
    pool(&urls, "four", "10.79.0.0/24", 28);
    pool(&urls, "six", "fd79::/64", 122);
    let network = network("vms", &urls).with("assign_ipv6", "true").with("assign_ipv4", "true");
    let given = call(&network, "node-1", "ADD", "virt-launcher-db-aaaaa", false).run().addresses();
    assert_eq!(given.len(), 2);
    let other = network.on("node-2").add("other").addresses();
    assert!(other.iter().all(|address| !given.contains(address)), "{other:?}");

    let mut at = ("node-1", "virt-launcher-db-aaaaa".to_owned());
    for (number, node) in ["node-2", "node-1", "node-2"].into_iter().enumerate() {
        let pod = format!("virt-launcher-db-{number}bbbb");
        assert_eq!(call(&network, node, "ADD", &pod, true).run().addresses(), given, "a target");
        network.on(at.0).call("DEL", &at.1).variable("CNI_NETNS", "").run().succeeded();
        assert_eq!(holders(&urls, &given), 2, "it stays the machine's");
        at = (node, pod);
    }
    // A target that is never used leaves the source alone.
    assert_eq!(call(&network, "node-1", "ADD", "virt-launcher-db-never", true).run().addresses(), given);
    network.on("node-1").call("DEL", "virt-launcher-db-never").variable("CNI_NETNS", "").run().succeeded();
    assert_eq!(holders(&urls, &given), 2);
    // It is stopped, and starts again on the other host.
    network.on(at.0).call("DEL", &at.1).variable("CNI_NETNS", "").run().succeeded();
    let again = call(&network, "node-1", "ADD", "virt-launcher-db-again", false).run().addresses();
    assert_eq!(again, given);
    network
        .on("node-1")
        .call("DEL", "virt-launcher-db-again")
        .variable("CNI_NETNS", "")
        .variable("CNI_ARGS", "IgnoreUnknown=1;IPAM_VM_DELETING=1")
        .run()
        .succeeded();
    assert_eq!(holders(&urls, &given), 0, "the machine was deleted");
    is_sound(&urls);
}

/// How many of these addresses are held.
fn holders(urls: &[String], addresses: &[std::net::IpAddr]) -> usize {
    held(urls).iter().filter(|(address, _)| addresses.contains(address)).count()
}
