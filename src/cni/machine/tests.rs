use super::*;
use crate::cni::args::Args;
use crate::cni::config::Trust;
use crate::workload::NoWorkloads;

fn request(pod: Option<&str>, args: &str, annotations: &[(&str, &str)], vm: Option<&str>) -> Request {
    let args = Args::lenient(&format!("K8S_POD_NAMESPACE=prod;{args}"));
    Request {
        pod: pod.map(|name| Pod { namespace: "prod".into(), name: name.into() }),
        args,
        annotations: annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        vm: vm.map(str::to_owned),
        ..Request::default()
    }
}

fn found(request: &Request, conf: &KubevirtConf) -> Option<(String, MachineRole)> {
    let machine = identify(request, conf, &NoWorkloads).expect("no failure")?;
    Some((format!("{}/{}", machine.namespace, machine.name), machine.role))
}

fn source(name: &str) -> (String, MachineRole) {
    (name.to_owned(), MachineRole::Source)
}

fn unknown(name: &str) -> (String, MachineRole) {
    (name.to_owned(), MachineRole::Unknown)
}

fn target(name: &str) -> (String, MachineRole) {
    (name.to_owned(), MachineRole::Target)
}

const LAUNCHED: Option<&str> = Some("virt-launcher-db-1-x7k2p");

