use proptest::prelude::*;

use super::grammar::{any_of, write_any};
use super::*;
use crate::ipam::selector::parse::steps_of;

/// Looks at the text that a parser may take for a character of it: none is looked at again and again.
const STEPS_PER_CHARACTER: usize = 16;

const PIECES: [&str; 40] = [
    "all()",
    "all(",
    "all",
    "global()",
    "global(",
    "has(",
    "has(a)",
    "has",
    "(",
    ")",
    "!",
    "!=",
    "=",
    "==",
    "&&",
    "&",
    "||",
    "|",
    "{",
    "}",
    "{}",
    ",",
    "'",
    "\"",
    "'x'",
    "\"x\"",
    "a",
    "b/c.d-e_f",
    "in",
    "not",
    "not in",
    "notin",
    "contains",
    "starts with",
    "startswith",
    "starts",
    "ends with",
    "with",
    "é",
    "\n",
];

/// One change of a text: of a place in it and a length, both in thousandths of its own.
#[derive(Clone, Debug)]
enum Change {
    Cut(usize, usize),
    Repeat(usize, usize),
    Insert(usize, &'static str),
    Truncate(usize),
    Nest(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let place = || 0..=1000usize;
    prop_oneof![
        (place(), 0..200usize).prop_map(|(place, length)| Change::Cut(place, length)),
        (place(), 0..400usize).prop_map(|(place, length)| Change::Repeat(place, length)),
        (place(), prop::sample::select(&PIECES[..])).prop_map(|(place, piece)| Change::Insert(place, piece)),
        place().prop_map(Change::Truncate),
        (1..120usize).prop_map(Change::Nest),
    ]
}

fn apply(text: &str, change: &Change) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = |thousandths: usize| (characters.len() * thousandths.min(1000)) / 1000;
    let part = |range: std::ops::Range<usize>| characters[range].iter().collect::<String>();
    let end = characters.len();
    match *change {
        Change::Cut(place, length) => part(0..at(place)) + &part(at(place + length)..end),
        Change::Repeat(place, length) => part(0..at(place + length)) + &part(at(place)..end),
        Change::Insert(place, piece) => part(0..at(place)) + piece + &part(at(place)..end),
        Change::Truncate(place) => part(0..at(place)),
        Change::Nest(depth) => "(".repeat(depth) + text + &")".repeat(depth),
    }
}

/// It is a selector, whose canonical form means the same, or an error at a place of the text; and it was read once.
fn judge(text: &str) -> Result<(), TestCaseError> {
    let length = text.chars().count();
    match Selector::parse(text) {
        Ok(selector) => {
            let canonical = selector.to_string();
            prop_assert_eq!(&parsed(&canonical), &selector, "{} as {}", text, canonical);
        }
        Err(
            SelectorError::Unexpected { position, .. }
            | SelectorError::Unterminated { position, .. }
            | SelectorError::LongLabel { position, .. }
            | SelectorError::Nested { position },
        ) => prop_assert!((1..=length + 1).contains(&position), "{} of {}: {}", position, length, text),
    }
    let steps = steps_of(text);
    prop_assert!(
        steps <= STEPS_PER_CHARACTER * (length + 1),
        "{} steps for {} characters: {}",
        steps,
        length,
        text
    );
    Ok(())
}

proptest! {
    #[test]
    fn any_row_of_tokens_is_read_once_and_never_panics(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..200),
        gap in "[ \t]{0,3}",
    ) {
        judge(&pieces.join(&gap))?;
    }

    #[test]
    fn a_selector_with_parts_missing_doubled_or_added_is_read_once_and_never_panics(
        any in any_of(),
        changes in prop::collection::vec(change(), 1..8),
    ) {
        let mut text = write_any(&any, " ");
        for change in &changes {
            text = apply(&text, change);
            judge(&text)?;
        }
    }
}

#[test]
fn what_could_be_read_over_and_over_is_read_once() {
    for long in [
        "starts ".repeat(3000),
        format!("a starts{}x", " ".repeat(5000)),
        format!("a not{}x", "\t".repeat(5000)),
        "!".repeat(5000),
        "(".repeat(5000),
        "has(".repeat(5000),
        "a in {'x',".to_owned() + &"'x',".repeat(5000),
        "a == '".repeat(3000),
        "all() && ".repeat(3000),
        "a == 'x' || ".repeat(3000),
        "((a == 'x') && ".repeat(90) + &"all()".repeat(2000),
        "x".repeat(5000),
        "not in".repeat(2000),
    ] {
        judge(&long).expect(&long);
    }
}
