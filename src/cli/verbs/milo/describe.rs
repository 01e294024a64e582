//! `describe`, in the shape that `kubectl` gives to kinds of which it knows nothing.

use serde_json::{Map, Value};

use super::super::super::error::Error;
use super::super::super::kinds::{Kind, Milo, name};
use super::super::super::render::printable;
use super::super::super::{Answer, Context};
use super::super::apply::LAST_APPLIED;
use super::super::get::{self, Selection};
use super::read::{self, View};
use crate::datastore::run_in_place;
use crate::ipam::PoolShown;

/// Serves it.
pub(in crate::cli::verbs) fn describe(
    context: &Context<'_>,
    kind: Milo,
    selection: &Selection,
) -> Result<Answer, Error> {
    let (mut ipam, note) = context.open_to_read()?;
    let view = View::of_project(context)?;
    let (found, damaged) = read::read(&mut ipam, kind, &selection.names, &view)?;
    let pools = if kind == Milo::Pool { run_in_place(ipam.shown_pools())? } else { Vec::new() };
    drop(ipam);
    let text = |resource: &Value| {
        let pool = pools.iter().find(|pool| pool.record.calico.name() == name(resource));
        page(kind, resource, pool)
    };
    let texts: Vec<_> = found.iter().map(text).collect();
    let mut answer = get::answer_about(selection, &found, note);
    answer.data = texts.join("\n\n");
    answer.notes.extend(damaged.iter().map(|damage| format!("warning: {damage}")));
    Ok(answer)
}

fn page(kind: Milo, resource: &Value, pool: Option<&PoolShown>) -> String {
    let mut page = Page::default();
    page.line(0, "Name", name(resource));
    if let Some(namespace) = resource.pointer("/metadata/namespace").and_then(Value::as_str) {
        page.line(0, "Namespace", namespace);
    }
    if let Some(project) = pool.and_then(|pool| pool.record.extras.project.as_deref()) {
        page.line(0, "Project", project);
    }
    page.pairs("Labels", resource.pointer("/metadata/labels"), "=");
    page.pairs("Annotations", resource.pointer("/metadata/annotations"), ": ");
    page.line(0, "API Version", resource["apiVersion"].as_str().unwrap_or_default());
    page.line(0, "Kind", Kind::Milo(kind).info().name);
    let mut metadata = resource["metadata"].as_object().cloned().unwrap_or_default();
    for told in ["name", "namespace", "labels", "annotations"] {
        metadata.remove(told);
    }
    for (title, part) in [
        ("Metadata", Some(&Value::Object(metadata))),
        ("Spec", resource.get("spec")),
        ("Status", resource.get("status")),
    ] {
        if let Some(Value::Object(members)) = part.filter(|part| **part != Value::Object(Map::new())) {
            page.title(0, title);
            page.members(1, members);
        }
    }
    if let Some(pool) = pool {
        page.carved(pool);
    }
    page.line(0, "Events", "<none>");
    page.text()
}

/// Lines, of which neighbours with values have them in one column.
#[derive(Default)]
struct Page(Vec<(String, Option<String>)>);

impl Page {
    fn line(&mut self, depth: usize, key: &str, value: &str) {
        self.0.push((format!("{:1$}{2}:", "", depth * 2, printable(key)), Some(printable(value))));
    }

    fn title(&mut self, depth: usize, key: &str) {
        self.0.push((format!("{:1$}{2}:", "", depth * 2, printable(key)), None));
    }

    /// Labels and the like, one below the other.
    fn pairs(&mut self, title: &str, pairs: Option<&Value>, between: &str) {
        let nothing = Map::new();
        let pairs = pairs.and_then(Value::as_object).unwrap_or(&nothing);
        let mut first = format!("{title}:");
        // A program's own note, which says nothing that is not here.
        for (key, value) in pairs.iter().filter(|(key, _)| *key != LAST_APPLIED) {
            let text = format!("{key}{between}{}", plain(value));
            self.0.push((std::mem::take(&mut first), Some(printable(&text))));
        }
        if !first.is_empty() {
            self.0.push((first, Some("<none>".to_owned())));
        }
    }

    fn members(&mut self, depth: usize, members: &Map<String, Value>) {
        for (key, value) in members {
            self.member(depth, &words(key), value);
        }
    }

    fn member(&mut self, depth: usize, key: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                self.title(depth, key);
                self.members(depth + 1, members);
            }
            Value::Array(entries) => {
                self.title(depth, key);
                for entry in entries {
                    match entry {
                        Value::Object(members) => self.members(depth + 1, members),
                        other => {
                            let indent = (depth + 1) * 2;
                            self.0.push((format!("{:indent$}{}", "", printable(&plain(other))), None));
                        }
                    }
                }
            }
            scalar => self.line(depth, key, &plain(scalar)),
        }
    }

    /// Who has what of a pool.
    fn carved(&mut self, pool: &PoolShown) {
        if pool.extents.iter().len() == 0 {
            return self.line(0, "Carved", "<none>");
        }
        self.title(0, "Carved");
        for extent in &pool.extents {
            self.line(1, &extent.cidr.to_string(), &extent.by.to_string());
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for run in self.0.chunk_by(|(_, one), (_, other)| one.is_some() == other.is_some()) {
            let width = run.iter().map(|(key, _)| key.chars().count() + 2).max().unwrap_or_default();
            for (key, value) in run {
                let line = match value {
                    Some(value) => format!("{key:width$}{value}"),
                    None => key.clone(),
                };
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// The words of a field's name: `allocatedCIDR` is `Allocated CIDR`. A name with other signs stays as it is.
fn words(field: &str) -> String {
    if !field.chars().all(char::is_alphabetic) {
        return field.to_owned();
    }
    let letters: Vec<char> = field.chars().collect();
    let is_upper = |at: usize| letters.get(at).is_some_and(|letter| letter.is_uppercase());
    let mut parts: Vec<String> = Vec::new();
    for (at, letter) in letters.iter().enumerate() {
        // A word starts with the first upper letter after a lower one, and with the last of several before a lower one.
        let after_lower = at > 0 && !is_upper(at - 1);
        let before_lower = at + 1 < letters.len() && !is_upper(at + 1);
        match parts.last_mut() {
            Some(part) if !(is_upper(at) && (after_lower || before_lower)) => part.push(*letter),
            _ => parts.push(letter.to_string()),
        }
    }
    let spoken = |part: String| match part.to_uppercase() {
        known if ["API", "GUID", "UID", "URL"].contains(&known.as_str()) => known,
        _ => {
            let mut letters = part.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
        }
    };
    parts.into_iter().map(spoken).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_field_is_told_in_words() {
        for (field, told) in [
            ("ipFamily", "Ip Family"),
            ("poolRef", "Pool Ref"),
            ("allocatedCIDR", "Allocated CIDR"),
            ("lastTransitionTime", "Last Transition Time"),
            ("uid", "UID"),
            ("apiGroup", "API Group"),
            ("CIDRsOf", "CID Rs Of"),
            ("kubectl.kubernetes.io/x", "kubectl.kubernetes.io/x"),
        ] {
            assert_eq!(words(field), told);
        }
    }
}
