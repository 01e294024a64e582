//! `describe`: a resource in full, and what of it is in use.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::args::Describe;
use super::super::error::Error;
use super::super::kinds::{self, Kind};
use super::super::render::{percent, printable};
use super::super::{Answer, Context};
use super::apply::LAST_APPLIED;
use super::get::{self, Selection};
use super::milo;
use super::show::{damage, warnings};
use crate::ipam::{BlockUsage, Census, Ipam, Usage};

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Describe) -> Result<Answer, Error> {
    let selection = Selection::parse(&args.kind, &args.names)?;
    if let Kind::Milo(kind) = selection.kind {
        return milo::describe(context, kind, &selection);
    }
    let (ipam, note) = context.open_to_read()?;
    let mut store = ipam.into_store();
    let (found, damaged) = get::read(&mut store, &selection)?;
    let mut ipam = Ipam::new(store);
    let census = match selection.kind {
        Kind::IpPool | Kind::Node => context.count(&mut ipam)?,
        _ => Census::default(),
    };
    drop(ipam);
    let texts: Vec<_> = found.iter().map(|one| describe(selection.kind, one, &census.usage)).collect();
    let mut answer = get::answer_about(&selection, &found, note);
    answer.data = texts.join("\n\n");
    answer.notes.extend(damaged.iter().map(|damage| format!("warning: {damage}")));
    answer.notes.extend(warnings(&damage(&census)));
    Ok(answer)
}

fn describe(kind: Kind, resource: &Value, usage: &Usage) -> String {
    let mut text = String::new();
    let name = kinds::name(resource);
    line(&mut text, 0, "Name", &printable(name));
    for (title, path) in [("Labels", "/metadata/labels"), ("Annotations", "/metadata/annotations")] {
        let mut said = resource.pointer(path).and_then(Value::as_object).cloned().unwrap_or_default();
        // A program's own note, which says nothing that is not here.
        said.remove(LAST_APPLIED);
        nested(&mut text, 0, title, &Value::Object(said));
    }
    line(&mut text, 0, "API Version", resource["apiVersion"].as_str().unwrap_or_default());
    line(&mut text, 0, "Kind", kind.info().name);
    nested(&mut text, 0, "Spec", &resource["spec"]);
    if let Some(status) = resource.get("status") {
        nested(&mut text, 0, "Status", status);
    }
    match kind {
        Kind::IpPool => pool_usage(&mut text, name, usage),
        Kind::Node => node_usage(&mut text, name, usage),
        _ => {}
    }
    text
}

fn line(text: &mut String, depth: usize, key: &str, value: &str) {
    let indent = depth * 2;
    let width = 18usize.saturating_sub(indent);
    let _ = writeln!(text, "{:indent$}{:width$} {}", "", format!("{key}:"), value);
}

fn nested(text: &mut String, depth: usize, key: &str, value: &Value) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let _ = writeln!(text, "{:1$}{key}:", "", depth * 2);
            for (key, value) in members {
                nested(text, depth + 1, &printable(key), value);
            }
        }
        Value::Array(entries) if entries.iter().any(|entry| entry.is_object() || entry.is_array()) => {
            let _ = writeln!(text, "{:1$}{key}:", "", depth * 2);
            for (index, entry) in entries.iter().enumerate() {
                nested(text, depth + 1, &index.to_string(), entry);
            }
        }
        _ => line(text, depth, key, &plain(value)),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        Value::Array(entries) if entries.is_empty() => "<none>".to_owned(),
        Value::Array(entries) => entries.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(_) => "<none>".to_owned(),
        other => other.to_string(),
    }
}

fn pool_usage(text: &mut String, name: &str, usage: &Usage) {
    let Some(pool) = usage.pools.iter().find(|pool| pool.name == name) else { return };
    let _ = writeln!(text, "Usage:");
    line(text, 1, "Total", &pool.capacity.to_string());
    for (title, part) in [("In Use", pool.in_use), ("Reserved", pool.reserved), ("Free", pool.free)] {
        line(text, 1, title, &format!("{part} ({}%)", percent(part, pool.capacity)));
    }
    blocks(text, pool.blocks.iter());
}

fn node_usage(text: &mut String, name: &str, usage: &Usage) {
    let all = usage.pools.iter().flat_map(|pool| &pool.blocks).chain(&usage.orphans);
    let own =
        |block: &&BlockUsage| block.affinity.as_ref().is_some_and(|owner| owner.name().as_str() == name);
    blocks(text, all.clone().filter(own));
    let borrowed = all.flat_map(|block| &block.borrowed).filter(|(host, _)| host == name);
    line(text, 0, "Borrowed", &borrowed.map(|(_, count)| count).sum::<u128>().to_string());
}

fn blocks<'a>(text: &mut String, blocks: impl Iterator<Item = &'a BlockUsage>) {
    let mut lines = String::new();
    for block in blocks {
        let owner = block.affinity.as_ref().map_or_else(|| "<none>".to_owned(), ToString::to_string);
        let used = format!("{} of {} in use, {}", block.in_use, block.capacity, printable(&owner));
        line(&mut lines, 1, &block.cidr.to_string(), &used);
    }
    if lines.is_empty() {
        line(text, 0, "Blocks", "<none>");
    } else {
        text.push_str("Blocks:\n");
        text.push_str(&lines);
    }
}
