//! RFC 6902, with the pointers of RFC 6901.

use serde_json::Value;

/// Bytes of values that `copy`, `move`, `add` and `remove` may shift in one patch. A resource is much smaller; a chain
/// of copies that double would otherwise fill the memory.
const SHIFTED_MAX: usize = 16 << 20;

/// Levels of nesting that a patched resource may have: as many as are read again.
const DEPTH_MAX: usize = 100;

/// Applies a patch, or says what it does wrong: the rest of a sentence that starts with the patch.
pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), String> {
    let steps = patch.as_array().ok_or("is no list of operations, as a JSON patch is")?;
    let mut budget = Budget { left: SHIFTED_MAX };
    for (index, step) in steps.iter().enumerate() {
        operate(target, step, &mut budget)
            .map_err(|problem| format!("fails at operation {index}: {problem}"))?;
    }
    Ok(())
}

/// Bytes that the rest of a patch may still shift.
struct Budget {
    left: usize,
}

impl Budget {
    /// Charges for a value that is put at a path, and refuses one that nests too deep there.
    fn place(&mut self, value: &Value, path: &str) -> Result<(), String> {
        let depth = path.bytes().filter(|&byte| byte == b'/').count();
        self.charge_parts(value, depth)
    }

    fn charge_parts(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("the resource would nest deeper than {DEPTH_MAX} levels"));
        }
        self.charge(size_of::<Value>())?;
        match value {
            Value::String(text) => self.charge(text.len()),
            Value::Array(entries) => entries.iter().try_for_each(|entry| self.charge_parts(entry, depth + 1)),
            Value::Object(members) => members.iter().try_for_each(|(key, member)| {
                self.charge(key.len())?;
                self.charge_parts(member, depth + 1)
            }),
            _ => Ok(()),
        }
    }

    /// Charges for list entries that move up or down by one.
    fn shift(&mut self, entries: usize) -> Result<(), String> {
        self.charge(entries.saturating_mul(size_of::<Value>()))
    }

    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or_else(|| format!("the patch copies and moves more than {SHIFTED_MAX} bytes"))?;
        Ok(())
    }
}

fn operate(target: &mut Value, step: &Value, budget: &mut Budget) -> Result<(), String> {
    let text = |key: &str| {
        step.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` is missing, or is not text"))
    };
    let value = || step.get("value").ok_or_else(|| "`value` is missing".to_owned());
    let path = text("path")?;
    match text("op")? {
        "add" => {
            let value = value()?;
            budget.place(value, path)?;
            add(target, path, value.clone(), budget)
        }
        "remove" => remove(target, path, budget).map(drop),
        "replace" => {
            let place = target.pointer_mut(path).ok_or_else(|| nothing_at(path))?;
            let value = value()?;
            budget.place(value, path)?;
            place.clone_from(value);
            Ok(())
        }
        "move" => {
            let from = text("from")?;
            if path.starts_with(&format!("{from}/")) {
                return Err(format!("`{from}` cannot move into itself"));
            }
            let moved = remove(target, from, budget)?;
            budget.place(&moved, path)?;
            add(target, path, moved, budget)
        }
        "copy" => {
            let from = text("from")?;
            let copied = target.pointer(from).ok_or_else(|| nothing_at(from))?;
            budget.place(copied, path)?;
            let copied = copied.clone();
            add(target, path, copied, budget)
        }
        "test" => match target.pointer(path) {
            Some(found) if found == value()? => Ok(()),
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

fn add(target: &mut Value, path: &str, value: Value, budget: &mut Budget) -> Result<(), String> {
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
            budget.shift(entries.len() - place)?;
            entries.insert(place, value);
        }
        _ => return Err(nothing_at(path)),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str, budget: &mut Budget) -> Result<Value, String> {
    match parent(target, path)? {
        (Value::Object(members), key) => members.remove(&key).ok_or_else(|| nothing_at(path)),
        (Value::Array(entries), key) => match index(&key).filter(|&place| place < entries.len()) {
            Some(place) => {
                budget.shift(entries.len() - place)?;
                Ok(entries.remove(place))
            }
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

    #[test]
    fn a_patch_that_grows_without_end_is_refused() {
        let refused = |patch: Vec<Value>| {
            let mut target = json!({ "metadata": {}, "spec": { "list": [1, 2] } });
            apply(&mut target, &Value::Array(patch)).expect_err("refused")
        };
        // Each copy doubles the object: 41 of them make 2^41 values.
        let double = |n: usize| json!({ "op": "copy", "from": "/spec", "path": format!("/spec/{n}") });
        let told = refused((0..41).map(double).collect());
        assert!(told.contains("copies and moves more than"), "{told}");
        // Each round nests one level deeper at the same length of text.
        let nest = [
            json!({ "op": "add", "path": "/b", "value": {} }),
            json!({ "op": "move", "from": "/spec", "path": "/b/a" }),
            json!({ "op": "move", "from": "/b", "path": "/spec" }),
        ];
        let told = refused(nest.iter().cycle().take(300_000).cloned().collect());
        assert!(told.contains("nest deeper than 100 levels"), "{told}");
        // Each insertion moves all entries before it.
        let insert = json!({ "op": "add", "path": "/spec/list/0", "value": 1 });
        let told = refused(vec![insert; 1_000_000]);
        assert!(told.contains("copies and moves more than"), "{told}");
    }
}
