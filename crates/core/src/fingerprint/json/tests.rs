//! Tests of the canonical form: single cases by rule, and a model that is rendered in many ways.

mod model;

use proptest::prelude::*;

use super::Document;
use model::{Choices, model, render};

fn canonical(body: &[u8]) -> Option<Vec<u8>> {
    Document::read(body, &[]).map(|document| document.form().as_bytes().to_vec())
}

fn form(body: &str) -> Option<String> {
    canonical(body.as_bytes()).map(|form| String::from_utf8(form).unwrap())
}

#[track_caller]
fn assert_form(body: &str, expected: &str) {
    assert_eq!(form(body).as_deref(), Some(expected), "{body}");
}

#[track_caller]
fn assert_raw(body: &str) {
    assert_eq!(form(body), None, "{body}");
}

#[test]
fn white_space_member_order_and_escapes_are_gone_from_the_form() {
    assert_form(" {\t\"b\" : [ 1 , true ] ,\r\n\"a\":null, \"\":{ } } ", r#"{"":{},"a":null,"b":[1,true]}"#);
    assert_form(r#""\u0041\/\b\f\n\r\t\"\\\u00e9\ud83d\ude00""#, r#""A/\u0008\u000c\u000a\u000d\u0009\"\\é😀""#);
    assert_form("\"\u{7f}\u{2028}\"", "\"\u{7f}\u{2028}\"");
    assert_form("false", "false");
}

#[test]
fn members_are_sorted_by_their_unescaped_names() {
    assert_form(r#"{"b":1,"\u0061":2,"\"":3,"B":4,"aa":5,"é":6}"#, r#"{"\"":3,"B":4,"a":2,"aa":5,"b":1,"é":6}"#);
}

#[test]
fn numbers_are_exact_decimals() {
    for (body, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("0e5", "0"),
        ("-0.00e-7", "0"),
        ("7", "7"),
        ("-7", "-7"),
        ("1200", "12e2"),
        ("1200.0", "12e2"),
        ("1.2e3", "12e2"),
        ("12E+2", "12e2"),
        ("0.0012e0006", "12e2"),
        ("-0.10", "-1e-1"),
        ("10.01", "1001e-2"),
        ("9007199254740993", "9007199254740993"),
        ("1e999999999", "1e999999999"),
    ] {
        assert_form(body, expected);
    }
}

#[test]
fn an_exponent_must_fit_64_bits_as_written_and_as_it_results() {
    assert_form("1e9223372036854775807", "1e9223372036854775807");
    assert_form("1e-9223372036854775808", "1e-9223372036854775808");
    assert_form("1.0e9223372036854775807", "1e9223372036854775807");
    assert_form("1.0e-9223372036854775808", "1e-9223372036854775808");
    assert_form("1e+000000000000000000000000000000003", "1e3");
    assert_raw("1e9223372036854775808");
    assert_raw("1e-9223372036854775809");
    assert_raw("10e9223372036854775807");
    assert_raw("0.1e-9223372036854775808");
    assert_raw("0e9223372036854775808");
}

#[test]
fn what_is_not_json_has_no_form() {
    for body in [
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "nul",
        "nulls",
        "True",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "01",
        "-01",
        ".5",
        "1.",
        "1.e2",
        "1e",
        "1e+",
        "1e+-1",
        "0x10",
        "1_000",
        "'a'",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x41\"",
        "\"\\u004\"",
        "\"\\u00g1\"",
        "\"\\u+041\"",
        "\"\\é\"",
        "\"a\nb\"",
        "\"\u{1f}\"",
        "1 2",
        "{}{}",
        "// a\n1",
        "\u{feff}1",
        "1\u{a0}",
        "\u{b}1",
    ] {
        assert_raw(body);
    }
    assert_eq!(canonical(b"\"\xff\""), None);
    assert_eq!(canonical(b"\"\xed\xa0\x80\""), None, "a surrogate in UTF-8");
}

#[test]
fn repeated_member_names_have_no_form_however_they_are_spelled() {
    assert_raw(r#"{"a":1,"a":1}"#);
    assert_raw(r#"{"a":1,"b":2,"\u0061":1}"#);
    assert_raw(r#"[{"x":{"":1,"":2}}]"#);
    assert_form(r#"{"a":{"a":1},"b":{"a":1}}"#, r#"{"a":{"a":1},"b":{"a":1}}"#);
}

#[test]
fn lone_surrogates_have_no_form() {
    for text in [
        r"\ud83d",
        r"\ude00",
        r"\ude00\ud83d",
        r"\ud83d\ud83d",
        r"\ud83dx",
        r"\ud83d\n",
        r"\ud83d\u0041",
        r"\ud83d\ude0",
    ] {
        assert_raw(&format!("\"{text}\""));
    }
}

#[test]
fn nesting_counts_arrays_and_objects_alike() {
    let nested = |depth: usize| {
        let (open, close): (String, String) =
            (0..depth).map(|level| if level % 2 == 0 { ("[", "]") } else { ("{\"a\":", "}") }).unzip();
        let close: String = close.chars().rev().collect();
        format!("{open}1{close}")
    };
    assert_form(&nested(128), &nested(128));
    assert_raw(&nested(129));
}

/// A mebibyte of brackets overflows the stack of a parser that doesn't count, and a mebibyte of small things keeps one
/// busy for minutes that copies or compares each with all.
#[test]
fn a_mebibyte_of_anything_is_read_in_one_go() {
    const MEBIBYTE: usize = 1 << 20;
    assert_raw(&"[".repeat(MEBIBYTE));
    assert_raw(&"{\"a\":".repeat(MEBIBYTE / 5));
    assert_raw(&"-".repeat(MEBIBYTE));
    assert_raw(&format!("\"{}", "\\\\".repeat(MEBIBYTE / 2)));

    let digits = "7".repeat(MEBIBYTE);
    assert_form(&digits, &digits);
    assert_form(&format!("1{}", "0".repeat(MEBIBYTE)), "1e1048576");

    let names: Vec<_> = (0..80_000).map(|number| format!("\"{number:06}\":0")).collect();
    let backwards: Vec<_> = names.iter().rev().cloned().collect();
    let [names, backwards] = [names, backwards].map(|names| format!("{{{}}}", names.join(",")));
    assert_form(&backwards, &names);
    let (open, close) = ("{\"b\":".repeat(127), ",\"a\":0}".repeat(127));
    let deep = form(&format!("{open}{backwards}{close}")).unwrap();
    assert_eq!(deep.len(), names.len() + open.len() + close.len());
    assert!(deep.starts_with("{\"a\":0,\"b\":{\"a\":0,\"b\":"));
}

proptest! {
    #[test]
    fn a_value_has_one_form_however_it_is_rendered(value in model(), seed in any::<u64>()) {
        let mut choices = Choices::new(seed);
        let first = form(&render(&value, &mut choices));
        prop_assert!(first.is_some());
        prop_assert_eq!(first, form(&render(&value, &mut choices)));
    }

    #[test]
    fn forms_are_equal_exactly_if_the_values_are(one in model(), other in model(), seed in any::<u64>()) {
        let mut choices = Choices::new(seed);
        let forms = [&one, &other].map(|value| form(&render(value, &mut choices)));
        prop_assert_eq!(forms[0] == forms[1], one == other);
    }

    #[test]
    fn one_change_within_a_value_changes_its_form(value in model(), seed in any::<u64>()) {
        let mut choices = Choices::new(seed);
        let changed = model::changed(&value, &mut choices);
        prop_assert_ne!(&value, &changed);
        prop_assert_ne!(form(&render(&value, &mut choices)), form(&render(&changed, &mut choices)));
    }

    #[test]
    fn a_form_is_json_and_its_own_form(value in model(), seed in any::<u64>()) {
        let first = form(&render(&value, &mut Choices::new(seed))).unwrap();
        prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&first).is_ok());
        prop_assert_eq!(form(&first), Some(first));
    }

    #[test]
    fn what_has_a_form_is_json_to_others_too(body in "[\\[\\]{}\",:\\\\u0-9eE+\\-. dDtrflsn]{0,12}") {
        if form(&body).is_some() {
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok());
        }
    }

    #[test]
    fn bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Some(form) = canonical(&body) {
            prop_assert_eq!(canonical(&form), Some(form));
        }
    }

    #[test]
    fn damaged_json_never_panics(value in model(), seed in any::<u64>(), byte in any::<u8>()) {
        let mut body = render(&value, &mut Choices::new(seed)).into_bytes();
        let at = usize::try_from(seed).unwrap() % body.len();
        body[at] = byte;
        if let Some(form) = canonical(&body) {
            prop_assert_eq!(canonical(&form), Some(form));
        }
    }
}
