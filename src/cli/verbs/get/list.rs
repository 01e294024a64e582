//! Prints a list of resources one at a time: a list of all blocks of a large store does not fit into memory.

use std::io::Write;

use serde_json::{Value, json};

use super::super::super::error::Error;
use super::super::super::kinds::{self, Kind, Look};
use super::super::super::render::{self, Format, Table};
use super::super::super::write_all;

/// The list of resources of a kind, printed as they come. A table is kept as rows until its widths are known.
pub(super) struct List<'a> {
    kind: Kind,
    format: Format,
    look: Look,
    out: &'a mut dyn Write,
    table: Table,
    count: usize,
    failure: Option<std::io::Error>,
}

impl<'a> List<'a> {
    pub(super) fn new(kind: Kind, format: Format, look: Look, out: &'a mut dyn Write) -> Self {
        List { kind, format, look, out, table: kind.table(&[], look), count: 0, failure: None }
    }

    /// Adds a resource.
    pub(super) fn push(&mut self, resource: Value) {
        let text = match self.format {
            Format::Table | Format::Wide => {
                self.table.append(self.kind.table(&[resource], self.look));
                String::new()
            }
            Format::Name => {
                let name = self.kind.full_name(kinds::name(&resource));
                format!("{}\n", render::printable(&name))
            }
            Format::Json => {
                let text = render::json(&resource).trim_end().replace('\n', "\n    ");
                let before = if self.count == 0 { self.frame().0 + "[" } else { ",".to_owned() };
                format!("{before}\n    {text}")
            }
            Format::Yaml => {
                let text = render::yaml(&json!({ "items": [resource] }));
                let (title, entry) = text.split_once('\n').unwrap_or((&text, ""));
                if self.count == 0 { format!("{}{title}\n{entry}", self.frame().0) } else { entry.to_owned() }
            }
        };
        self.count += 1;
        self.write(&text);
    }

    /// Ends the list. The number of resources in it.
    pub(super) fn finish(mut self) -> Result<usize, Error> {
        let text = match (self.format, self.count) {
            (Format::Name, _) | (Format::Table | Format::Wide, 0) => String::new(),
            (Format::Table | Format::Wide, _) => self.table.columns(),
            (Format::Json, 0) => render::json(&self.skeleton()),
            (Format::Yaml, 0) => render::yaml(&self.skeleton()),
            (Format::Json, _) => format!("\n  ]{}", self.frame().1),
            (Format::Yaml, _) => self.frame().1,
        };
        self.write(&text);
        self.failure.map_or(Ok(self.count), |error| Err(Error::Output(error)))
    }

    /// The list without resources.
    fn skeleton(&self) -> Value {
        json!({
            "apiVersion": self.kind.api_version(),
            "kind": format!("{}List", self.kind.info().name),
            "metadata": {},
            "items": [],
        })
    }

    /// The texts before and after the resources of the list.
    fn frame(&self) -> (String, String) {
        let (text, items) = match self.format {
            Format::Yaml => (render::yaml(&self.skeleton()), "items: []\n"),
            _ => (render::json(&self.skeleton()), "[]"),
        };
        let (before, after) = text.split_once(items).unwrap_or((&text, ""));
        (before.to_owned(), after.to_owned())
    }

    fn write(&mut self, text: &str) {
        if self.failure.is_none() && !text.is_empty() {
            self.failure = write_all(self.out, text).err();
        }
    }
}