#[test]
fn what_the_runtime_was_told_counts_first() {
    let conf = KubevirtConf::default();
    let annotations = [(DOMAIN, "annotated")];
    let told = request(LAUNCHED, "IPAM_VM_NAME=told;IPAM_VM_ROLE=target", &annotations, None);
    assert_eq!(found(&told, &conf), Some(target("prod/told")));
    let object = Some(r#"{"namespace":"other","name":"obj","role":"source"}"#);
    let told = request(LAUNCHED, "IPAM_VM_NAME=told", &annotations, object);
    assert_eq!(found(&told, &conf), Some(source("other/obj")));
    let without_a_role = request(LAUNCHED, "IPAM_VM_NAME=told", &annotations, None);
    assert_eq!(found(&without_a_role, &conf), Some(unknown("prod/told")));
    let nothing = request(LAUNCHED, "", &annotations, None);
    assert_eq!(found(&nothing, &conf), Some(source("prod/annotated")));
}

#[test]
fn an_annotation_counts_on_a_launcher_pod_alone() {
    let conf = KubevirtConf::default();
    assert_eq!(found(&request(Some("shop-0"), "", &[(DOMAIN, "db-1")], None), &conf), None);
    assert_eq!(found(&request(None, "", &[(DOMAIN, "db-1")], None), &conf), None);
    let migrates = [(DOMAIN, "db-1"), (MIGRATION, "mig-7")];
    assert_eq!(found(&request(LAUNCHED, "", &migrates, None), &conf), Some(target("prod/db-1")));
}

#[test]
fn a_pods_name_counts_only_where_that_is_switched_on_and_was_not_cut() {
    let on = KubevirtConf { pod_name: Trust::Everywhere, ..KubevirtConf::default() };
    let launched = request(LAUNCHED, "", &[], None);
    assert_eq!(found(&launched, &KubevirtConf::default()), None);
    assert_eq!(found(&launched, &on), Some(unknown("prod/db-1")));
    let longest = format!("virt-launcher-{}-x7k2p", "a".repeat(42));
    let cut = format!("virt-launcher-{}-x7k2p", "a".repeat(43));
    assert!(found(&request(Some(&longest), "", &[], None), &on).is_some());
    assert_eq!(found(&request(Some(&cut), "", &[], None), &on), None, "two machines may share it");
    for other in ["virt-launcher-db-1-x7k2a", "virt-launcher-db-1", "virt-launcher--x7k2p", "shop-x7k2p"] {
        assert_eq!(found(&request(Some(other), "", &[], None), &on), None, "{other}");
    }
}

#[test]
fn each_way_counts_in_the_namespaces_that_it_is_trusted_in() {
    let elsewhere = || Trust::In(vec!["lab".into()]);
    let conf = KubevirtConf {
        arguments: elsewhere(),
        annotations: elsewhere(),
        pod_name: elsewhere(),
        vm_retention: None,
    };
    let all = request(LAUNCHED, "IPAM_VM_NAME=told", &[(DOMAIN, "db-1")], None);
    assert_eq!(found(&all, &conf), None);
    let here = KubevirtConf { annotations: Trust::In(vec!["prod".into()]), ..conf };
    assert_eq!(found(&all, &here), Some(source("prod/db-1")));
}

#[test]
fn what_is_told_wrongly_is_refused_with_what_is_expected() {
    let refused = |request: &Request| {
        identify(request, &KubevirtConf::default(), &NoWorkloads).expect_err("refused").msg
    };
    let role = request(LAUNCHED, "IPAM_VM_NAME=a;IPAM_VM_ROLE=guest", &[], None);
    assert_eq!(refused(&role), "network config: `IPAM_VM_ROLE` is `guest`; expected `source` or `target`");
    let nameless = request(LAUNCHED, "", &[], Some(r#"{"namespace":"prod"}"#));
    assert_eq!(refused(&nameless), "network config: `args.cni.vm.name` is missing; it is a text");
    let long = request(LAUNCHED, &format!("IPAM_VM_NAME={}", "a".repeat(254)), &[], None);
    assert!(refused(&long).contains("has 254 bytes; Kubernetes allows 253"));
    let mut homeless = request(None, "IPAM_VM_NAME=a", &[], None);
    homeless.args.pod_namespace = None;
    assert!(refused(&homeless).contains("namespace is not known"));
    let dotted = request(LAUNCHED, "IPAM_VM_NAME=c;IPAM_VM_NAMESPACE=a.b", &[], None);
    assert_eq!(
        refused(&dotted),
        "network config: virtual machine namespace `a.b` holds a dot, which no Kubernetes namespace does"
    );
    let mut annotated = request(LAUNCHED, "", &[(DOMAIN, "c")], None);
    annotated.pod = annotated.pod.map(|pod| Pod { namespace: "a.b".into(), ..pod });
    assert!(refused(&annotated).contains("`a.b` holds a dot"));
}

/// A cluster that knows one pod.
struct Cluster {
    pod: Result<PodAnswer, AskError>,
    deleted: Result<bool, AskError>,
}

impl Workloads for Cluster {
    fn pod(&self, _: &str, _: &str) -> Result<PodAnswer, AskError> {
        self.pod.clone()
    }

    fn machine_is_deleted(&self, _: &str, _: &str) -> Result<bool, AskError> {
        self.deleted.clone()
    }
}

#[test]
fn a_cluster_is_asked_where_nothing_else_tells() {
    let identity = plain(&Pod { namespace: "prod".into(), name: "p".into() }, "db-1", MachineRole::Target);
    let lost = || AskError { about: "pod `prod/p`".into(), reason: "no answer".into() };
    let conf = KubevirtConf::default();
    let launched = request(LAUNCHED, "", &[], None);
    let knows = Cluster { pod: Ok(PodAnswer::Machine(identity.clone())), deleted: Ok(true) };
    assert_eq!(identify(&launched, &conf, &knows).expect("an answer"), Some(identity));
    let silent = Cluster { pod: Err(lost()), deleted: Err(lost()) };
    let failure = identify(&launched, &conf, &silent).expect_err("no answer");
    assert_eq!(
        (failure.code, failure.msg.as_str()),
        (Code::TryAgainLater, "could not ask about pod `prod/p`: no answer")
    );
    assert!(is_deleted(&launched, &knows) && !is_deleted(&launched, &silent), "doubt means alive");
}

#[test]
fn a_deletion_is_told_by_the_runtime_or_the_cluster() {
    assert!(is_deleted(&request(LAUNCHED, "IPAM_VM_DELETING=1", &[], None), &NoWorkloads));
    let object = Some(r#"{"name":"a","deleting":true}"#);
    assert!(is_deleted(&request(LAUNCHED, "", &[], object), &NoWorkloads));
    assert!(!is_deleted(&request(LAUNCHED, "IPAM_VM_DELETING=0", &[(DOMAIN, "a")], None), &NoWorkloads));
}
