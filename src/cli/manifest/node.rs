use serde_json::{Map, Number, Value};

use crate::api::validate::{Path, Step};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) content: Content,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

/// A member of an object.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Where the key stands.
    pub(super) at: At,
    pub(super) key: String,
    pub(super) value: Node,
}

/// A line and a column, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl At {
    /// The first character.
    pub(super) const START: At = At { line: 1, column: 1 };
}

impl Node {
    /// A member of an object.
    pub(super) fn member(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(members) => {
                members.iter().find(|member| member.key == key).map(|member| &member.value)
            }
            _ => None,
        }
    }

    /// A member of an object that is text.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.member(key) {
            Some(Node { content: Content::Text(text), .. }) => Some(text),
            _ => None,
        }
    }

    /// The value without its places.
    pub(super) fn value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Number(number) => Value::Number(number.clone()),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(entries) => entries.iter().map(Node::value).collect(),
            Content::Map(members) => {
                let members = members.iter().map(|member| (member.key.clone(), member.value.value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// Where a part stands, or, if it is not there, the nearest part around it. The key of a member that has no parts
    /// of its own leads better than its value.
    pub(super) fn locate(&self, path: &Path) -> At {
        let mut here = self;
        let mut at = self.at;
        for step in path.steps() {
            let next = match (step, &here.content) {
                (Step::Key(key), Content::Map(members)) => {
                    members.iter().find(|member| member.key == *key).map(|member| (member.at, &member.value))
                }
                (Step::Index(index), Content::List(entries)) => {
                    entries.get(*index).map(|entry| (entry.at, entry))
                }
                _ => None,
            };
            match next {
                Some((place, node)) => (at, here) = (place, node),
                None => break,
            }
        }
        at
    }
}
