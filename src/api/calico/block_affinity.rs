use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The record of a claim: that a block is to be, is, or ceases to be affine to a host.
///
/// Host and block are in the key. Ownership is decided by the block's own `affinity`; this record makes a host's
/// blocks findable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockAffinity {
    /// Where the claim stands. Absent or empty in old data: confirmed.
    #[serde(default)]
    pub state: AffinityState,
    /// The soft deletion of Kubernetes stores. Always false elsewhere.
    #[serde(default)]
    pub deleted: bool,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl BlockAffinity {
    /// A record in a given state.
    #[must_use]
    pub fn new(state: AffinityState) -> Self {
        Self { state, ..Self::default() }
    }
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AffinityState {
    /// Claimed, the block may not exist yet.
    Pending,
    /// Claimed, and the block says so too.
    #[default]
    #[serde(alias = "")]
    Confirmed,
    /// Being given up.
    PendingDeletion,
}

impl AffinityState {
    /// Every state.
    pub const ALL: [AffinityState; 3] =
        [AffinityState::Pending, AffinityState::Confirmed, AffinityState::PendingDeletion];
}
