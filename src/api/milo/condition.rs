use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::Timestamp;

/// One thing that is, or is not, so of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// Why, in one word for programs.
    #[serde(default)]
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
    /// Since when, RFC 3339. Absent: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl Condition {
    /// A condition that holds.
    pub fn holds(kind: &str, reason: &str, message: impl Into<String>, since: Option<Timestamp>) -> Self {
        Self::new(kind, ConditionStatus::True, reason, message, since)
    }

    /// A condition that does not hold.
    pub fn fails(kind: &str, reason: &str, message: impl Into<String>, since: Option<Timestamp>) -> Self {
        Self::new(kind, ConditionStatus::False, reason, message, since)
    }

    fn new(
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
        since: Option<Timestamp>,
    ) -> Self {
        Self {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.into(),
            last_transition_time: since,
            extra: Map::new(),
        }
    }
}

/// Puts a condition in the place of the one of its type. The time of the change stays where the status does.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) {
    let Some(old) = conditions.iter_mut().find(|old| old.kind == new.kind) else {
        conditions.push(new);
        return;
    };
    if old.status == new.status {
        new.last_transition_time = old.last_transition_time.or(new.last_transition_time);
    }
    *old = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let at = |nanos: u64| Some(Timestamp::from_nanos(nanos));
        let mut all = Vec::new();
        set_condition(&mut all, Condition::holds("Bound", "A", "one", at(1)));
        set_condition(&mut all, Condition::holds("Bound", "B", "two", at(2)));
        assert_eq!((all.len(), all[0].reason.as_str(), all[0].last_transition_time), (1, "B", at(1)));
        set_condition(&mut all, Condition::fails("Bound", "C", "three", at(3)));
        assert_eq!((all[0].status, all[0].last_transition_time), (ConditionStatus::False, at(3)));
    }
}
