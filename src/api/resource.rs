use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What every resource says of itself besides its specification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Unique among the resources of its kind.
    #[serde(default)]
    pub name: String,
    /// Distinguishes a resource from an earlier one of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The datastore's token for this state. Compared for equality only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// When it was made, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// When its deletion was asked for. Present: nothing new is taken from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// What selectors match against.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Notes of other programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A resource of an API group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource<S> {
    /// Group and version, such as `projectcalico.org/v3`.
    pub api_version: String,
    /// The kind, such as `IPPool`.
    pub kind: String,
    /// Name, labels and revision.
    pub metadata: ObjectMeta,
    /// What the user asks for.
    pub spec: S,
    /// What a controller reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The specification of one kind.
pub trait Spec {
    /// Group and version.
    const API_VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The plural, in lower case.
    const PLURAL: &'static str;
}

impl<S: Spec> Resource<S> {
    /// A resource with a name and nothing else about it.
    pub fn new(name: impl Into<String>, spec: S) -> Self {
        Self {
            api_version: S::API_VERSION.to_owned(),
            kind: S::KIND.to_owned(),
            metadata: ObjectMeta { name: name.into(), ..ObjectMeta::default() },
            spec,
            status: None,
            extra: Map::new(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}
