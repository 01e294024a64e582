//! Whether a call is about a virtual machine's pod, and which machine that is.
//!
//! In this order: what the runtime was told of the machine, the pod's annotations, a cluster's API, and, where it is
//! switched on, the pod's name. Each counts in the namespaces for which the configuration trusts it.

use super::config::{KubevirtConf, NAME_BYTES_MAX, Pod, Request};
use super::failure::{Code, Failure};
use super::json;
use crate::api::check_vm_namespace;
use crate::datastore::MachineRole;
use crate::ipam::MachineIdentity;
use crate::workload::{AskError, PodAnswer, Workloads};

const DOMAIN: &str = "kubevirt.io/domain";
const MIGRATION: &str = "kubevirt.io/migrationJobName";
/// How the pods of virtual machines begin. A pod's annotations are its owner's to write; its name is too, but it shows.
const LAUNCHER: &str = "virt-launcher-";
/// The letters of the part that an API server adds to a name.
const SUFFIX: &str = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LETTERS: usize = 5;
/// What an API server keeps of a name before it adds its part. A longer one was cut, and names no machine any more.
const BASE_MAX: usize = 57;

/// Finds out which machine a pod belongs to; `None`: it is a pod.
///
/// # Errors
/// Code 7 when what the runtime was told is no machine; 11 when the cluster could not be asked.
pub(super) fn identify(
    request: &Request,
    conf: &KubevirtConf,
    workloads: &dyn Workloads,
) -> Result<Option<MachineIdentity>, Failure> {
    let found = find(request, conf, workloads)?;
    if let Some(machine) = &found {
        check_vm_namespace(&machine.namespace).map_err(Failure::config)?;
    }
    Ok(found)
}

fn find(
    request: &Request,
    conf: &KubevirtConf,
    workloads: &dyn Workloads,
) -> Result<Option<MachineIdentity>, Failure> {
    let told = told(request)?.map(checked).transpose()?;
    if let Some(machine) = told.filter(|machine| conf.arguments.covers(&machine.namespace)) {
        return Ok(Some(machine));
    }
    let Some(pod) = &request.pod else {
        return Ok(None);
    };
    if conf.annotations.covers(&pod.namespace)
        && let Some(machine) = annotated(request, pod)
    {
        return Ok(Some(machine));
    }
    if let PodAnswer::Machine(machine) = workloads.pod(&pod.namespace, &pod.name).map_err(|e| unknown(&e))? {
        return Ok(Some(machine));
    }
    Ok(named(pod).filter(|machine| conf.pod_name.covers(&machine.namespace)))
}

/// Whether the machine is known to be deleted. What cannot be told counts as no.
pub(super) fn is_deleted(request: &Request, workloads: &dyn Workloads) -> bool {
    let flag = request.args.vm.get("IPAM_VM_DELETING").is_some_and(|value| value == "1" || value == "true");
    if flag || told_field(request, "deleting") == Some("true".into()) {
        return true;
    }
    let machine = told(request).ok().flatten().or_else(|| {
        let pod = request.pod.as_ref()?;
        annotated(request, pod).or_else(|| named(pod))
    });
    machine.is_some_and(|machine| {
        workloads.machine_is_deleted(&machine.namespace, &machine.name).unwrap_or_else(|error| {
            log::warn!("{error}; the machine counts as alive");
            false
        })
    })
}

fn unknown(error: &AskError) -> Failure {
    Failure::new(Code::TryAgainLater, error.to_string())
}

/// Refuses names that are too long for Kubernetes. They are identities, so they cannot be cut.
fn checked(machine: MachineIdentity) -> Result<MachineIdentity, Failure> {
    let uids = [&machine.vmi_uid, &machine.vm_uid, &machine.migration_uid].into_iter().flatten();
    let longest = [&machine.namespace, &machine.name].into_iter().chain(uids).map(String::len).max();
    match longest.filter(|len| *len > NAME_BYTES_MAX) {
        None => Ok(machine),
        Some(len) => Err(Failure::config(format!(
            "a name or UID of the machine has {len} bytes; Kubernetes allows {NAME_BYTES_MAX}"
        ))),
    }
}

