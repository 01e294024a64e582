use proptest::prelude::*;

use super::*;

/// The grammar once more, as a tree that is written and judged without any of the code under test.
#[derive(Clone, Debug)]
pub(super) enum Atom {
    All,
    Global,
    Has(&'static str),
    Compare(&'static str, &'static str, &'static str),
    Set(&'static str, &'static str, Vec<&'static str>),
    Group(AnyOf),
}

/// `||` of `&&` of atoms, each with a number of `!` before it.
pub(super) type AnyOf = Vec<Vec<(usize, Atom)>>;

pub(super) fn write_any(any: &AnyOf, gap: &str) -> String {
    let all = |all: &Vec<(usize, Atom)>| {
        let operation =
            |(nots, atom): &(usize, Atom)| format!("{}{}", format!("!{gap}").repeat(*nots), write(atom, gap));
        all.iter().map(operation).collect::<Vec<_>>().join(&format!("{gap}&&{gap}"))
    };
    any.iter().map(all).collect::<Vec<_>>().join(&format!("{gap}||{gap}"))
}

fn write(atom: &Atom, gap: &str) -> String {
    match atom {
        Atom::All => format!("all({gap})"),
        Atom::Global => format!("global({gap})"),
        Atom::Has(label) => format!("has({gap}{label}{gap})"),
        Atom::Compare(label, operator, value) => format!("{label} {gap}{operator}{gap}'{value}'"),
        Atom::Set(label, operator, values) => {
            let values: Vec<_> = values.iter().map(|value| format!("\"{value}\"{gap}")).collect();
            format!("{label}\t{operator}{gap}{{{gap}{}}}", values.join(&format!(",{gap}")))
        }
        Atom::Group(any) => format!("({gap}{}{gap})", write_any(any, gap)),
    }
}

fn judge_any(any: &AnyOf, labels: &Labels) -> bool {
    any.iter().any(|all| all.iter().all(|(nots, atom)| judge(atom, labels) == (nots % 2 == 0)))
}

fn judge(atom: &Atom, labels: &Labels) -> bool {
    match atom {
        Atom::All | Atom::Global => true,
        Atom::Has(label) => labels.contains_key(*label),
        Atom::Compare(label, operator, value) => match (*operator, labels.get(*label)) {
            ("==", found) => found.map(String::as_str) == Some(value),
            ("!=", found) => found.map(String::as_str) != Some(value),
            (_, None) => false,
            ("contains", Some(found)) => found.split(value).count() > 1,
            ("starts with" | "startswith", Some(found)) => {
                found.bytes().zip(value.bytes()).all(|(a, b)| a == b) && found.len() >= value.len()
            }
            (_, Some(found)) => {
                found.bytes().rev().zip(value.bytes().rev()).all(|(a, b)| a == b)
                    && found.len() >= value.len()
            }
        },
        Atom::Set(label, operator, values) => {
            let inside = labels.get(*label).is_some_and(|found| values.contains(&found.as_str()));
            inside == (*operator == "in")
        }
        Atom::Group(any) => judge_any(any, labels),
    }
}

pub(super) fn any_of() -> impl Strategy<Value = AnyOf> {
    let label = || prop::sample::select(vec!["a", "b/c", "in", "all"]);
    let value = || prop::sample::select(vec!["", "x", "xy", "yx", "y"]);
    let operators = vec!["==", "!=", "contains", "starts with", "startswith", "ends \t with", "endswith"];
    let leaf = prop_oneof![
        Just(Atom::All),
        Just(Atom::Global),
        label().prop_map(Atom::Has),
        (label(), prop::sample::select(operators), value()).prop_map(|(l, o, v)| Atom::Compare(l, o, v)),
        (label(), prop::sample::select(vec!["in", "not in", "notin"]), prop::collection::vec(value(), 0..3))
            .prop_map(|(l, o, v)| Atom::Set(l, o, v)),
    ];
    let joined = |atom| prop::collection::vec(prop::collection::vec((0usize..3, atom), 1..3), 1..3);
    joined(
        leaf.prop_recursive(3, 20, 4, move |atom| joined(atom.boxed()).prop_map(Atom::Group).boxed()).boxed(),
    )
}

fn some_labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map("a|b/c|in|all", "|x|xy|yx|y", 0..4)
}

proptest! {
    #[test]
    fn a_selector_means_what_its_grammar_says(
        any in any_of(),
        gap in "[ \t]{0,2}",
        objects in prop::collection::vec(some_labels(), 1..4),
    ) {
        let text = write_any(&any, &gap);
        let selector = parsed(&text);
        let canonical = selector.to_string();
        prop_assert_eq!(&parsed(&canonical), &selector, "{} as {}", text, canonical);
        prop_assert_eq!(parsed(&canonical).to_string(), canonical);
        for labels in objects {
            prop_assert_eq!(selector.matches(&labels), judge_any(&any, &labels), "{} on {:?}", text, labels);
        }
    }

    #[test]
    fn any_text_is_a_selector_or_an_error_within_it(
        text in "\\PC{0,40}|([ab() !='\"{},&|\t\n]|has\\(|all\\(\\)|in|not|==|contains|'x'|é){0,30}",
    ) {
        match Selector::parse(&text) {
            Ok(selector) => prop_assert_eq!(parsed(&selector.to_string()), selector),
            Err(
                SelectorError::Unexpected { position, .. }
                | SelectorError::Unterminated { position, .. }
                | SelectorError::LongLabel { position, .. }
                | SelectorError::Nested { position },
            ) => prop_assert!((1..=text.chars().count() + 1).contains(&position)),
        }
    }
}
