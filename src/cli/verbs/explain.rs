//! `explain`: the fields of a kind, what each accepts, and what its absence means. Asks no store.

use std::fmt::Write as _;

use super::super::Answer;
use super::super::args::Explain;
use super::super::error::Error;
use super::super::kinds::Kind;
use crate::api::milo;
use crate::api::schema::{Field, METADATA, Schema, Type};
use crate::api::validate::closest_field;

/// How far texts are moved in.
const INDENT: &str = "    ";
/// How long a line of a text may be.
const WIDTH: usize = 96;

/// Serves it.
pub(in crate::cli) fn run(args: &Explain) -> Result<Answer, Error> {
    let (mut kind, path) = Kind::parse_path(&args.field)?;
    if let Some(version) = &args.api_version {
        let group = version.split_once('/').map_or(version.as_str(), |(group, _)| group);
        kind = Kind::parse(&format!("{}.{group}", kind.info().plural))?;
    }
    let schema = kind.schema().ok_or(Error::ReadOnly(kind))?;
    let mut text = String::new();
    let (group, version) = schema.api_version.split_once('/').unwrap_or(("", schema.api_version));
    let _ = writeln!(text, "GROUP:      {group}\nKIND:       {}\nVERSION:    {version}\n", schema.kind);
    match find(schema, &path)? {
        Found::Kind => {
            let _ = writeln!(text, "DESCRIPTION:\n{}\nFIELDS:", wrap(schema.doc, INDENT));
            if args.recursive {
                tree_of_kind(schema, &mut text);
            } else {
                kind_fields(schema, &mut text);
            }
        }
        Found::Part { name, doc, fields } => {
            let of = part_type(schema, name);
            let _ = writeln!(text, "FIELD: {name} <{of}>\n\nDESCRIPTION:\n{}\nFIELDS:", wrap(doc, INDENT));
            list(schema, fields, args.recursive, &mut text);
        }
        Found::Field(field) => {
            let _ = writeln!(text, "FIELD: {} <{}>{}\n", field.name, field.of.word(), required(field));
            let _ = writeln!(text, "DESCRIPTION:\n{}", describe(field, INDENT).trim_end());
            if !field.of.fields().is_empty() {
                text.push_str("\nFIELDS:\n");
                list(schema, field.of.fields(), args.recursive, &mut text);
            }
        }
    }
    Ok(Answer::data(text))
}

