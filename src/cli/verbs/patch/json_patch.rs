//! RFC 6902, with the pointers of RFC 6901.

use serde_json::Value;

/// Applies a patch, or says what it does wrong: the rest of a sentence that starts with the patch.
pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), String> {
    let steps = patch.as_array().ok_or("is no list of operations, as a JSON patch is")?;
    for (index, step) in steps.iter().enumerate() {
        operate(target, step).map_err(|problem| format!("fails at operation {index}: {problem}"))?;
    }
    Ok(())
}

fn operate(target: &mut Value, step: &Value) -> Result<(), String> {
    let text = |key: &str| {
        step.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` is missing, or is not text"))
    };
    let value = || step.get("value").cloned().ok_or_else(|| "`value` is missing".to_owned());
    let path = text("path")?;
    match text("op")? {
        "add" => add(target, path, value()?),
        "remove" => remove(target, path).map(drop),
        "replace" => {
            let place = target.pointer_mut(path).ok_or_else(|| nothing_at(path))?;
            *place = value()?;
            Ok(())
        }
        "move" => {
            let from = text("from")?;
            if path.starts_with(&format!("{from}/")) {
                return Err(format!("`{from}` cannot move into itself"));
            }
            let moved = remove(target, from)?;
            add(target, path, moved)
        }
        "copy" => {
            let from = text("from")?;
            let copied = target.pointer(from).cloned().ok_or_else(|| nothing_at(from))?;
            add(target, path, copied)
        }
        "test" => match target.pointer(path) {
            Some(found) if *found == value()? => Ok(()),
            Some(found) => Err(format!("`{path}` is {found}")),
            None => Err(nothing_at(path)),
        },
        other => Err(format!(
            "`op` is `{}`; expected `add`, `remove`, `replace`, `move`, `copy` or `test`",
            other.escape_debug()
        )),
    }
}

fn nothing_at(path: &str) -> String {
    format!("there is nothing at `{}`", path.escape_debug())
}

/// What holds the place that a pointer names, and the last part of the pointer.
fn parent<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| nothing_at(path))?;
    let last = last.replace("~1", "/").replace("~0", "~");
    Ok((target.pointer_mut(parent).ok_or_else(|| nothing_at(parent))?, last))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    match parent(target, path)? {
        (Value::Object(members), key) => drop(members.insert(key, value)),
        (Value::Array(entries), key) if key == "-" => entries.push(value),
        (Value::Array(entries), key) => {
            let place =
                index(&key).filter(|&place| place <= entries.len()).ok_or_else(|| nothing_at(path))?;
            entries.insert(place, value);
        }
        _ => return Err(nothing_at(path)),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<Value, String> {
    match parent(target, path)? {
        (Value::Object(members), key) => members.remove(&key).ok_or_else(|| nothing_at(path)),
        (Value::Array(entries), key) => match index(&key).filter(|&place| place < entries.len()) {
            Some(place) => Ok(entries.remove(place)),
            None => Err(nothing_at(path)),
        },
        _ => Err(nothing_at(path)),
    }
}

/// Digits without a leading zero.
fn index(key: &str) -> Option<usize> {
    let plain = key == "0" || !key.starts_with('0') && key.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| key.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_operation_does_what_its_rfc_says() {
        for (patch, after) in [
            (
                json!([{ "op": "add", "path": "/c", "value": 1 }]),
                json!({ "a": { "x/y": 1 }, "b": [1, 2], "c": 1 }),
            ),
            (
                json!([{ "op": "add", "path": "/b/1", "value": 9 }]),
                json!({ "a": { "x/y": 1 }, "b": [1, 9, 2] }),
            ),
            (
                json!([{ "op": "add", "path": "/b/-", "value": 9 }]),
                json!({ "a": { "x/y": 1 }, "b": [1, 2, 9] }),
            ),
            (json!([{ "op": "remove", "path": "/a/x~1y" }]), json!({ "a": {}, "b": [1, 2] })),
            (
                json!([{ "op": "replace", "path": "/b/0", "value": null }]),
                json!({ "a": { "x/y": 1 }, "b": [null, 2] }),
            ),
            (
                json!([{ "op": "move", "from": "/b", "path": "/a/b" }]),
                json!({ "a": { "x/y": 1, "b": [1, 2] } }),
            ),
            (json!([{ "op": "copy", "from": "/b/1", "path": "/a" }]), json!({ "a": 2, "b": [1, 2] })),
            (
                json!([{ "op": "test", "path": "/b/0", "value": 1 }]),
                json!({ "a": { "x/y": 1 }, "b": [1, 2] }),
            ),
        ] {
            let mut target = json!({ "a": { "x/y": 1 }, "b": [1, 2] });
            apply(&mut target, &patch).expect("applied");
            assert_eq!(target, after, "{patch}");
        }
    }

    #[test]
    fn an_operation_that_cannot_be_done_is_named() {
        for (patch, told) in [
            (json!({}), "is no list of operations"),
            (json!([{ "op": "test", "path": "/b/0", "value": 2 }]), "operation 0: `/b/0` is 1"),
            (json!([{ "op": "remove", "path": "/zz" }]), "nothing at `/zz`"),
            (json!([{ "op": "replace", "path": "/zz", "value": 1 }]), "nothing at `/zz`"),
            (json!([{ "op": "add", "path": "/b/7", "value": 1 }]), "nothing at `/b/7`"),
            (json!([{ "op": "add", "path": "/b/01", "value": 1 }]), "nothing at `/b/01`"),
            (json!([{ "op": "add", "path": "/c" }]), "`value` is missing"),
            (json!([{ "op": "move", "from": "/a", "path": "/a/b" }]), "into itself"),
            (json!([{ "op": "frob", "path": "/a" }]), "`op` is `frob`"),
        ] {
            let mut target = json!({ "a": {}, "b": [1] });
            let problem = apply(&mut target, &patch).expect_err("refused");
            assert!(problem.contains(told), "{patch}: {problem}");
        }
    }
}
