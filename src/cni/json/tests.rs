use proptest::prelude::*;

use Kind::{Array, Bool, Null, Number};

use super::*;

fn parse(text: &str) -> Raw<'_> {
    document(text.as_bytes()).expect(text)
}

#[test]
fn only_one_whole_document_is_taken() {
    for good in [
        "{}",
        " \r\n\t{ }\r\n\n",
        "[]",
        "\"a\"",
        "42",
        "-0.5e+3",
        "null",
        "[1,{\"a\":[true,false,null]},\"\\u00e9\"]",
    ] {
        assert!(document(good.as_bytes()).is_ok(), "{good}");
    }
    for bad in [
        "",
        " ",
        "this is not json",
        "{\"a\":{",
        "{'a':1}",
        "{} xyz",
        "{}{}",
        "\u{feff}{}",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "01",
        "-",
        "1.",
        "1e",
        "+1",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"open",
        "tru",
        "nul",
        "[1 2]",
        "}",
        "{\"a\":1]",
        "[}",
        "{]",
        "NaN",
        "\"\\",
        "[",
        "{\"a\"",
        "//\n{}",
    ] {
        assert!(document(bad.as_bytes()).is_err(), "{bad} was taken");
    }
}

#[test]
fn a_refusal_says_where_and_why() {
    let error = document(b"{\"assign_ipv4:\"true\"}").expect_err("a quote is missing");
    assert_eq!(error.to_string(), "byte 15: expected a colon, found `t`");
    assert_eq!(
        document(b"{").expect_err("open").to_string(),
        "byte 1: expected a key in double quotes, found the end"
    );
}

#[test]
fn ten_thousand_levels_are_read_and_more_are_refused() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deep = nested(9_999);
    let text = format!("{{\"deep\":{deep},\"name\":\"n\"}}");
    let object = parse(&text).object().expect("object");
    assert_eq!(object.get("name").and_then(Raw::string).as_deref(), Some("n"));
    assert_eq!(object.get("deep").expect("deep").source(), deep);
    for levels in [10_001, 100_000] {
        let error = document(nested(levels).as_bytes()).expect_err("too deep");
        assert_eq!(error.to_string(), "byte 10000: expected at most 10000 levels, found `[`");
        assert!(document("[".repeat(levels).as_bytes()).is_err());
    }
}

#[test]
fn keys_match_as_in_go() {
    let object = parse(r#"{"NAME":"c","name":"a","name":"b","Other":1,"OTHER":2,"none":null,"k\u0065y":3}"#);
    let object = object.object().expect("object");
    let number = |key| object.get(key).and_then(Raw::unsigned);
    assert_eq!(
        object.get("name").and_then(Raw::string).as_deref(),
        Some("b"),
        "the last one, exact before other case"
    );
    assert_eq!(number("other"), Some(2), "any letter case, the last one");
    assert_eq!(number("key"), Some(3), "a key may be written with escapes");
    assert_eq!(object.get("none"), None, "null is as good as absent");
    assert_eq!(object.get_or_null("none").map(Raw::kind), Some(Kind::Null));
    assert_eq!(object.get_or_null("absent"), None);
}

#[test]
fn strings_are_decoded_as_in_go() {
    for (text, wanted) in [
        (&br#""plain""#[..], "plain"),
        (br#""""#, ""),
        (br#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (br#""\u00e9\u20ac""#, "é€"),
        (br#""\ud83d\ude00""#, "😀"),
        (br#""\ud800""#, "\u{fffd}"),
        (br#""\udc00x""#, "\u{fffd}x"),
        (br#""\ud800\u0041""#, "\u{fffd}A"),
        (br#""\ud800\ud800\udc00""#, "\u{fffd}\u{10000}"),
        (b"\"a\xff\xc3(\"", "a\u{fffd}\u{fffd}("),
        (b"\"\xe2\x82\\n\"", "\u{fffd}\u{fffd}\n"),
    ] {
        assert_eq!(document(text).expect("json").string().as_deref(), Some(wanted));
    }
}

#[test]
fn values_are_what_they_are_and_nothing_else() {
    let list: Vec<_> = parse(r#"[1, "2" ,true,null,{"a":[]},[2,[3]], -1, 1.0, 18446744073709551616]"#)
        .array()
        .expect("list")
        .collect();
    let kinds: Vec<_> = list.iter().map(|value| value.kind()).collect();
    assert_eq!(kinds, [Number, Kind::String, Bool, Null, Kind::Object, Array, Number, Number, Number]);
    let numbers: Vec<_> = list.iter().map(|value| value.unsigned()).collect();
    assert_eq!(numbers, [Some(1), None, None, None, None, None, None, None, None]);
    assert_eq!(list[2].bool(), Some(true));
    assert_eq!(list[0].bool(), None);
    assert!(list[0].string().is_none() && list[0].array().is_none() && list[0].object().is_none());
    assert_eq!(list[5].source(), "[2,[3]]");
}

proptest! {
    /// The judge is serde_json, with what it takes and Go refuses, or the other way round, left out by construction.
    #[test]
    fn judges_as_serde_json_does(text in r#"[\[\]{}",:\\u0-9a-f\-.+eE truefalsnl]{0,24}"#) {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(document(text.as_bytes()).is_ok(), theirs, "{}", text);
    }

    #[test]
    fn reads_back_what_serde_json_writes(
        members in prop::collection::btree_map(".{0,6}", (".{0,12}", any::<u64>(), any::<bool>()), 0..6),
        pretty in any::<bool>(),
    ) {
        let write = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
        let text = write(&members).expect("writes");
        let object = parse(&text).object().expect("object");
        prop_assert_eq!(object.iter().count(), members.len());
        for (key, (string, number, truth)) in &members {
            let values: Vec<_> = object.get(key).expect("member").array().expect("list").collect();
            prop_assert_eq!(values.len(), 3);
            prop_assert_eq!(values[0].string().expect("string"), string.as_str());
            prop_assert_eq!(values[1].unsigned(), Some(*number));
            prop_assert_eq!(values[2].bool(), Some(*truth));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        // The scanner promises not to go astray on unchecked text either.
        let raw = document(&bytes).unwrap_or(Raw { text: &bytes });
        let _ = (raw.string(), raw.object().map(|object| object.iter().count()), raw.array().map(Iterator::count));
    }
}
