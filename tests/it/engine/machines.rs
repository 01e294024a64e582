//! Virtual machines: sections 6, 7, 9 and 14 of the rules for them, in memory and in etcd.

mod identity;
mod life;
mod migration;
mod schedule;
mod surroundings;

use std::collections::BTreeMap;
use std::net::IpAddr;

use host_affine::api::calico::VmAddressPersistence;
use host_affine::datastore::{Datastore, MachineRole, run_in_place};
use host_affine::ipam::{
    Assign, Assigned, Attachment, Deletion, Error, Finding, Host, Ipam, MachineFate, MachineIdentity,
    MachineReport, Netns, NoOwnAddresses, Owner, Sharing, Wanted, audit, machine_handle,
};
use host_affine::net::Family;

use super::build::{Bare, any, at, configure, container, host, pool, put_pool};
use super::either::{Either, again_on_etcd};

/// No address.
const NONE: [IpAddr; 0] = [];

#[test]
fn machines_do_so_on_etcd_too() {
    let scenarios =
        ["identity", "life", "migration", "surroundings"].map(|name| format!("engine::machines::{name}::"));
    again_on_etcd(&scenarios.each_ref().map(String::as_str), 30);
}

/// Machines keep their addresses.
fn engine() -> Ipam<Either> {
    Ipam::new(prepared(Either::new()))
}

fn prepared<S: Bare>(mut store: S) -> S {
    put_pool(&mut store, pool("four", "10.0.0.0/26", 28));
    put_pool(&mut store, pool("six", "fd00::/120", 124));
    enable(&mut store);
    store
}

fn enable(store: &mut impl Bare) {
    configure(store, |spec| spec.kube_virt_vm_address_persistence = Some(VmAddressPersistence::Enabled));
}

/// A pod of the machine `prod/db`, in a sandbox of its own name.
#[derive(Clone)]
struct Launcher {
    host: Host,
    attachment: Attachment,
    pod: String,
    identity: MachineIdentity,
    wanted: Vec<Wanted>,
    netns: Option<Netns>,
    seconds: u64,
}

impl Launcher {
    fn source(host_name: &str, pod: &str) -> Self {
        Self {
            host: host(host_name),
            attachment: container(pod),
            pod: pod.into(),
            identity: MachineIdentity {
                namespace: "prod".into(),
                name: "db".into(),
                role: MachineRole::Source,
                vmi_uid: None,
                vm_uid: None,
                migration_uid: None,
            },
            wanted: vec![any(Family::V4)],
            netns: None,
            seconds: 0,
        }
    }

    fn target(host_name: &str, pod: &str) -> Self {
        let mut target = Self::source(host_name, pod);
        target.identity.role = MachineRole::Target;
        target.identity.migration_uid = Some("mig".into());
        target
    }

    fn wanting(self, wanted: impl Into<Vec<Wanted>>) -> Self {
        Self { wanted: wanted.into(), ..self }
    }

    fn dual(self) -> Self {
        self.wanting([any(Family::V4), any(Family::V6)])
    }

    fn on(mut self, network: &str, ifname: &str) -> Self {
        self.attachment.network = network.into();
        self.attachment.ifname = ifname.into();
        self
    }

    fn after(self, seconds: u64) -> Self {
        Self { seconds, ..self }
    }

    fn add(&self, ipam: &mut Ipam<impl Bare>) -> Result<Assigned, Error> {
        let assigned = run_in_place(self.ask(ipam));
        sound(ipam);
        assigned
    }

    async fn ask<D: Datastore>(&self, ipam: &mut Ipam<D>) -> Result<Assigned, Error> {
        let owner = Owner {
            attachment: self.attachment.clone(),
            host: self.host.clone(),
            netns: self.netns.clone(),
            pod: Some((self.identity.namespace.clone(), self.pod.clone())),
        };
        let request = Assign {
            host: &self.host,
            owner: &owner,
            sharing: Sharing::Machine(&self.identity),
            wanted: &self.wanted,
            pools: &[],
            gateways: None,
            import: None,
            own_addresses: &NoOwnAddresses,
            now: at(self.seconds),
        };
        ipam.assign(&request).await
    }

    /// Its addresses, as an ADD gives them.
    fn start(&self, ipam: &mut Ipam<impl Bare>) -> Vec<IpAddr> {
        let assigned = self.add(ipam).unwrap_or_else(|error| panic!("no address: {error}"));
        assigned.addresses.iter().map(|given| given.address).collect()
    }

    /// What a DEL, which knows no machine, frees.
    fn stop(&self, ipam: &mut Ipam<impl Bare>) -> Vec<IpAddr> {
        let released = run_in_place(ipam.release(&self.attachment, &self.host, at(self.seconds)));
        sound(ipam);
        released.expect("a DEL").addresses
    }

    /// What a DEL frees when the machine is being deleted.
    fn stop_deleted(&self, ipam: &mut Ipam<impl Bare>) -> Vec<IpAddr> {
        let released = run_in_place(ipam.delete(
            &Deletion { vm: MachineFate::Deleted, ..Deletion::of(&self.attachment) },
            &self.host,
            at(self.seconds),
        ));
        sound(ipam);
        released.expect("a DEL").addresses
    }
}

/// The machine as a list shows it.
fn machine(ipam: &mut Ipam<impl Bare>) -> Option<MachineReport> {
    machine_on(ipam, "net")
}

fn machine_on(ipam: &mut Ipam<impl Bare>, network: &str) -> Option<MachineReport> {
    let handle = machine_handle(network, "prod", "db").expect("a handle");
    run_in_place(ipam.machines()).expect("a list").remove(&handle)
}

/// Who owns the machine's addresses: the pods that are active and alternate; `-`: nobody.
fn owners(ipam: &mut Ipam<impl Bare>) -> (String, String) {
    let pod = |notes: &BTreeMap<String, String>| notes.get("pod").cloned().unwrap_or_else(|| "-".into());
    machine(ipam).map_or_else(|| ("gone".into(), "gone".into()), |m| (pod(&m.active), pod(&m.alternate)))
}

fn are(active: &str, alternate: &str) -> (String, String) {
    (active.into(), alternate.into())
}

fn findings(ipam: &mut Ipam<impl Bare>) -> Vec<Finding> {
    audit(ipam.store_mut().entries().into_iter().map(|entry| (entry.key, entry.object)))
}

#[track_caller]
fn sound(ipam: &mut Ipam<impl Bare>) {
    assert_eq!(findings(ipam), []);
}
