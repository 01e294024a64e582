mod fuzz;
mod grammar;

use super::*;

type Labels = BTreeMap<String, String>;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn parsed(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Labels of the object that all examples are tried on: `zone` is `north`, `empty` is the empty text, `rack/no.1`
/// is `a7`, and there is no `gone`.
fn holds(text: &str) -> bool {
    parsed(text).matches(&labels(&[("zone", "north"), ("empty", ""), ("rack/no.1", "a7"), ("in", "x")]))
}

fn error(text: &str) -> String {
    Selector::parse(text).expect_err(text).to_string()
}

#[test]
fn every_operator_selects_by_the_value() {
    for (yes, no) in [
        ("all()", "!all()"),
        ("global()", "!global()"),
        ("has(zone)", "has(gone)"),
        ("zone == 'north'", "zone == 'north '"),
        ("zone != 'south'", "zone != 'north'"),
        ("zone contains 'ort'", "zone contains 'orth '"),
        ("zone starts with 'no'", "zone starts with 'orth'"),
        ("zone ends with 'th'", "zone ends with 'nort'"),
        ("zone in {'south', 'north'}", "zone in {'south'}"),
        ("zone not in {'south'}", "zone not in {'south', 'north'}"),
        ("empty == ''", "empty != ''"),
        ("zone contains ''", "gone contains ''"),
        ("rack/no.1 == 'a7'", "rack/no.1 == 'A7'"),
        ("zone not in {}", "zone in {}"),
    ] {
        assert!(holds(yes), "{yes}");
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn an_absent_label_differs_from_every_value() {
    for yes in ["gone != 'x'", "gone != ''", "gone not in {'x'}", "gone not in {}"] {
        assert!(holds(yes), "{yes}");
    }
    for no in [
        "gone == ''",
        "gone contains ''",
        "gone starts with ''",
        "gone ends with ''",
        "gone in {''}",
        "has(gone)",
    ] {
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn the_empty_selector_selects_all_and_is_all() {
    for text in ["", " ", "\t ", "all()", " all( ) ", "(all())", "!!all()"] {
        assert!(holds(text), "{text:?}");
        assert!(parsed(text).is_all(), "{text:?}");
        assert_eq!(parsed(text).to_string(), "all()");
    }
    for text in ["all() && all()", "global()", "has(zone)", "!all()"] {
        assert!(!parsed(text).is_all(), "{text}");
    }
    assert!(parsed("has(a) || !(b == 'c' && global())").mentions_global());
    assert!(!parsed("global == 'global()'").mentions_global());
}

#[test]
fn not_binds_before_and_and_and_before_or() {
    assert!(holds("all() || has(gone) && has(gone)"));
    assert!(!holds("(all() || has(gone)) && has(gone)"));
    assert!(!holds("!all() && has(gone) || has(gone)"));
    assert!(holds("!(all() && has(gone))"));
    assert!(!holds("!all() || has(gone)"));
    assert!(!holds("!zone == 'north'"), "`!` negates the whole comparison");
    assert!(holds("!!zone == 'north'") && holds("! ! (zone == 'north')"));
}

#[test]
fn blanks_are_spaces_and_tabs_and_seldom_needed() {
    for text in [
        "zone=='north'&&!has(gone)||has(gone)",
        " \tzone \t==\t'north'\t",
        "zone in{'north'}",
        "zone in { 'north' , }",
        "zone in {\"north\",'x'}",
        "zone startswith 'n'",
        "zone starts \t with'n'",
        "zone endswith\"h\"",
        "zone contains'n'",
        "zone notin {}",
        "zone not \t in{'x'}",
        "has( zone )",
        "( ( zone == 'north' ) )",
    ] {
        assert!(holds(text), "{text}");
    }
    assert_eq!(error("zone ==\n'north'"), r"expected a value in quotes at character 8, found `\n`");
}

#[test]
fn words_of_the_language_are_labels_too() {
    for text in [
        "all == 'x'",
        "has != 'x'",
        "global in {}",
        "not not in {'not'}",
        "in in {'in'}",
        "contains contains 'c'",
        "starts starts with 's'",
        "in == 'x'",
        "-._/ == 'x'",
        "0 == '1'",
    ] {
        assert_eq!(parsed(&parsed(text).to_string()), parsed(text), "{text}");
    }
    assert!(holds("in in {'x'}"));
}

#[test]
fn quotes_have_no_escapes() {
    let quoted = parsed(r#"a == 'say "b\' || a == "it's""#);
    assert!(quoted.matches(&labels(&[("a", r#"say "b\"#)])));
    assert!(quoted.matches(&labels(&[("a", "it's")])));
    assert_eq!(quoted.to_string(), r#"a == 'say "b\' || a == "it's""#);
}

#[test]
fn a_label_has_at_most_512_characters() {
    let longest = "x".repeat(512);
    assert!(Selector::parse(&format!("has({longest}) && {longest} == ''")).is_ok());
    assert_eq!(
        error(&format!("has({longest}y)")),
        "expected a label of at most 512 characters at character 5, found one of 513"
    );
}

#[test]
fn the_canonical_form_is_free_of_how_it_was_written() {
    for (text, canonical) in [
        ("a=='b'", r#"a == "b""#),
        ("a startswith 'b'||a endswith'c'", r#"a starts with "b" || a ends with "c""#),
        ("a in {'c','b','c',}", r#"a in { "b", "c" }"#),
        ("a notin {}", "a not in {}"),
        ("((a == 'b'))", r#"a == "b""#),
        ("has(a) && (has(b) && (has(c)))", "has(a) && has(b) && has(c)"),
        ("(has(a) || has(b)) || has(c)", "has(a) || has(b) || has(c)"),
        ("(has(a) && has(b)) || has(c)", "has(a) && has(b) || has(c)"),
        ("(has(a) || has(b)) && !(has(c))", "(has(a) || has(b)) && !has(c)"),
        ("!(!(has(a) || has(b))) || has(c)", "has(a) || has(b) || has(c)"),
        ("!!!(has(a) && all())", "!(has(a) && all())"),
        ("!(global( ))", "!global()"),
    ] {
        assert_eq!(parsed(text).to_string(), canonical, "{text}");
        assert_eq!(parsed(canonical), parsed(text), "{text}");
    }
}

#[test]
fn an_error_says_where_and_what_was_expected_and_found() {
    for (text, message) in [
        (
            "zone",
            "expected `==`, `!=`, `in`, `not in`, `contains`, `starts with` or `ends with` at character 5, found the end",
        ),
        (
            "zone = 'a'",
            "expected `==`, `!=`, `in`, `not in`, `contains`, `starts with` or `ends with` at character 6, found `=`",
        ),
        (
            "zone starts 'a'",
            "expected `==`, `!=`, `in`, `not in`, `contains`, `starts with` or `ends with` at character 6, found `starts`",
        ),
        ("zone == north", "expected a value in quotes at character 9, found `north`"),
        ("zone contains {'a'}", "expected a value in quotes at character 15, found `{`"),
        ("zone == 'ä' 'b'", "expected `&&`, `||` or the end at character 13, found `'`"),
        ("zone == 'a", "expected a closing ' for the value that starts at character 9, found the end"),
        ("zone in 'a'", "expected `{` at character 9, found `'`"),
        ("zone in {'a' 'b'}", "expected `,` or `}` at character 14, found `'`"),
        ("zone in {,}", "expected a value in quotes or `}` at character 10, found `,`"),
        ("zone in {'a',", "expected a value in quotes or `}` at character 14, found the end"),
        ("has(zone", "expected `)` at character 9, found the end"),
        ("has()", "expected a label at character 5, found `)`"),
        ("all(x)", "expected `)` at character 5, found `x`"),
        ("(has(a)", "expected `&&`, `||` or `)` at character 8, found the end"),
        ("has(a))", "expected `&&`, `||` or the end at character 7, found `)`"),
        ("has(a) & has(b)", "expected `&&`, `||` or the end at character 8, found `&`"),
        (
            "has(a) && || has(b)",
            "expected a label, `has(LABEL)`, `all()`, `global()`, `!` or `(` at character 11, found `||`",
        ),
        (
            "!",
            "expected a label, `has(LABEL)`, `all()`, `global()`, `!` or `(` at character 2, found the end",
        ),
        (
            "!= 'a'",
            "expected a label, `has(LABEL)`, `all()`, `global()`, `!` or `(` at character 1, found `!=`",
        ),
        ("()", "expected a label, `has(LABEL)`, `all()`, `global()`, `!` or `(` at character 2, found `)`"),
        ("all() all()", "expected `&&`, `||` or the end at character 7, found `all`"),
        (
            "all() 0123456789012345678901234567890123456789z",
            "expected `&&`, `||` or the end at character 7, found `0123456789012345678901234567890123456789…`",
        ),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_and_long_runs_are_not() {
    let nested = |depth| format!("{}all(){}", "(".repeat(depth), ")".repeat(depth));
    assert!(parsed(&nested(NESTING_MAX)).is_all());
    for depth in [NESTING_MAX + 1, 10_000] {
        assert_eq!(
            error(&nested(depth)),
            "expected at most 100 nested parentheses, found one more at character 101"
        );
    }
    assert!(matches!(Selector::parse(&"!(".repeat(10_000)), Err(SelectorError::Nested { position: 202 })));
    assert!(parsed(&format!("{}all()", "!".repeat(10_000))).is_all());
    assert_eq!(parsed(&format!("{}all()", "! ".repeat(10_001))).to_string(), "!all()");
    let siblings = vec!["(has(zone))"; 10_000];
    assert!(holds(&siblings.join("&&")) && holds(&siblings.join(" || ")));
}
