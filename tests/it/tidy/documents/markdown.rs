//! Reads a Markdown document as far as the checks need it: fenced blocks, prose, links and headings.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A document of the tree.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) blocks: Vec<Block>,
    pub(super) prose: Vec<Prose>,
    /// The targets of links, with their fragments.
    pub(super) links: Vec<String>,
    /// The anchors of headings, as code hosting sites make them.
    pub(super) anchors: Vec<String>,
    /// Inline code.
    pub(super) code: Vec<String>,
}

/// A fenced block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) language: String,
    /// `title="…"` after the language: the file that the block shows.
    pub(super) title: Option<String>,
    pub(super) text: String,
    /// Inline code of the paragraph before it.
    pub(super) introduced_by: Vec<String>,
}

/// A paragraph, a list item or a table cell. Inline code is one word, a link is its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prose {
    pub(super) text: String,
    pub(super) in_table: bool,
}

/// Takes the place of inline code, which counts as one word and ends no sentence.
const CODE: &str = "code";

#[derive(Default)]
struct Reader {
    document: Document,
    text: String,
    code_of_text: Vec<String>,
    code_of_last: Vec<String>,
    heading: Option<String>,
    block: Option<Block>,
    in_table: bool,
}

impl Document {
    pub(super) fn parse(markdown: &str) -> Self {
        let mut reader = Reader::default();
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
            reader.read(event);
        }
        reader.document
    }
}

impl Reader {
    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => self.begin_block(&kind),
            Event::End(TagEnd::CodeBlock) => self.document.blocks.extend(self.block.take()),
            Event::Start(Tag::Heading { .. }) => self.heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let heading = self.heading.take().unwrap_or_default();
                self.document.anchors.push(anchor(&heading));
            }
            Event::Start(Tag::Table(_)) => self.in_table = true,
            Event::End(TagEnd::Table) => self.in_table = false,
            Event::Start(Tag::Link { dest_url, .. }) => self.document.links.push(dest_url.into_string()),
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) | Event::Start(Tag::List(_)) => {
                self.end_text();
            }
            Event::Code(code) => self.inline_code(&code),
            Event::Text(text) => self.push(&text),
            Event::SoftBreak | Event::HardBreak => self.push(" "),
            _ => {}
        }
    }

    fn begin_block(&mut self, kind: &CodeBlockKind<'_>) {
        let info = match kind {
            CodeBlockKind::Fenced(info) => info.to_string(),
            CodeBlockKind::Indented => String::new(),
        };
        let (language, rest) = info.split_once(' ').unwrap_or((&info, ""));
        let title = rest.strip_prefix("title=\"").and_then(|rest| rest.strip_suffix('"'));
        self.block = Some(Block {
            language: language.to_owned(),
            title: title.map(str::to_owned),
            text: String::new(),
            introduced_by: std::mem::take(&mut self.code_of_last),
        });
    }

    fn inline_code(&mut self, code: &str) {
        self.document.code.push(code.to_owned());
        if let Some(heading) = &mut self.heading {
            heading.push_str(code);
        } else {
            self.code_of_text.push(code.to_owned());
            self.text.push_str(CODE);
        }
    }

    fn push(&mut self, text: &str) {
        match (&mut self.block, &mut self.heading) {
            (Some(block), _) => block.text.push_str(text),
            (None, Some(heading)) => heading.push_str(text),
            (None, None) => self.text.push_str(text),
        }
    }

    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.code_of_last = std::mem::take(&mut self.code_of_text);
            let text = text.trim().to_owned();
            self.document.prose.push(Prose { text, in_table: self.in_table });
        }
    }
}

/// The fragment under which a heading is found.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_document_are_told_apart() {
        let markdown = "# The `x` file, 1\n\nSee [this\nlink](a.md#b) in `etc/f`:\n\n```json title=\"etc/f\"\n{}\n```\n\n\
                        - one. Two.\n- three\n  - four\n\n| a | b |\n| - | - |\n| c. | `d` |\n";
        let document = Document::parse(markdown);
        assert_eq!(document.anchors, ["the-x-file-1"]);
        assert_eq!(document.links, ["a.md#b"]);
        assert_eq!(document.code, ["x", "etc/f", "d"]);
        let block = Block {
            language: "json".to_owned(),
            title: Some("etc/f".to_owned()),
            text: "{}\n".to_owned(),
            introduced_by: vec!["etc/f".to_owned()],
        };
        assert_eq!(document.blocks, [block]);
        let prose: Vec<_> = document.prose.iter().map(|p| (p.text.as_str(), p.in_table)).collect();
        let outside = ["See this link in code:", "one. Two.", "three", "four"].map(|text| (text, false));
        let inside = ["a", "b", "c.", "code"].map(|text| (text, true));
        assert_eq!(prose, [outside, inside].concat());
    }
}
