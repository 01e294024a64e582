//! Virtual machines as runtimes bring them: their pods' annotations in the configuration, and a DEL that knows nothing.

use std::net::IpAddr;
use std::path::Path;

use host_affine::api::calico::{IpamConfigurationSpec, VmAddressPersistence};
use host_affine::clock::Timestamp;
use host_affine::datastore::file::{Access, IfAbsent};
use host_affine::datastore::{Batch, Collection, Commit, Datastore as _, Machine, Want, run_in_place};
use host_affine::ipam::{Ipam, MachineReport};
use serde_json::{Value, json};

use super::main_plugins::{addresses_of, two_hosts};
use crate::support::cni::{Call, Network, plugin, skip};
use crate::support::store::{Lab, View, configure, copy_tree, open};
use crate::support::strace::{self, SystemCall, strace};
use crate::support::tally::tell;

/// A pod of the machine `prod/db`: its node, and whether it is the target of a migration.
#[derive(Clone, Copy)]
struct Pod {
    name: &'static str,
    node: &'static str,
    is_target: bool,
}

const SOURCE: Pod = Pod { name: "virt-launcher-db-aaaaa", node: "node-1", is_target: false };
const TARGET: Pod = Pod { name: "virt-launcher-db-bbbbb", node: "node-2", is_target: true };
const BACK: Pod = Pod { name: "virt-launcher-db-ccccc", node: "node-1", is_target: true };

fn network(store: &Path) -> Network {
    Network::new("vms", store, &json!([{ "cidr": "10.205.0.0/24" }, { "cidr": "fd05::/64" }]))
}

fn enable(store: &Path) {
    let spec = IpamConfigurationSpec {
        kube_virt_vm_address_persistence: Some(VmAddressPersistence::Enabled),
        ..IpamConfigurationSpec::default()
    };
    configure(store, spec);
}

/// An ADD for a pod, as containerd passes it on.
fn add(network: &Network, pod: Pod) -> Call {
    let mut annotations = json!({ "kubevirt.io/domain": "db" });
    if pod.is_target {
        annotations["kubevirt.io/migrationJobName"] = "mig".into();
    }
    let network = network
        .on(pod.node)
        .with_top("runtimeConfig", json!({ "io.kubernetes.cri.pod-annotations": annotations }));
    let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME={}", pod.name);
    network.call("ADD", pod.name).variable("CNI_ARGS", args)
}

/// A DEL that says the container and nothing else.
fn del(network: &Network, pod: Pod) -> Call {
    network.on(pod.node).call("DEL", pod.name).variable("CNI_NETNS", "")
}

fn machine(store: &Path) -> MachineReport {
    let store = open(store, Access::Read, IfAbsent::None).expect("a store");
    let mut machines = run_in_place(Ipam::new(store).machines()).expect("machines");
    assert_eq!(machines.len(), 1, "{machines:?}");
    machines.pop_first().expect("one").1
}

fn active(report: &MachineReport) -> &str {
    report.active.get("pod").map_or("-", String::as_str)
}

fn alternate(report: &MachineReport) -> &str {
    report.alternate.get("pod").map_or("-", String::as_str)
}

#[test]
fn a_machine_migrates_with_nothing_but_its_pods_annotations() {
    let lab = Lab::new();
    enable(&lab.store());
    let network = network(&lab.store());
    let given = add(&network, SOURCE).run().addresses();
    assert_eq!(add(&network, TARGET).run().addresses(), given);
    let report = machine(&lab.store());
    assert_eq!((active(&report), alternate(&report)), (SOURCE.name, TARGET.name));
    del(&network, SOURCE).run().succeeded();
    del(&network, SOURCE).run().succeeded();
    let report = machine(&lab.store());
    assert_eq!((active(&report), alternate(&report)), (TARGET.name, "-"));
    assert_eq!(report.active.get("node").map(String::as_str), Some("node-2"));
    del(&network, TARGET).run().succeeded();
    assert!(machine(&lab.store()).ownerless_since.is_some());
    assert_eq!(add(&network, SOURCE).run().addresses(), given);
    View::of(&lab.store()).sound();
}

#[test]
fn in_routed_addressing_a_target_is_given_no_routes_until_it_has_the_address() {
    let lab = Lab::new();
    enable(&lab.store());
    let network = network(&lab.store()).with("addressing", "routed");
    let routes = |result: &Value| result["routes"].as_array().map_or(0, Vec::len);
    assert_eq!(routes(&add(&network, SOURCE).run().result()), 2);
    assert_eq!(routes(&add(&network, TARGET).run().result()), 0);
    del(&network, SOURCE).run().succeeded();
    assert_eq!(routes(&add(&network, TARGET).run().result()), 2, "its sandbox is built again");
}

