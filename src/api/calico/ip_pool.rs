use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{Resource, Spec};
use crate::net::{Cidr, Family};

/// A range that addresses come from.
pub type IpPool = Resource<IpPoolSpec>;

/// The specification of an [`IpPool`]. Defaults are applied on reading: older objects lack fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolSpec {
    /// The pool's range. Immutable.
    pub cidr: Cidr,
    /// Prefix length of its blocks, 20 to 32 or 116 to 128; absent or 0: 26 or 122. Immutable.
    #[serde(default, skip_serializing_if = "is_absent_or_zero")]
    pub block_size: Option<u8>,
    /// True: nothing new is assigned from it; releasing works.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Which nodes may use it. Absent: `all()`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<String>,
    /// Which namespaces may use it. Absent or empty: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<String>,
    /// What its addresses may serve. Empty: workloads and tunnels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_uses: Vec<AllowedUse>,
    /// Whether it is used without being asked for by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment_mode: Option<AssignmentMode>,
    /// Encapsulation and routing options, which allocation does not look at, and fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "the signature that serde calls")]
fn is_absent_or_zero(size: &Option<u8>) -> bool {
    size.unwrap_or(0) == 0
}

impl IpPoolSpec {
    /// A pool with every other field at its default.
    #[must_use]
    pub fn new(cidr: Cidr) -> Self {
        Self {
            cidr,
            block_size: None,
            disabled: false,
            node_selector: None,
            namespace_selector: None,
            allowed_uses: Vec::new(),
            assignment_mode: None,
            extra: Map::new(),
        }
    }

    /// The prefix length of its blocks, with the default applied.
    #[must_use]
    pub fn block_prefix(&self) -> u8 {
        self.block_size.filter(|&size| size != 0).unwrap_or(match self.cidr.family() {
            Family::V4 => 26,
            Family::V6 => 122,
        })
    }

    /// Whether its addresses may serve `wanted`.
    #[must_use]
    pub fn allows(&self, wanted: AllowedUse) -> bool {
        if self.allowed_uses.is_empty() {
            return wanted != AllowedUse::LoadBalancer;
        }
        self.allowed_uses.contains(&wanted)
    }
}

impl Spec for IpPoolSpec {
    const API_VERSION: &'static str = super::API_VERSION;
    const KIND: &'static str = "IPPool";
    const PLURAL: &'static str = "ippools";
}

/// What an address may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllowedUse {
    /// Pods, containers and virtual machines.
    Workload,
    /// The tunnel devices of nodes.
    Tunnel,
    /// Services.
    LoadBalancer,
}

/// Whether a pool is used without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AssignmentMode {
    /// Used for any request that its selectors match.
    #[default]
    Automatic,
    /// Used only when requested by name or CIDR.
    Manual,
}
