//! Transactions as etcd's JSON gateway takes and answers them.
//!
//! Keys and values are base64; numbers of 64 bits are text, which a number of JSON could not hold; what is false, zero or
//! empty is absent.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes, written as base64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Vec<u8>);

/// A number, written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number(pub(super) u64);

/// Everything in one step: if all compares hold `success` is done, else `failure`.
#[derive(Debug, Default, Serialize)]
pub(super) struct TxnRequest {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) compare: Vec<Compare>,
    pub(super) success: Vec<Operation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) failure: Vec<Operation>,
}

/// A condition on a key, or on every key of a range. A key that does not exist has revision 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Compare {
    pub(super) key: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) range_end: Option<Bytes>,
    pub(super) target: &'static str,
    pub(super) result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) create_revision: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mod_revision: Option<Number>,
}

impl Compare {
    /// The key is at this revision; 0: it does not exist.
    pub(super) fn at(key: &str, revision: u64) -> Self {
        Self {
            key: key.into(),
            range_end: None,
            target: "MOD",
            result: "EQUAL",
            create_revision: None,
            mod_revision: Some(Number(revision)),
        }
    }

    /// No key of the range was created after this revision.
    pub(super) fn none_created_after(range: &Range, revision: u64) -> Self {
        Self {
            key: range.key.clone(),
            range_end: range.range_end.clone(),
            target: "CREATE",
            result: "LESS",
            create_revision: Some(Number(revision + 1)),
            mod_revision: None,
        }
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug, Serialize)]
pub(super) enum Operation {
    #[serde(rename = "request_range")]
    Range(Range),
    #[serde(rename = "request_put")]
    Put(Put),
    #[serde(rename = "request_delete_range")]
    Delete(Delete),
}

/// Reads a key, or the keys from `key` up to before `range_end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "etcd calls them so")]
pub(super) struct Range {
    pub(super) key: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) range_end: Option<Bytes>,
    /// How many keys at most; 0: all.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) limit: Number,
    /// As things stood at this revision; 0: as they stand.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) revision: Number,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) keys_only: bool,
    /// Only keys created at or after this revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) min_create_revision: Number,
}

impl Range {
    /// One key.
    pub(super) fn point(key: &str) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// All keys that begin so.
    pub(super) fn prefix(prefix: &str) -> Self {
        Self::between(prefix, &after(prefix))
    }

    /// All keys from one up to before another.
    pub(super) fn between(from: &str, to: &str) -> Self {
        Self { key: from.into(), range_end: Some(to.into()), ..Self::default() }
    }
}

/// The first text behind all that begin so. Prefixes here end in ASCII.
pub(super) fn after(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    if let Some(last) = end.pop() {
        end.push(char::from_u32(u32::from(last) + 1).unwrap_or(char::MAX));
    }
    end
}

/// Writes a key.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Put {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    /// The lease that the key goes with; 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) lease: Number,
}

/// Removes a key.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Delete {
    pub(super) key: Bytes,
}

/// What came of a transaction.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TxnResponse {
    pub(super) header: Header,
    pub(super) succeeded: bool,
    pub(super) responses: Vec<OperationResponse>,
}

/// What every answer says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    /// The store's revision after it.
    pub(super) revision: Number,
}

/// What came of one operation: nothing, save of a range.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OperationResponse {
    pub(super) response_range: Option<RangeResponse>,
}

/// What a range has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RangeResponse {
    pub(super) kvs: Vec<KeyValue>,
    /// Whether there are more keys than the limit let through.
    pub(super) more: bool,
}

/// A key and what stands there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct KeyValue {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    pub(super) mod_revision: Number,
}

/// Who logs in.
#[derive(Serialize)]
pub(super) struct Login<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

/// What a login gives.
#[derive(Deserialize)]
pub(super) struct LoggedIn {
    pub(super) token: String,
}

/// Asks for a lease.
#[derive(Serialize)]
pub(super) struct Grant {
    #[serde(rename = "TTL")]
    pub(super) ttl: Number,
}

/// A lease.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Granted {
    #[serde(rename = "ID")]
    pub(super) id: Number,
}

/// Why a request was refused.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    /// Versions differ in which of the two they have; most have both.
    #[serde(default)]
    message: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    pub(super) code: u32,
}

impl Refusal {
    /// What it says.
    pub(super) fn text(&self) -> &str {
        if self.message.is_empty() { &self.error } else { &self.message }
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&String> for Bytes {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &Number) -> bool {
    number.0 == 0
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes in base64")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bytes, E> {
                STANDARD.decode(text).map(Bytes).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map(Number).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_false_or_zero_is_absent_and_large_numbers_are_text() {
        let text = r#"{"header":{"cluster_id":"1","revision":"9007199254740995"},"responses":[{"response_range":
            {"kvs":[{"key":"L3k=","mod_revision":"9007199254740993","value":"djE="}],"count":"1"}},{"response_put":{}}]}"#;
        let answer: TxnResponse = serde_json::from_str(text).expect("an answer of etcd");
        assert!(!answer.succeeded);
        assert_eq!(answer.header.revision.0, 9_007_199_254_740_995);
        let range = answer.responses[0].response_range.as_ref().expect("a range");
        let found = &range.kvs[0];
        assert_eq!((found.key.0.as_slice(), found.value.0.as_slice()), (&b"/y"[..], &b"v1"[..]));
        assert_eq!((found.mod_revision.0, range.more), (9_007_199_254_740_993, false));
        assert!(answer.responses[1].response_range.is_none());
    }

    #[test]
    fn a_request_says_no_more_than_it_must() {
        let request = TxnRequest {
            compare: vec![Compare::at("/y", u64::MAX)],
            success: vec![Operation::Range(Range::prefix("/a/"))],
            failure: vec![],
        };
        assert_eq!(
            serde_json::to_string(&request).expect("text"),
            r#"{"compare":[{"key":"L3k=","target":"MOD","result":"EQUAL","mod_revision":"18446744073709551615"}],"success":[{"request_range":{"key":"L2Ev","range_end":"L2Ew"}}]}"#
        );
    }
}
