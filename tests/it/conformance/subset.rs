//! Whether a printed document contains what a case wants of it.

use regex::Regex;
use serde_json::{Map, Value};

use super::address::same_address;

/// `Ok` when `wanted` is contained in `got`, else a sentence that names the place below `path`.
///
/// Objects may have more members than wanted; lists are compared as a whole. Texts that are addresses compare as
/// addresses. `@any@`, `@absent@`, `@regex:..@` and `{"@contains@": [..]}` are matchers.
pub(crate) fn contains(wanted: &Value, got: &Value, path: &str) -> Result<(), String> {
    match wanted {
        Value::String(text) if text == "@any@" => Ok(()),
        Value::String(text) => match text.strip_prefix("@regex:").and_then(|rest| rest.strip_suffix('@')) {
            Some(pattern) => matches(pattern, got, path),
            None => equal(wanted, got, path),
        },
        Value::Object(members) => match members.get("@contains@") {
            Some(Value::Array(items)) if members.len() == 1 => contains_items(items, got, path),
            _ => contains_members(members, got, path),
        },
        Value::Array(items) => same_items(items, got, path),
        _ => equal(wanted, got, path),
    }
}

fn matches(pattern: &str, got: &Value, path: &str) -> Result<(), String> {
    let regex =
        Regex::new(pattern).map_err(|error| format!("{path}: the case has a bad pattern: {error}"))?;
    match got {
        Value::String(text) if regex.is_match(text) => Ok(()),
        _ => Err(format!("{path}: {got} does not match `{pattern}`")),
    }
}

fn contains_items(wanted: &[Value], got: &Value, path: &str) -> Result<(), String> {
    let Value::Array(items) = got else {
        return Err(format!("{path}: not a list: {got}"));
    };
    let is_missing = |wanted: &&Value| !items.iter().any(|item| contains(wanted, item, path).is_ok());
    match wanted.iter().find(is_missing) {
        Some(wanted) => Err(format!("{path}: lacks {wanted}, has {got}")),
        None => Ok(()),
    }
}

fn contains_members(wanted: &Map<String, Value>, got: &Value, path: &str) -> Result<(), String> {
    let Value::Object(members) = got else {
        return Err(format!("{path}: want an object, got {got}"));
    };
    for (key, wanted) in wanted {
        let path = format!("{path}.{key}");
        match (wanted.as_str(), members.get(key)) {
            (Some("@absent@"), Some(value)) if !is_empty(value) => {
                return Err(format!("{path}: must be absent, is {value}"));
            }
            (Some("@absent@"), _) => {}
            (_, None) => return Err(format!("{path}: missing")),
            (_, Some(value)) => contains(wanted, value, &path)?,
        }
    }
    Ok(())
}

/// A member printed empty says no more than an absent one. False and zero do.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn same_items(wanted: &[Value], got: &Value, path: &str) -> Result<(), String> {
    match got {
        Value::Array(items) if items.len() == wanted.len() => wanted
            .iter()
            .zip(items)
            .enumerate()
            .try_for_each(|(n, (wanted, item))| contains(wanted, item, &format!("{path}[{n}]"))),
        _ => Err(format!("{path}: want {}, got {got}", Value::from(wanted))),
    }
}

fn equal(wanted: &Value, got: &Value, path: &str) -> Result<(), String> {
    let equal = match (wanted, got) {
        (Value::String(wanted), Value::String(got)) => wanted == got || same_address(wanted, got),
        // A float and an integer of the same value are the same JSON number.
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => wanted == got,
    };
    if equal { Ok(()) } else { Err(format!("{path}: want {wanted}, got {got}")) }
}

mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn holds(wanted: &Value, got: &Value) {
        assert_eq!(contains(wanted, got, "$"), Ok(()));
    }

    #[track_caller]
    fn lacks(wanted: &Value, got: &Value, place: &str) {
        let sentence = contains(wanted, got, "$").expect_err("not contained");
        assert!(sentence.starts_with(&format!("{place}: ")), "{sentence}");
    }

    #[test]
    fn an_object_may_have_more_than_is_wanted_but_not_less() {
        holds(&json!({"a": {"b": 1}}), &json!({"a": {"b": 1, "c": 2}, "d": 3}));
        lacks(&json!({"a": {"b": 1}}), &json!({"a": {"c": 1}}), "$.a.b");
        lacks(&json!({"a": {"b": 1}}), &json!({"a": {"b": 2}}), "$.a.b");
        lacks(&json!({"a": {}}), &json!({"a": []}), "$.a");
        lacks(&json!({}), &json!(null), "$");
    }

    #[test]
    fn a_list_has_the_wanted_items_in_order_and_no_others() {
        holds(&json!([1, {"a": 2}]), &json!([1, {"a": 2, "b": 3}]));
        lacks(&json!([1]), &json!([1, 2]), "$");
        lacks(&json!([1, 2]), &json!([2, 1]), "$[0]");
        lacks(&json!([]), &json!({}), "$");
    }

    #[test]
    fn contains_takes_any_order_and_more_items() {
        let wanted = json!({"@contains@": [{"dst": "192.0.2.0/24"}, "x"]});
        holds(&wanted, &json!(["x", "y", {"dst": "192.0.2.0/24", "gw": "192.0.2.1"}]));
        lacks(&wanted, &json!(["x"]), "$");
        lacks(&wanted, &json!("x"), "$");
    }

    #[test]
    fn an_absent_member_may_be_there_when_it_is_empty() {
        let wanted = json!({"a": "@absent@"});
        for got in [json!({}), json!({"a": null}), json!({"a": ""}), json!({"a": []}), json!({"a": {}})] {
            holds(&wanted, &got);
        }
        for got in [json!({"a": 0}), json!({"a": false}), json!({"a": "x"}), json!({"a": [null]})] {
            lacks(&wanted, &got, "$.a");
        }
    }

    #[test]
    fn any_wants_the_member_but_not_its_value() {
        holds(&json!({"a": "@any@"}), &json!({"a": null}));
        lacks(&json!({"a": "@any@"}), &json!({}), "$.a");
    }

    #[test]
    fn a_pattern_is_searched_in_texts_only() {
        holds(&json!("@regex:^a+@$@"), &json!("aa@"));
        holds(&json!("@regex:b@"), &json!("abc"));
        lacks(&json!("@regex:^b@"), &json!("abc"), "$");
        lacks(&json!("@regex:1@"), &json!(1), "$");
        lacks(&json!("@regex:(@"), &json!("("), "$");
    }

    #[test]
    fn scalars_compare_by_type_and_value_and_addresses_by_meaning() {
        holds(&json!("fd00:0::1/64"), &json!("fd00::1/64"));
        holds(&json!(1), &json!(1.0));
        for (wanted, got) in [
            (json!("fd00::1/64"), json!("fd00::1/65")),
            (json!("a"), json!("A")),
            (json!(1), json!(true)),
            (json!(0), json!(false)),
            (json!("1"), json!(1)),
            (json!(null), json!("")),
            (json!(false), json!(null)),
        ] {
            lacks(&wanted, &got, "$");
        }
    }
}
