use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::net::Cidr;

/// How many addresses a handle has in each block. The handle's name is in the key.
///
/// It is an index and a limit, not the truth: a block says itself whose its addresses are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IpamHandle {
    /// Addresses per block. Never zero; a handle without any is deleted.
    #[serde(default)]
    pub block: BTreeMap<Cidr, u32>,
    /// The soft deletion of Kubernetes stores. Always false elsewhere.
    #[serde(default)]
    pub deleted: bool,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}
