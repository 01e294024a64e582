//! What one call of the plugin is given: its variables and its stdin.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStringExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use super::Stop;
use super::case::Step;
use super::placeholder::{Context, in_text, in_value, repeated};

/// The parameters of an ordinary call. The network namespace does not exist: an IPAM plugin does not enter it.
const USUAL: [(&str, &str); 4] = [
    ("CNI_CONTAINERID", "conformance-0"),
    ("CNI_NETNS", "/run/netns/cni-conformance-does-not-exist"),
    ("CNI_IFNAME", "eth0"),
    ("CNI_PATH", "/opt/cni/bin"),
];

/// All the variables of the call: the plugin gets no others.
pub(crate) fn variables(
    step: &Step,
    context: &Context,
    index: usize,
) -> Result<BTreeMap<String, OsString>, Stop> {
    let mut variables = BTreeMap::new();
    if !step.env_clear {
        variables.extend(USUAL.map(|(name, value)| (name.to_owned(), OsString::from(value))));
    }
    if let Some(command) = &step.command {
        variables.insert("CNI_COMMAND".to_owned(), command.into());
    }
    for (name, value) in &step.env {
        let Some(value) = value else {
            variables.remove(name);
            continue;
        };
        match in_value(&Value::from(value.as_str()), context, index)? {
            Value::String(value) => variables.insert(name.clone(), value.into()),
            other => {
                return Err(Stop::Fail(format!("the case gives `{name}` no text, but {other}")));
            }
        };
    }
    for (name, value) in &step.env_b64 {
        variables.insert(name.clone(), OsString::from_vec(decoded(value)?));
    }
    Ok(variables)
}

/// The bytes on stdin; `None` when the plugin is to have none at all.
pub(crate) fn stdin(step: &Step, context: &Context, index: usize) -> Result<Option<Vec<u8>>, Stop> {
    if step.stdin_closed {
        return Ok(None);
    }
    if let Some(raw) = &step.stdin_raw {
        let text = in_text(raw, context, index)?;
        return Ok(Some(repeated(&text).unwrap_or(text).into_bytes()));
    }
    if let Some(encoded) = &step.stdin_b64 {
        return decoded(encoded).map(Some);
    }
    let Some(document) = &step.stdin else {
        return Ok(Some(Vec::new()));
    };
    let document = in_value(document, context, index)?;
    document_text(step, document, context, index).map(Some)
}

/// The document, spoilt in the ways the step asks for.
fn document_text(step: &Step, mut document: Value, context: &Context, index: usize) -> Result<Vec<u8>, Stop> {
    if let Some(nest) = &step.stdin_nest {
        // As text: no reader or writer of values gets that deep.
        let (open, close) = ("[".repeat(nest.depth), "]".repeat(nest.depth));
        let text = json_text(&document);
        return Ok(format!("{}, \"{}\": {open}{close}}}", without_last(&text), nest.key).into_bytes());
    }
    if let Some(pad) = &step.stdin_pad {
        let Value::Object(members) = &mut document else {
            return Err(Stop::Fail(format!("the case pads what is no object: {document}")));
        };
        members.insert(pad.key.clone(), "x".repeat(pad.bytes).into());
    }
    let mut text = json_text(&document);
    if let Some(duplicate) = &step.stdin_dup {
        let duplicate = in_text(duplicate, context, index)?;
        text = format!("{{{duplicate},{}", text.strip_prefix('{').unwrap_or_default());
    }
    for (old, new) in &step.stdin_replace {
        text = text.replace(old, new);
    }
    let text = format!("{}{text}{}", step.stdin_prefix, step.stdin_suffix);
    match &step.stdin_splice_b64 {
        Some(splice) => Ok(spliced(text.as_bytes(), splice.marker.as_bytes(), &decoded(&splice.b64)?)),
        None => Ok(text.into_bytes()),
    }
}

fn without_last(text: &str) -> &str {
    text.strip_suffix('}').unwrap_or(text)
}

fn spliced(text: &[u8], marker: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut rest = text;
    let mut spliced = Vec::with_capacity(text.len());
    while let Some(byte) = rest.first() {
        if let Some(after) = rest.strip_prefix(marker) {
            spliced.extend_from_slice(bytes);
            rest = after;
        } else {
            spliced.push(*byte);
            rest = &rest[1..];
        }
    }
    spliced
}

fn decoded(encoded: &str) -> Result<Vec<u8>, Stop> {
    STANDARD
        .decode(encoded)
        .map_err(|error| Stop::Fail(format!("the case has bad base64 `{encoded}`: {error}")))
}

/// The value as JSON text in the form the cases count on: ASCII only, a space after each colon and comma.
pub(crate) fn json_text(value: &Value) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Spaced);
    serde::Serialize::serialize(value, &mut serializer).expect("a value can be written to memory");
    String::from_utf8(text).expect("ASCII")
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut escaped = String::with_capacity(fragment.len());
        for character in fragment.chars() {
            if matches!(character, ' '..='~') {
                escaped.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(escaped, "\\u{unit:04x}").map_err(io::Error::other)?;
            }
        }
        writer.write_all(escaped.as_bytes())
    }
}

