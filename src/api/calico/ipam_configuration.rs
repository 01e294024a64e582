use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{Resource, Spec};

/// Global options; a singleton named `default`.
pub type IpamConfiguration = Resource<IpamConfigurationSpec>;

/// The specification of an [`IpamConfiguration`]. An absent field means its default, which the engine applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpamConfigurationSpec {
    /// True: no address is borrowed from another host's block. Absent: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_affinity: Option<bool>,
    /// The most blocks of one family that may be affine to one host, 0 to 2147483647. Absent or 0: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_blocks_per_host: Option<u32>,
    /// Whether virtual machines keep their addresses. Absent: disabled.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "kubeVirtVMAddressPersistence")]
    pub kube_virt_vm_address_persistence: Option<VmAddressPersistence>,
    /// False: a host uses the blocks that it has and claims no further one. Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_allocate_blocks: Option<bool>,
    /// The least time between the release and the reuse of an address, in seconds, 0 to 1200. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "ipCooldownSeconds")]
    pub ip_cooldown_seconds: Option<u32>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Spec for IpamConfigurationSpec {
    const API_VERSION: &'static str = super::API_VERSION;
    const KIND: &'static str = "IPAMConfiguration";
    const PLURAL: &'static str = "ipamconfigurations";
}

/// Whether `KubeVirt` virtual machines keep their addresses over restart and migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VmAddressPersistence {
    /// They do.
    Enabled,
    /// A virtual machine's pod is like any pod.
    Disabled,
}
