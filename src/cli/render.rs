//! How answers look: tables for people, JSON and YAML for programs. Makes texts; writes nothing.

use std::fmt::Write as _;
use std::str::FromStr;

use serde_json::Value;

use super::error::Error;

/// The largest integer that every JSON reader keeps: those that read numbers as floating point keep 53 bits.
const EXACT_MAX: u128 = 1 << 53;

/// How an answer is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Aligned columns.
    Table,
    /// More of them.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// One `KIND/NAME` a line.
    Name,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        match word.to_ascii_lowercase().as_str() {
            "table" | "ps" => Ok(Format::Table),
            "wide" => Ok(Format::Wide),
            "json" => Ok(Format::Json),
            "yaml" | "yml" => Ok(Format::Yaml),
            "name" => Ok(Format::Name),
            _ => Err(Error::Argument {
                what: "`--output`".into(),
                found: word.to_owned(),
                expected: "`table`, `wide`, `json`, `yaml` or `name`".into(),
            }),
        }
    }
}

/// A count as a JSON number where that is exact everywhere, else as text.
pub(super) fn count(number: u128) -> Value {
    match u64::try_from(number) {
        Ok(small) if number <= EXACT_MAX => small.into(),
        _ => number.to_string().into(),
    }
}

/// A document in JSON.
pub(super) fn json(value: &Value) -> String {
    // A tree of JSON values cannot fail to be written.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// A document in YAML.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = serde_saphyr::to_string(value).unwrap_or_default();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// On which side a column's texts stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of texts under headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(super) fn new(columns: impl IntoIterator<Item = (&'static str, Align)>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row. Names come from outside: control characters, which a terminal would obey, are written out.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// Adds the rows of another table with the same columns.
    pub(super) fn append(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    /// `kubectl`'s look: padded columns.
    pub(super) fn columns(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut row = String::new();
            for ((cell, width), (_, align)) in cells.zip(&widths).zip(&self.columns) {
                let _ = write!(row, "{}   ", pad(cell, *width, *align));
            }
            text.push_str(row.trim_end());
            text.push('\n');
        };
        line(&mut self.columns.iter().map(|(header, _)| *header));
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str));
        }
        text
    }

    /// `calicoctl ipam`'s look: a box.
    pub(super) fn boxed(&self) -> String {
        let widths = self.widths();
        let mut rule = String::new();
        for width in &widths {
            let _ = write!(rule, "+{:-<1$}", "", width + 2);
        }
        let mut text = format!("{rule}+\n");
        for ((header, _), width) in self.columns.iter().zip(&widths) {
            let _ = write!(text, "| {} ", pad(header, *width, Align::Left));
        }
        let _ = writeln!(text, "|\n{rule}+");
        for row in &self.rows {
            for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                let _ = write!(text, "| {} ", pad(cell, *width, *align));
            }
            text.push_str("|\n");
        }
        if !self.rows.is_empty() {
            let _ = writeln!(text, "{rule}+");
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |text: &str| text.chars().count();
        let of_column = |(place, (header, _)): (usize, &(&'static str, Align))| {
            let cells = self.rows.iter().filter_map(|row| row.get(place));
            cells.map(|cell| width(cell)).chain([width(header)]).max().unwrap_or_default()
        };
        self.columns.iter().enumerate().map(of_column).collect()
    }
}

fn pad(text: &str, width: usize, align: Align) -> String {
    match align {
        Align::Left => format!("{text:<width$}"),
        Align::Right => format!("{text:>width$}"),
    }
}

/// A text with the characters written out that a terminal obeys.
pub(super) fn printable(text: &str) -> String {
    escaped(text, &[])
}

/// Text of several lines, as [`printable`].
pub(super) fn printable_lines(text: &str) -> String {
    escaped(text, &['\n', '\t'])
}

fn escaped(text: &str, kept: &[char]) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if commands_terminal(character) && !kept.contains(&character) {
            printable.extend(character.escape_debug());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Control characters, and those that turn the direction of text around.
fn commands_terminal(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A number of things: `1 address`, `2 addresses`.
pub(super) fn counted(number: impl TryInto<u64>, one: &str, several: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {}", if number == 1 { one } else { several })
}

/// A part as a whole percentage of a total, rounded to the nearest, a half to the even one.
pub(super) fn percent(part: u128, total: u128) -> u128 {
    if total == 0 {
        return 0;
    }
    // Beyond 2^113 the product would not fit; the lowest bits decide nothing then.
    let shift = 15u32.saturating_sub(total.leading_zeros());
    let (part, total) = (part >> shift, (total >> shift).max(1));
    let (whole, rest) = (part * 100 / total, part * 100 % total);
    match (rest * 2).cmp(&total) {
        std::cmp::Ordering::Less => whole,
        std::cmp::Ordering::Greater => whole + 1,
        std::cmp::Ordering::Equal => whole + whole % 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_that_of_the_exact_numbers() {
        assert_eq!(percent(5, 64), 8);
        assert_eq!(percent(1, 8), 12, "12.5 goes to the even one");
        assert_eq!(percent(3, 8), 38, "37.5 goes to the even one");
        assert_eq!(percent(0, 0), 0);
        assert_eq!(percent(65_531, 65_536), 100);
        assert_eq!(percent(u128::MAX, u128::MAX), 100);
        assert_eq!(percent(u128::MAX / 2, u128::MAX), 50);
        assert_eq!(percent(1, u128::MAX), 0);
    }

    #[test]
    fn a_count_that_a_reader_could_round_is_text() {
        assert_eq!(count(1 << 53), Value::from(9_007_199_254_740_992u64));
        assert_eq!(count((1 << 53) + 1), Value::from("9007199254740993"));
        assert_eq!(count(1 << 80), Value::from("1208925819614629174706176"));
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        let mut table = Table::new([("NAME", Align::Left)]);
        table.row(["a\u{1b}[2Jb".to_owned()]);
        table.row(["x\"\u{202e}y\nz".to_owned()]);
        assert_eq!(table.columns(), "NAME\na\\u{1b}[2Jb\nx\"\\u{202e}y\\nz\n");
        assert_eq!(printable_lines("a\n\u{9b}b\u{2066}"), "a\n\\u{9b}b\\u{2066}");
    }

    #[test]
    fn a_box_has_a_rule_after_its_header_and_at_its_end() {
        let mut table = Table::new([("A", Align::Left), ("COUNT", Align::Right)]);
        assert_eq!(table.boxed(), "+---+-------+\n| A | COUNT |\n+---+-------+\n");
        table.row(["xy".to_owned(), "1".to_owned()]);
        assert_eq!(
            table.boxed(),
            "+----+-------+\n| A  | COUNT |\n+----+-------+\n| xy |     1 |\n+----+-------+\n"
        );
    }
}
