//! Pods under containerd, and what they ask for by annotations: no API server is there.

use std::net::IpAddr;

use super::containerd::Containerd;
use super::image;
use crate::support::cni::skip;

fn containerd() -> Option<Containerd> {
    match Containerd::start() {
        Ok(containerd) => Some(containerd),
        Err(reason) => {
            skip(&reason);
            None
        }
    }
}

#[test]
fn containerds_own_client_runs_a_container_with_an_address_and_says_why_it_cannot() {
    let Some(containerd) = containerd() else { return };
    let run = |name: &str| {
        containerd.ctr(&["run", "--rm", "--cni", image::NAME, name, "/bin/ip", "-4", "addr", "show", "eth0"])
    };
    let given = run("one").address();
    assert!(given.to_string().starts_with("10.88.7."), "{given}");
    assert_eq!(containerd.machine.view().held.len(), 0, "it came back when the container ended");
    containerd
        .machine
        .host_affine(&["patch", "ippool", "pods", "-p", r#"{"spec":{"disabled":true}}"#])
        .well();
    containerd.machine.host_affine(&["patch", "ippool", "vip", "-p", r#"{"spec":{"disabled":true}}"#]).well();
    run("two").fails_with(&["10.88.7.0/24", "disabled"]);
    let view = containerd.machine.view();
    assert_eq!((view.held.len(), view.handles), (0, 0));
}

#[test]
fn a_pod_gets_the_address_or_the_pool_of_its_annotations_and_the_kubelet_is_told_why_not() {
    let Some(containerd) = containerd() else { return };
    let (plain, address) = containerd.pod("plain", "u1", &[]).expect("a sandbox");
    assert!(address.to_string().starts_with("10.88."), "{address}");
    let asked = [("cni.projectcalico.org/ipAddrs", r#"["10.88.8.77"]"#)];
    let (fixed, address) = containerd.pod("fixed", "u2", &asked).expect("a sandbox");
    assert_eq!(address, "10.88.8.77".parse::<IpAddr>().expect("an address"));
    let from = [("cni.projectcalico.org/ipv4pools", r#"["vip"]"#)];
    let (pooled, address) = containerd.pod("pooled", "u3", &from).expect("a sandbox");
    assert!(address.to_string().starts_with("10.88.8."), "{address}");
    assert_eq!(containerd.machine.view().held.len(), 3);

    let refused = containerd.pod("second", "u4", &asked).expect_err("it is taken");
    for word in ["10.88.8.77", "prod", "fixed", "node-1"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
    let nowhere = [("cni.projectcalico.org/ipAddrs", r#"["10.99.0.1"]"#)];
    let refused = containerd.pod("third", "u5", &nowhere).expect_err("it lies in no pool");
    assert!(refused.contains("10.99.0.1") && containerd.log().contains("10.99.0.1"), "{refused}");
    assert_eq!(containerd.machine.view().held.len(), 3, "what was refused holds nothing");
    for id in [plain, fixed, pooled] {
        containerd.end(&id);
    }
    let view = containerd.machine.view();
    assert_eq!((view.held.len(), view.handles), (0, 0));
}

#[test]
fn a_virtual_machines_pod_has_its_address_again_in_every_sandbox() {
    let Some(containerd) = containerd() else { return };
    let machine = &containerd.machine;
    machine.host_affine(&["ipam", "configure", "--kubevirt-ip-persistence=Enabled"]).well();
    let of_web = [("kubevirt.io/domain", "web")];
    let (first, address) = containerd.pod("virt-launcher-web-aaaaa", "u1", &of_web).expect("a sandbox");
    containerd.end(&first);
    assert_eq!(machine.view().held.len(), 1, "it is the machine's");
    for n in 0..3 {
        let (other, others) = containerd.pod(&format!("other{n}"), &format!("o{n}"), &[]).expect("a sandbox");
        assert_ne!(others, address);
        containerd.end(&other);
        let name = format!("virt-launcher-web-bbbb{n}");
        let (sandbox, again) = containerd.pod(&name, &format!("v{n}"), &of_web).expect("a sandbox");
        assert_eq!(again, address);
        containerd.end(&sandbox);
    }
    machine.host_affine(&["ipam", "release", "--vm=prod/web", "--yes"]).well();
    assert_eq!(machine.view().held.len(), 0);
}