enum Found {
    Kind,
    Part { name: &'static str, doc: &'static str, fields: &'static [Field] },
    Field(&'static Field),
}

const METADATA_DOC: &str = "What the resource says of itself: name, labels and annotations.";
const SPEC_DOC: &str = "What is asked for.";
const STATUS_DOC: &str = "What became of it. Read-only.";

fn find(schema: &'static Schema, path: &[&str]) -> Result<Found, Error> {
    let part = |name, doc, fields| Found::Part { name, doc, fields };
    let (mut fields, rest): (&'static [Field], &[&str]) = match path {
        [] => return Ok(Found::Kind),
        ["metadata"] => return Ok(part("metadata", METADATA_DOC, &METADATA)),
        ["spec"] => return Ok(part("spec", SPEC_DOC, schema.spec)),
        ["status"] if !schema.status.is_empty() => return Ok(part("status", STATUS_DOC, schema.status)),
        ["metadata", rest @ ..] => (&METADATA, rest),
        ["status", rest @ ..] if !schema.status.is_empty() => (schema.status, rest),
        // What people look up is in the specification.
        ["spec", rest @ ..] | rest => (schema.spec, rest),
    };
    let mut found = None;
    for word in rest {
        let field = fields.iter().find(|field| field.name == *word);
        let field = field.ok_or_else(|| {
            let known: Vec<_> = fields.iter().map(|field| field.name).collect();
            let meant = closest_field(word, &known).map(|meant| format!("; did you mean `{meant}`?"));
            Error::UnknownField {
                kind: schema.kind,
                field: path.join("."),
                known: known.join(", "),
                meant: meant.unwrap_or_default(),
            }
        })?;
        fields = field.of.fields();
        found = Some(field);
    }
    Ok(found.map_or(Found::Kind, Found::Field))
}

fn kind_fields(schema: &Schema, text: &mut String) {
    for (name, kind, doc) in [
        ("apiVersion", "string", format!("`{}`.", schema.api_version)),
        ("kind", "string", format!("`{}`.", schema.kind)),
        ("metadata", &part_type(schema, "metadata"), METADATA_DOC.to_owned()),
        ("spec", &part_type(schema, "spec"), SPEC_DOC.to_owned()),
        ("status", &part_type(schema, "status"), STATUS_DOC.to_owned()),
    ] {
        if name != "status" || !schema.status.is_empty() {
            let _ = writeln!(text, "  {name}\t<{kind}>\n{}", wrap(&doc, INDENT));
        }
    }
}

/// The name of the type of a part of a resource. Calico's resources are such as have none.
fn part_type(schema: &Schema, part: &str) -> String {
    match part {
        _ if schema.api_version != milo::API_VERSION => "Object".to_owned(),
        "metadata" => "ObjectMeta".to_owned(),
        "spec" => format!("{}Spec", schema.kind),
        _ => format!("{}Status", schema.kind),
    }
}

/// The fields of an object in the order in which they are told: that of their sense, or, in a group where people look
/// for what another program told them, by name.
fn in_order(schema: &Schema, fields: &'static [Field]) -> Vec<&'static Field> {
    let mut ordered: Vec<_> = fields.iter().filter(|field| field.name != "*").collect();
    if schema.api_version == milo::API_VERSION {
        ordered.sort_by_key(|field| field.name);
    }
    ordered
}

fn tree_of_kind(schema: &Schema, text: &mut String) {
    text.push_str("  apiVersion\t<string>\n  kind\t<string>\n");
    for (part, fields) in
        [("metadata", &METADATA as &'static [Field]), ("spec", schema.spec), ("status", schema.status)]
    {
        if !fields.is_empty() {
            let _ = writeln!(text, "  {part}\t<{}>", part_type(schema, part));
            tree(schema, fields, "    ", text);
        }
    }
}

fn tree(schema: &Schema, fields: &'static [Field], indent: &str, text: &mut String) {
    for field in in_order(schema, fields) {
        let _ = writeln!(text, "{indent}{}\t<{}>{}", field.name, field.of.word(), required(field));
        if let Some(words) = words_of(&field.of) {
            let _ = writeln!(text, "{indent}  enum: {words}");
        }
        tree(schema, field.of.fields(), &format!("{indent}  "), text);
    }
}

/// The first words that a field accepts, in one line.
fn words_of(of: &Type) -> Option<String> {
    const SHOWN_MAX: usize = 4;
    let words = match of {
        Type::Words(words) | Type::List { of: Type::Words(words), .. } => *words,
        _ => return None,
    };
    let shown = words.iter().take(SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
    Some(if words.len() > SHOWN_MAX { format!("{shown}, ...") } else { shown })
}

fn list(schema: &Schema, fields: &'static [Field], is_recursive: bool, text: &mut String) {
    if is_recursive {
        return tree(schema, fields, "  ", text);
    }
    for field in fields {
        let _ = writeln!(text, "  {}\t<{}>{}", field.name, field.of.word(), required(field));
        let _ = writeln!(text, "{}", describe(field, INDENT));
    }
}

fn required(field: &Field) -> &'static str {
    if field.required { " -required-" } else { "" }
}

/// What a field is for, what it accepts, and what its absence means.
fn describe(field: &Field, indent: &str) -> String {
    let mut text = wrap(field.doc, indent);
    let accepted = field.of.accepted();
    if !accepted.is_empty() {
        let _ = writeln!(text, "{indent}Accepted: {accepted}");
    }
    if !field.default.is_empty() {
        let _ = writeln!(text, "{indent}Default: {}", field.default);
    }
    text
}

/// A text in lines of a readable length, each moved in.
fn wrap(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let is_full = lines.last().is_some_and(|line| !line.is_empty() && line.len() + word.len() >= WIDTH);
        if is_full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.iter().flat_map(|line| [indent, line, "\n"]).collect()
}