/// What `args.cni.vm`, or `CNI_ARGS`, says.
fn told(request: &Request) -> Result<Option<MachineIdentity>, Failure> {
    if request.vm.is_some() {
        return from_object(request).map(Some);
    }
    let vm = &request.args.vm;
    let Some(name) = vm.get("IPAM_VM_NAME") else {
        return Ok(None);
    };
    let pod_namespace = request.args.pod_namespace.as_ref();
    let namespace = vm.get("IPAM_VM_NAMESPACE").or(pod_namespace).ok_or_else(|| {
        Failure::config(
            "`IPAM_VM_NAME` is set without `IPAM_VM_NAMESPACE` or `K8S_POD_NAMESPACE`: the machine's namespace is not known",
        )
    })?;
    let role = role("IPAM_VM_ROLE", vm.get("IPAM_VM_ROLE").map(String::as_str))?;
    Ok(Some(MachineIdentity {
        namespace: namespace.clone(),
        name: name.clone(),
        role,
        vmi_uid: vm.get("IPAM_VMI_UID").cloned(),
        vm_uid: vm.get("IPAM_VM_UID").cloned(),
        migration_uid: vm.get("IPAM_MIGRATION_UID").cloned(),
    }))
}

fn from_object(request: &Request) -> Result<MachineIdentity, Failure> {
    let field = |key: &str| told_field(request, key).filter(|value| !value.is_empty());
    let missing = |key: &str| Failure::config(format!("`args.cni.vm.{key}` is missing; it is a text"));
    let pod_namespace = request.args.pod_namespace.clone();
    Ok(MachineIdentity {
        namespace: field("namespace").or(pod_namespace).ok_or_else(|| missing("namespace"))?,
        name: field("name").ok_or_else(|| missing("name"))?,
        role: role("args.cni.vm.role", field("role").as_deref())?,
        vmi_uid: field("vmiUID"),
        vm_uid: field("vmUID"),
        migration_uid: field("migrationUID"),
    })
}

/// A member of `args.cni.vm`: a text, or a truth as text.
fn told_field(request: &Request, key: &str) -> Option<String> {
    let text = request.vm.as_ref()?;
    let document = json::document(text.as_bytes()).ok()?;
    let value = document.object()?.get(key)?;
    value.string().map(std::borrow::Cow::into_owned).or_else(|| value.bool().map(|truth| truth.to_string()))
}

fn role(key: &str, role: Option<&str>) -> Result<MachineRole, Failure> {
    match role {
        None => Ok(MachineRole::Unknown),
        Some("source") => Ok(MachineRole::Source),
        Some("target") => Ok(MachineRole::Target),
        Some(other) => {
            let other = other.escape_debug();
            Err(Failure::config(format!("`{key}` is `{other}`; expected `source` or `target`")))
        }
    }
}

fn annotated(request: &Request, pod: &Pod) -> Option<MachineIdentity> {
    if !pod.name.starts_with(LAUNCHER) {
        return None;
    }
    let name = request.annotations.get(DOMAIN).filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()))?;
    let migrates = request.annotations.get(MIGRATION).is_some_and(|job| !job.is_empty());
    Some(plain(pod, name, if migrates { MachineRole::Target } else { MachineRole::Source }))
}

fn named(pod: &Pod) -> Option<MachineIdentity> {
    let (base, suffix) = pod.name.rsplit_once('-')?;
    let is_generated = suffix.len() == SUFFIX_LETTERS && suffix.chars().all(|c| SUFFIX.contains(c));
    let name = base.strip_prefix(LAUNCHER).filter(|name| !name.is_empty())?;
    (is_generated && base.len() < BASE_MAX).then(|| plain(pod, name, MachineRole::Unknown))
}

fn plain(pod: &Pod, name: &str, role: MachineRole) -> MachineIdentity {
    MachineIdentity {
        namespace: pod.namespace.clone(),
        name: name.to_owned(),
        role,
        vmi_uid: None,
        vm_uid: None,
        migration_uid: None,
    }
}

#[cfg(test)]
mod tests;
