use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names another resource of the same project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LocalRef {
    /// Its name.
    pub name: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl LocalRef {
    /// A reference to a resource.
    pub fn to(name: impl Into<String>) -> Self {
        Self { name: name.into(), extra: Map::new() }
    }
}

/// Names a pool, perhaps another project's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRef {
    /// The pool's name.
    pub name: String,
    /// The project that the pool belongs to. Absent: the caller's, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_ref: Option<LocalRef>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Names whom something is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// The group of its kind.
    pub api_group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How a free network is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// The lowest.
    #[default]
    FirstFit,
    /// The one in the smallest run of free addresses, so that large runs stay whole.
    BestFit,
    /// In the range with the most free addresses; a pool has one range, so it is [`Strategy::FirstFit`].
    LeastUtilized,
}

/// What becomes of an allocation when its claim is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReclaimPolicy {
    /// It goes too.
    #[default]
    Delete,
    /// It stays, and keeps its addresses.
    Retain,
}

/// Who may use a pool besides the project that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// The platform's own.
    Platform,
    /// Those who consume.
    Consumer,
    /// Every project.
    Shared,
}
