use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AllocationRules, LocalRef, Strategy, Visibility};

/// What only this face of a pool knows. Stored under the pool's name beside the pool; absent: all defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolExtras {
    /// The project that it belongs to. Absent: none, and it serves every project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The pool that it was carved out of. Absent: it is a root pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_pool_ref: Option<LocalRef>,
    /// The prefix length that a child pool was asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_length: Option<u8>,
    /// How CIDRs are carved out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationRules>,
    /// Who may use it besides its project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// What was applied last on this face. The other face has its own, so that neither takes back what the other set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl PoolExtras {
    /// Whether a project may carve out of the pool; `None`: whoever speaks for no project.
    #[must_use]
    pub fn serves(&self, project: Option<&str>) -> bool {
        self.project.as_deref().is_none_or(|owner| project == Some(owner))
            || self.visibility == Some(Visibility::Shared)
    }

    /// The strategy, with the default applied.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.allocation.as_ref().and_then(|rules| rules.strategy).unwrap_or_default()
    }

    /// The rules for what is carved out of it, with the defaults applied.
    #[must_use]
    pub fn rules(&self) -> AllocationRules {
        self.allocation.clone().unwrap_or_default().with_defaults()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_a_project_serves_others_only_when_it_is_shared() {
        let pool = |project: Option<&str>, visibility| PoolExtras {
            project: project.map(str::to_owned),
            visibility,
            ..PoolExtras::default()
        };
        for (owner, visibility, asking, serves) in [
            (None, None, Some("a"), true),
            (None, None, None, true),
            (Some("a"), None, Some("a"), true),
            (Some("a"), None, Some("b"), false),
            (Some("a"), None, None, false),
            (Some("a"), Some(Visibility::Consumer), Some("b"), false),
            (Some("a"), Some(Visibility::Shared), Some("b"), true),
        ] {
            assert_eq!(pool(owner, visibility).serves(asking), serves, "{owner:?} {visibility:?} {asking:?}");
        }
    }
}
