//! The configuration has two homes in Calico's etcd, which Calico itself keeps apart.
//!
//! | key | who goes by it | who writes it |
//! | --- | --- | --- |
//! | `/calico/ipam/v2/config` | Calico's allocator, for all but the addresses of virtual machines | `calicoctl ipam configure` |
//! | `…/ipamconfigurations/default` | Calico's plugin, for `kubeVirtVMAddressPersistence` alone | `calicoctl apply`, calico-node |
//!
//! So that one pool is served by one set of rules, each option counts where Calico goes by it: those of the allocator from
//! the first key, if it is there (an option that is missing in it is *false* or 0, also `auto_allocate_blocks`), else from
//! the resource; the persistence from the resource, if it says one, else from the first key. Whatever we write goes to
//! both in one transaction, so afterwards they agree.

use serde::{Deserialize, Serialize};

use super::codec::{damaged, resource, whole};
use super::json::keep_unknown;
use super::keys::ALLOCATOR_CONFIG;
use crate::api::calico::{IpamConfiguration, IpamConfigurationSpec, VmAddressPersistence};
use crate::datastore::{Error, Key, Revision};

/// The first home. An absent field is false or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AllocatorConfig {
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) strict_affinity: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) auto_allocate_blocks: bool,
    #[serde(default, skip_serializing_if = "is_zero", rename = "maxBlocksPerHost")]
    pub(super) max_blocks_per_host: u32,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "kubeVirtVMAddressPersistence")]
    pub(super) kube_virt_vm_address_persistence: Option<VmAddressPersistence>,
    #[serde(default, skip_serializing_if = "is_zero", rename = "ipCooldownSeconds")]
    pub(super) ip_cooldown_seconds: u32,
}

const FIELDS: [&str; 5] = [
    "strict_affinity",
    "auto_allocate_blocks",
    "maxBlocksPerHost",
    "kubeVirtVMAddressPersistence",
    "ipCooldownSeconds",
];

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Both homes as one object. Where the resource says what counts anyway, or nothing where the default counts, it stays
/// as it was written.
///
/// # Errors
/// [`Error::Damaged`] when either cannot be read.
pub(super) fn decode(
    allocator: Option<&[u8]>,
    edited: Option<&[u8]>,
    revision: Revision,
) -> Result<Option<IpamConfiguration>, Error> {
    if allocator.is_none() && edited.is_none() {
        return Ok(None);
    }
    let allocator = allocator.map(allocator_config).transpose()?;
    let mut configuration =
        edited.map(|value| edited_config(value, revision)).transpose()?.unwrap_or_else(|| {
            let mut fresh = IpamConfiguration::new("default", IpamConfigurationSpec::default());
            fresh.metadata.resource_version = Some(revision.0.to_string());
            fresh
        });
    if let Some(allocator) = allocator {
        let spec = &mut configuration.spec;
        prevail(&mut spec.strict_affinity, allocator.strict_affinity, false);
        prevail(&mut spec.auto_allocate_blocks, allocator.auto_allocate_blocks, true);
        prevail(&mut spec.max_blocks_per_host, allocator.max_blocks_per_host, 0);
        prevail(&mut spec.ip_cooldown_seconds, allocator.ip_cooldown_seconds, 0);
        let persistence = &mut spec.kube_virt_vm_address_persistence;
        *persistence = persistence.or(allocator.kube_virt_vm_address_persistence);
    }
    Ok(Some(configuration))
}

/// Both homes' values of a configuration: the allocator's and the edited one.
pub(super) fn encode(
    configuration: &IpamConfiguration,
    allocator: Option<&[u8]>,
    edited: Option<&[u8]>,
) -> [Vec<u8>; 2] {
    let text = |value: Option<&[u8]>| {
        value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default().to_owned()
    };
    let json = serde_json::to_string(&AllocatorConfig::from(&configuration.spec))
        .expect("words and numbers are JSON");
    let allocator = keep_unknown(json, &text(allocator), &FIELDS);
    [allocator.into_bytes(), whole(configuration, &text(edited)).into_bytes()]
}

impl From<&IpamConfigurationSpec> for AllocatorConfig {
    fn from(spec: &IpamConfigurationSpec) -> Self {
        Self {
            strict_affinity: spec.strict_affinity.unwrap_or(false),
            auto_allocate_blocks: spec.auto_allocate_blocks.unwrap_or(true),
            max_blocks_per_host: spec.max_blocks_per_host.unwrap_or(0),
            kube_virt_vm_address_persistence: spec.kube_virt_vm_address_persistence,
            ip_cooldown_seconds: spec.ip_cooldown_seconds.unwrap_or(0),
        }
    }
}

/// Whether both homes say the same, so that Calico sees what we see. True where there is nothing, and where something
/// cannot be read.
#[must_use]
pub fn is_in_step(allocator: Option<&[u8]>, edited: Option<&[u8]>) -> bool {
    let Ok(Some(configuration)) = decode(allocator, edited, Revision(0)) else { return true };
    let allocator = allocator.and_then(|value| allocator_config(value).ok());
    let edited = edited.and_then(|value| edited_config(value, Revision(0)).ok());
    allocator == Some(AllocatorConfig::from(&configuration.spec))
        && edited.is_some_and(|edited| edited.spec == configuration.spec)
}

fn prevail<T: PartialEq + Clone>(edited: &mut Option<T>, allocator: T, default: T) {
    if edited.clone().unwrap_or(default) != allocator {
        *edited = Some(allocator);
    }
}

pub(super) fn allocator_config(value: &[u8]) -> Result<AllocatorConfig, Error> {
    let value = if value.is_empty() { b"{}" } else { value };
    serde_json::from_slice(value).map_err(|error| Error::Damaged {
        path: ALLOCATOR_CONFIG.into(),
        problem: format!("it cannot be read as the allocator's configuration: {error}"),
    })
}

pub(super) fn edited_config(value: &[u8], revision: Revision) -> Result<IpamConfiguration, Error> {
    let key = Key::Configuration;
    let text = std::str::from_utf8(value).map_err(|_| damaged(&key, "it is not UTF-8 text".to_owned()))?;
    resource(&key, text, "default", revision)
}