mod tests {
    use serde_json::json;

    use super::super::placeholder::tests::{context, profiles};
    use super::*;

    fn step(step: Value) -> Step {
        serde_json::from_value(step).expect("a step")
    }

    fn stdin_of(value: Value) -> Option<Vec<u8>> {
        let profiles = profiles();
        stdin(&step(value), &context(&profiles), 3).expect("nothing unknown in it")
    }

    fn text_of(value: Value) -> String {
        String::from_utf8(stdin_of(value).expect("stdin")).expect("UTF-8")
    }

    fn variables_of(value: Value) -> BTreeMap<String, OsString> {
        let profiles = profiles();
        variables(&step(value), &context(&profiles), 3).expect("nothing unknown in it")
    }

    #[test]
    fn the_document_is_ascii_with_spaces_and_its_placeholders_replaced() {
        assert_eq!(
            text_of(json!({"stdin": {"a": [1, "\u{7f}é\u{1f600}\n\""], "b": "@DATADIR@"}})),
            r#"{"a": [1, "\u007f\u00e9\ud83d\ude00\n\""], "b": "/store"}"#
        );
        assert_eq!(text_of(json!({"stdin": null})), "null");
    }

    #[test]
    fn each_way_to_spoil_the_document_does_so() {
        let spoilt = |key: &str, how: Value| text_of(json!({"stdin": {"a": "MARK"}, key: how}));
        assert_eq!(spoilt("stdin_pad", json!({"key": "p", "bytes": 4})), r#"{"a": "MARK", "p": "xxxx"}"#);
        assert_eq!(spoilt("stdin_nest", json!({"key": "n", "depth": 3})), r#"{"a": "MARK", "n": [[[]]]}"#);
        assert_eq!(spoilt("stdin_dup", json!("\"a\":@I@")), r#"{"a":3,"a": "MARK"}"#);
        assert_eq!(spoilt("stdin_prefix", json!("\u{feff}")), "\u{feff}{\"a\": \"MARK\"}");
        assert_eq!(spoilt("stdin_suffix", json!("}")), r#"{"a": "MARK"}}"#);
        assert_eq!(spoilt("stdin_replace", json!([["MARK", "X"], ["X", "\\ud800"]])), r#"{"a": "\ud800"}"#);
        let bytes =
            stdin_of(json!({"stdin": {"a": "MARK"}, "stdin_splice_b64": {"marker": "MARK", "b64": "/8Mo"}}));
        assert_eq!(bytes.as_deref(), Some(&b"{\"a\": \"\xff\xc3(\"}"[..]));
    }

    #[test]
    fn nesting_far_beyond_any_stack_can_be_asked_for() {
        let text = text_of(json!({"stdin": {}, "stdin_nest": {"key": "n", "depth": 100_000}}));
        assert_eq!(text.matches('[').count(), 100_000);
        assert_eq!(text.matches(']').count(), 100_000);
    }

    #[test]
    fn stdin_is_raw_encoded_empty_or_not_there() {
        assert_eq!(text_of(json!({"stdin_raw": "{@I@"})), "{3");
        assert_eq!(text_of(json!({"stdin_raw": "@REPEAT:2:ab@"})), "abab");
        assert_eq!(stdin_of(json!({"stdin_b64": "/w=="})), Some(vec![0xff]));
        assert_eq!(stdin_of(json!({})), Some(Vec::new()));
        assert_eq!(stdin_of(json!({"stdin_closed": true, "stdin": {}})), None);
    }

    #[test]
    fn a_call_has_the_usual_variables_and_those_of_the_case() {
        let variables = variables_of(json!({
            "command": "ADD",
            "env": {"CNI_NETNS": null, "CNI_CONTAINERID": "c-@I@", "CNI_IFNAME": "@REPEAT:2:e@"},
            "env_b64": {"CNI_ARGS": "YWL//g=="},
        }));
        let expected = [
            ("CNI_ARGS", OsString::from_vec(b"ab\xff\xfe".to_vec())),
            ("CNI_COMMAND", "ADD".into()),
            ("CNI_CONTAINERID", "c-3".into()),
            ("CNI_IFNAME", "ee".into()),
            ("CNI_PATH", "/opt/cni/bin".into()),
        ];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn a_cleared_environment_keeps_only_what_the_case_sets() {
        assert_eq!(variables_of(json!({"env_clear": true})), BTreeMap::new());
        let variables = variables_of(json!({"env_clear": true, "command": "VERSION", "env": {"A": ""}}));
        assert_eq!(variables.into_keys().collect::<Vec<_>>(), ["A", "CNI_COMMAND"]);
    }
}
