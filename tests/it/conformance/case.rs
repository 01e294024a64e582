//! The case files, as data. A key this runner does not know is an error: an expectation nobody checks always holds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Every case of a directory, in the order of the file names.
pub(crate) fn read_all(directory: &Path) -> Vec<Case> {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("no cases in `{}`: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory just opened can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Case {
    let text = fs::read(file).unwrap_or_else(|error| panic!("cannot read `{}`: {error}", file.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("`{}` is no case: {error}", file.display()))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    #[serde(rename = "group")]
    _group: String,
    #[serde(rename = "why")]
    _why: String,
    /// Whether the case asks for more than the plugin host-local gives.
    #[serde(default)]
    pub(crate) beyond: bool,
    #[serde(default, rename = "beyond_why")]
    _beyond_why: Option<String>,
    #[serde(default)]
    pub(crate) datadir: DataDir,
    /// Files that exist before the first step: path to text.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// Whether it says something about what is held, and nothing about where: a store in a directory is not needed.
    pub(crate) fn is_of_any_store(&self) -> bool {
        self.steps.len() > 1 && self.datadir == DataDir::Present && self.files.is_empty() && !self.kills()
    }

    /// Whether some call is killed on the way.
    pub(crate) fn kills(&self) -> bool {
        self.steps.iter().any(|step| step.kill_after_fraction.is_some())
    }
}

/// What lies at the place of the store before the first step.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DataDir {
    #[default]
    Present,
    Absent,
    File,
}

/// One call of the plugin, or several equal ones.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    /// Absent and null both leave `CNI_COMMAND` unset.
    pub(crate) command: Option<String>,
    /// Null removes a variable.
    pub(crate) env: BTreeMap<String, Option<String>>,
    pub(crate) env_b64: BTreeMap<String, String>,
    pub(crate) env_clear: bool,
    /// Absent means empty stdin. Null is the JSON text `null`.
    #[serde(deserialize_with = "present")]
    pub(crate) stdin: Option<Value>,
    pub(crate) stdin_pad: Option<Pad>,
    pub(crate) stdin_nest: Option<Nest>,
    pub(crate) stdin_dup: Option<String>,
    pub(crate) stdin_replace: Vec<(String, String)>,
    pub(crate) stdin_prefix: String,
    pub(crate) stdin_suffix: String,
    pub(crate) stdin_splice_b64: Option<Splice>,
    pub(crate) stdin_raw: Option<String>,
    pub(crate) stdin_b64: Option<String>,
    pub(crate) stdin_closed: bool,
    /// The name under which later steps find the result.
    pub(crate) save: Option<String>,
    /// Calls one after the other. Absent means one.
    pub(crate) repeat: Option<usize>,
    /// Calls all at once.
    pub(crate) parallel: Option<usize>,
    /// Of the fastest ADD of the case so far; then SIGKILL.
    pub(crate) kill_after_fraction: Option<f64>,
    pub(crate) expect: Expect,
}

/// Add a member `key` with a text of `bytes` bytes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pad {
    pub(crate) key: String,
    pub(crate) bytes: usize,
}

/// Add a member `key` with arrays nested `depth` deep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nest {
    pub(crate) key: String,
    pub(crate) depth: usize,
}

/// Put bytes that JSON cannot spell in the place of `marker`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Splice {
    pub(crate) marker: String,
    pub(crate) b64: String,
}