#[test]
fn with_the_setting_off_a_pod_of_a_machine_is_a_pod_and_a_target_is_told_so() {
    let lab = Lab::new();
    let network = network(&lab.store());
    add(&network, SOURCE).run().addresses();
    let refusal = add(&network, TARGET).run().refused();
    assert_eq!(refusal.code, 113);
    refusal.says(&[
        "not allowed when KubeVirtVMAddressPersistence is disabled",
        "kubevirt-ip-persistence=Enabled",
    ]);
    del(&network, SOURCE).run().succeeded();
    assert_eq!(View::of(&lab.store()).sound().held.len(), 0);
}

#[test]
fn a_machine_that_is_being_deleted_gives_its_addresses_back() {
    let lab = Lab::new();
    enable(&lab.store());
    let network = network(&lab.store());
    add(&network, SOURCE).run().addresses();
    del(&network, SOURCE).variable("CNI_ARGS", "IgnoreUnknown=1;IPAM_VM_DELETING=1").run().succeeded();
    let view = View::of(&lab.store()).sound();
    assert_eq!((view.held.len(), view.handles), (0, 0));
}

#[test]
fn what_a_machine_lost_by_time_makes_room_for_others() {
    let lab = Lab::new();
    enable(&lab.store());
    let pools = json!([{ "cidr": "10.205.9.0/30", "blockSize": 30 }]);
    let network = Network::new("vms", &lab.store(), &pools).with("kubevirt", json!({ "vmRetention": "1h" }));
    add(&network, SOURCE).run().addresses();
    del(&network, SOURCE).run().succeeded();
    // One usable address, and it is the machine's for an hour.
    assert_eq!(network.add("other").refused().code, 101);
    age(&lab.store());
    network.add("other").address();
    View::of(&lab.store()).sound();
}

