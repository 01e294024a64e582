//! What became of addresses: a line each for people, a document for programs.

use serde_json::{Map, Value, json};

use super::super::render::{self, Format};
use super::check::whose;
use crate::ipam::{AddressFact, owner_key};

/// What became of addresses, in the order in which it happened.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    lines: Vec<String>,
    addresses: Vec<Value>,
    messages: Vec<String>,
}

impl Ledger {
    /// An address was, or would be, released. `why` it may be.
    pub(super) fn released(&mut self, word: &str, why: Option<&str>, fact: &AddressFact) {
        let line = match why {
            Some(why) => format!("{word} {}: {why} ({})", fact.address, whose(fact)),
            None => format!("{word} {} ({})", fact.address, whose(fact)),
        };
        let mut fields = Map::new();
        fields.insert("ip".into(), fact.address.to_string().into());
        let outcome = if word == RELEASED { "released" } else { "wouldRelease" };
        fields.insert("outcome".into(), outcome.into());
        for (key, value) in [
            ("reason", why),
            ("handle", fact.handle.as_deref()),
            ("node", fact.noted(owner_key::NODE)),
            ("namespace", fact.noted(owner_key::NAMESPACE)),
            ("pod", fact.noted(owner_key::POD)),
        ] {
            if let Some(value) = value {
                fields.insert(key.into(), value.into());
            }
        }
        fields.insert("block".into(), fact.block.to_string().into());
        self.addresses.push(Value::Object(fields));
        self.lines.push(line);
    }

    /// An address was left as it is.
    pub(super) fn skipped(&mut self, address: std::net::IpAddr, reason: &str) {
        self.addresses.push(json!({ "ip": address, "outcome": "skipped", "reason": reason }));
        self.lines.push(format!("Skipped: {reason}"));
    }

    /// Something that is about no address in particular.
    pub(super) fn say(&mut self, message: String) {
        self.lines.push(message.clone());
        self.messages.push(message);
    }

    /// The answer.
    pub(super) fn render(&self, format: Format) -> String {
        let document = || json!({ "addresses": self.addresses, "messages": self.messages });
        match format {
            Format::Json => render::json(&document()),
            Format::Yaml => render::yaml(&document()),
            _ => self.lines.iter().flat_map(|line| [line, "\n"]).collect(),
        }
    }
}

/// It was released.
pub(super) const RELEASED: &str = "Released";
/// It would be.
pub(super) const WOULD_RELEASE: &str = "Would release";
