use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::LocalRef;

/// Which pools may serve a claim, by their labels. All of it must match; an empty one matches every pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSelector {
    /// Labels and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions on labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
    /// The project whose pools are meant. Absent: the caller's, and those of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_ref: Option<LocalRef>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// What is asked of it.
    pub operator: SelectorOperator,
    /// The values that are meant by [`SelectorOperator::In`] and [`SelectorOperator::NotIn`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What is asked of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectorOperator {
    /// It has one of the values.
    In,
    /// It has none of the values, or is not there.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl SelectorOperator {
    /// Whether it is asked with values.
    #[must_use]
    pub const fn takes_values(self) -> bool {
        matches!(self, Self::In | Self::NotIn)
    }
}

impl PoolSelector {
    /// Whether a pool with these labels is meant. Projects are not looked at.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|asked| asked.is_met_by(labels.get(&asked.key)))
    }
}

impl LabelRequirement {
    fn is_met_by(&self, value: Option<&String>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            SelectorOperator::In => is_listed,
            SelectorOperator::NotIn => !is_listed,
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pool_is_selected_by_all_that_is_asked() {
        let labels = BTreeMap::from([("zone".to_owned(), "x".to_owned())]);
        for (selector, is_meant) in [
            (json!({}), true),
            (json!({ "matchLabels": { "zone": "x" } }), true),
            (json!({ "matchLabels": { "zone": "x", "rack": "1" } }), false),
            (
                json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["x", "y"] }] }),
                true,
            ),
            (json!({ "matchExpressions": [{ "key": "zone", "operator": "NotIn", "values": ["x"] }] }), false),
            (json!({ "matchExpressions": [{ "key": "rack", "operator": "NotIn", "values": ["1"] }] }), true),
            (json!({ "matchExpressions": [{ "key": "rack", "operator": "Exists" }] }), false),
            (json!({ "matchExpressions": [{ "key": "rack", "operator": "DoesNotExist" }] }), true),
            (
                json!({ "matchLabels": { "zone": "x" }, "matchExpressions": [{ "key": "zone", "operator": "DoesNotExist" }] }),
                false,
            ),
        ] {
            let parsed: PoolSelector = serde_json::from_value(selector.clone()).expect("a selector");
            assert_eq!(parsed.matches(&labels), is_meant, "{selector}");
        }
    }
}