/// What must hold after a call.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the case files have them; they do not depend on each other"
)]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    pub(crate) exit: Exit,
    /// Whether a failing call must print an error object. True when absent.
    pub(crate) error_json: bool,
    pub(crate) error_code: Option<Codes>,
    pub(crate) if_error_code: Option<Codes>,
    pub(crate) error_text_contains: Vec<String>,
    pub(crate) error_text_lacks: Vec<String>,
    pub(crate) stdout_json_subset: Option<Value>,
    pub(crate) stdout_empty: bool,
    pub(crate) stdout_not_result: bool,
    pub(crate) ips_count: Option<usize>,
    pub(crate) ips: Option<Vec<Value>>,
    pub(crate) ips_in: Option<Vec<String>>,
    pub(crate) ips_not: Option<Vec<Value>>,
    /// In the order of the addresses; null for an address without one.
    pub(crate) gateways: Option<Vec<Value>>,
    /// Names of saved results that share no address with this one.
    pub(crate) distinct_from: Vec<String>,
    pub(crate) all_distinct: bool,
    pub(crate) max_seconds: Option<f64>,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            exit: Exit::Status(0),
            error_json: true,
            error_code: None,
            if_error_code: None,
            error_text_contains: Vec::new(),
            error_text_lacks: Vec::new(),
            stdout_json_subset: None,
            stdout_empty: false,
            stdout_not_result: false,
            ips_count: None,
            ips: None,
            ips_in: None,
            ips_not: None,
            gateways: None,
            distinct_from: Vec::new(),
            all_distinct: false,
            max_seconds: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Exit {
    Status(i32),
    Word(ExitWord),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExitWord {
    Nonzero,
    Any,
}

/// A set of CNI error codes: one number, or a list of numbers and of texts `low-high`, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Codes(Vec<RangeInclusive<i64>>);

impl Codes {
    pub(crate) fn contain(&self, code: Option<&Value>) -> bool {
        let code = code.and_then(Value::as_i64);
        code.is_some_and(|code| self.0.iter().any(|range| range.contains(&code)))
    }
}

impl fmt::Display for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.iter().map(|range| match (range.start(), range.end()) {
            (low, high) if low == high => low.to_string(),
            (low, high) => format!("{low}-{high}"),
        });
        f.write_str(&ranges.collect::<Vec<_>>().join(", "))
    }
}

impl TryFrom<Value> for Codes {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let items = match value {
            Value::Array(items) => items,
            one => vec![one],
        };
        let ranges: Option<Vec<_>> = items.iter().map(code_range).collect();
        ranges.map(Self).ok_or_else(|| format!("a list of codes holds numbers and `low-high`, not {items:?}"))
    }
}

fn code_range(item: &Value) -> Option<RangeInclusive<i64>> {
    if let Some(code) = item.as_i64() {
        return Some(code..=code);
    }
    let (low, high) = item.as_str()?.split_once('-')?;
    Some(low.parse().ok()?..=high.parse().ok()?)
}

/// `Some` for whatever is there, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

mod tests {
    use serde_json::json;

    use super::*;

    fn codes(value: Value) -> Codes {
        serde_json::from_value(value).expect("codes")
    }

    #[test]
    fn a_code_range_includes_both_ends_and_nothing_beside() {
        let codes = codes(json!([7, "100-999"]));
        for code in [7, 100, 999] {
            assert!(codes.contain(Some(&json!(code))), "{code}");
        }
        for code in [6, 8, 99, 1000, -7] {
            assert!(!codes.contain(Some(&json!(code))), "{code}");
        }
        assert_eq!(codes.to_string(), "7, 100-999");
    }

    #[test]
    fn an_absent_code_or_one_that_is_no_number_is_in_no_range() {
        let codes = codes(json!(7));
        assert!(codes.contain(Some(&json!(7))));
        for code in [json!(null), json!("7"), json!(true), json!([7])] {
            assert!(!codes.contain(Some(&code)), "{code}");
        }
        assert!(!codes.contain(None));
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        for text in [
            r#"{"name":"n","group":"g","why":"w","steps":[{"expect":{"exits":0}}]}"#,
            r#"{"name":"n","group":"g","why":"w","steps":[{"comand":"ADD"}]}"#,
            r#"{"name":"n","group":"g","why":"w","steps":[{"expect":{"exit":"sometimes"}}]}"#,
            r#"{"name":"n","group":"g","why":"w","steps":[{"expect":{"error_code":["low-high"]}}]}"#,
        ] {
            assert!(serde_json::from_str::<Case>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn stdin_null_is_not_an_absent_stdin() {
        let step: Step = serde_json::from_str(r#"{"stdin":null}"#).expect("a step");
        assert_eq!(step.stdin, Some(Value::Null));
        let step: Step = serde_json::from_str("{}").expect("a step");
        assert_eq!(step.stdin, None);
        assert_eq!(step.expect.exit, Exit::Status(0), "success is what a step asks for when it says nothing");
    }
}
