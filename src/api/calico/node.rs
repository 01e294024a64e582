use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{Resource, Spec};

/// A host; only its name and its labels count for addresses.
pub type Node = Resource<NodeSpec>;

/// The specification of a [`Node`], of which allocation reads nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Whatever others keep there.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Spec for NodeSpec {
    const API_VERSION: &'static str = super::API_VERSION;
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
}