/// What a person reads who runs the command line on a store, and how it ended.
fn command(store: &Path, words: &[&str]) -> (i32, String, String) {
    let datastore = format!("file://{}", store.display());
    let output = std::process::Command::new(plugin())
        .args(["--datastore", &datastore])
        .args(words)
        .env_clear()
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn whoever_is_on_call_sees_machines_and_releases_one_by_name() {
    let lab = Lab::new();
    let store = lab.store();
    enable(&store);
    let network = network(&store);
    let given = add(&network, SOURCE).run().addresses();
    add(&network, TARGET).run().succeeded();
    let (status, shown, _) = command(&store, &["ipam", "show", "--vm"]);
    assert_eq!(status, 0);
    for word in [
        "prod",
        "db",
        "vms",
        &given[0].to_string(),
        "virt-launcher-db-aaaaa on node-1",
        "virt-launcher-db-bbbbb on node-2",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    for pod in [TARGET, SOURCE] {
        del(&network, pod).run().succeeded();
    }
    let (_, document, _) = command(&store, &["-o", "json", "ipam", "show", "--vm"]);
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let machine = &document["virtualMachines"][0];
    assert_eq!((&machine["activeOwner"], machine["ownerlessSince"].is_string()), (&Value::Null, true));
    let (status, found, _) = command(&store, &["ipam", "check", "--yes"]);
    assert!(status == 0 || !found.contains("leak"), "a stopped machine is no leak: {found}");
    let (status, would, _) = command(&store, &["ipam", "release", "--vm=prod/db", "--dry-run"]);
    assert!(status == 0 && would.contains(&format!("Would release {}", given[0])), "{would}");
    let (status, _, refused) = command(&store, &["ipam", "release", &format!("--ip={}", given[0])]);
    assert!(status == 2 && refused.contains("belongs to a virtual machine"), "{refused}");
    let (status, released, _) = command(&store, &["ipam", "release", "--vm=prod/db", "--yes"]);
    assert!(status == 0 && released.contains(&format!("Released {}", given[0])), "{released}");
    let (status, _, nothing) = command(&store, &["ipam", "release", "--vm=prod/db", "--yes"]);
    assert!(status == 1 && nothing.contains("has no address and no record"), "{nothing}");
    let view = View::of(&store).sound();
    assert_eq!((view.held.len(), view.handles), (0, 0));
}

/// Makes it long since the machine had a pod.
fn age(store: &Path) {
    let mut store = open(store, Access::Change, IfAbsent::None).expect("a store");
    let read = run_in_place(store.read(&[Want::All(Collection::Machines)])).expect("machines");
    let entry = read.into_iter().next().expect("an answer").objects().pop().expect("a machine");
    let (key, revision) = (entry.key.clone(), entry.revision);
    let mut machine: Machine = entry.into();
    assert!(machine.ownerless_since.is_some());
    // 2020-09-13, in an earlier boot: in this one the boot clock counts too.
    machine.ownerless_since = Some(Timestamp::from_nanos(1_600_000_000_000_000_000));
    machine.ownerless_boot = None;
    let mut batch = Batch::default();
    batch.update(key, revision, machine);
    assert_eq!(run_in_place(store.commit(batch)).expect("committed"), Commit::Applied);
}

#[test]
fn parallel_first_starts_of_one_machine_have_one_address() {
    let lab = Lab::new();
    enable(&lab.store());
    let network = network(&lab.store());
    let pods = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let calls: Vec<Call> = pods
        .iter()
        .map(|pod| {
            let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME={pod};IPAM_VM_NAME=db");
            network.call("ADD", pod).variable("CNI_ARGS", args)
        })
        .collect();
    let answers = crate::support::cni::at_once(&calls);
    let mut given: Vec<Vec<IpAddr>> = answers.into_iter().map(|answer| answer.addresses()).collect();
    given.dedup();
    assert_eq!(given.len(), 1, "{given:?}");
    View::of(&lab.store()).sound();
}

/// Kills a call before each of its system calls in turn, on a copy of a store each.
fn survives_every_kill(
    call: fn(&Network) -> Call,
    prepare: fn(&Network),
    after: fn(&Network, &MachineReport),
) {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let template = lab.path().join("template");
    enable(&template);
    prepare(&network(&template));
    let given = machine(&template).addresses;
    let undisturbed = lab.path().join("undisturbed");
    copy_tree(&template, &undisturbed);
    let (answer, calls) = strace::record(&strace, call(&network(&undisturbed)), lab.path());
    answer.succeeded();
    let points: Vec<SystemCall> = calls.into_iter().skip(1).collect();
    assert!(points.len() > 30);
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    tell(&format!("COUNT {} kills at a system call: {name}", points.len()));
    for (number, point) in points.iter().enumerate() {
        let store = lab.path().join(format!("trial-{number}"));
        copy_tree(&template, &store);
        let network = network(&store);
        let answer = strace::troubled(&strace, call(&network), &point.inject("signal=KILL"));
        let spared = point.is_by_chance() && answer.is_success();
        assert!(answer.was_killed() || spared, "not killed at {}: {answer:?}", point.line);
        let report = machine(&store);
        assert_eq!(report.addresses, given, "killed at {}", point.line);
        let (active, alternate) = (active(&report), alternate(&report));
        assert!(active != "-", "no active owner; killed at {}", point.line);
        assert_ne!(active, alternate, "killed at {}", point.line);
        View::of(&store).sound();
        call(&network).run().succeeded();
        View::of(&store).sound();
        after(&network, &machine(&store));
        std::fs::remove_dir_all(&store).expect("a copy");
    }
}

#[test]
fn a_target_that_is_killed_while_it_comes_takes_nothing_and_comes_again() {
    survives_every_kill(
        |network| add(network, TARGET),
        |network| {
            add(network, SOURCE).run().addresses();
        },
        |_, report| assert_eq!((active(report), alternate(report)), (SOURCE.name, TARGET.name)),
    );
}

#[test]
fn a_sources_del_that_is_killed_leaves_one_owner_and_can_be_repeated() {
    survives_every_kill(
        |network| del(network, SOURCE),
        |network| {
            add(network, SOURCE).run().addresses();
            add(network, TARGET).run().addresses();
        },
        |_, report| assert_eq!((active(report), alternate(report)), (TARGET.name, "-")),
    );
}

#[test]
fn a_machine_migrates_between_two_hosts_that_share_a_store_and_back() {
    let [one, two] = match two_hosts("bridge") {
        Ok(hosts) => hosts,
        Err(reason) => return skip(&reason),
    };
    let store = one.lab.store();
    enable(&store);
    let network = network(&store)
        .with_top("cniVersion", "1.0.0")
        .with_top("type", "bridge")
        .with_top("bridge", "vmbr0")
        .with_top("capabilities", json!({ "io.kubernetes.cri.pod-annotations": true }));
    let start = |scene: &super::main_plugins::Scene, pod: Pod, number: usize| {
        addresses_of(&scene.dressed(add(&network, pod), number).run().result())
    };
    let given = start(&one, SOURCE, 0);
    assert_eq!(start(&two, TARGET, 0), given);
    // The target is lost half-way, and another is made while the source runs on.
    two.dressed(del(&network, TARGET), 0).run().succeeded();
    let report = machine(&store);
    assert_eq!((active(&report), alternate(&report)), (SOURCE.name, "-"));
    assert_eq!(start(&two, TARGET, 0), given);
    one.dressed(del(&network, SOURCE), 0).run().succeeded();
    let report = machine(&store);
    assert_eq!(
        (active(&report), report.active.get("node").map(String::as_str)),
        (TARGET.name, Some("node-2"))
    );
    assert_eq!(start(&one, BACK, 1), given);
    two.dressed(del(&network, TARGET), 0).run().succeeded();
    let report = machine(&store);
    assert_eq!((active(&report), alternate(&report)), (BACK.name, "-"));
    assert_eq!(report.addresses.len(), given.len());
    one.dressed(del(&network, BACK), 1).run().succeeded();
    View::of(&store).sound();
}
