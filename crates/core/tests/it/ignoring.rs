//! What `fingerprint.ignore` leaves out (F7).

use std::collections::BTreeSet;

use oncekey_core::Recipe;
use oncekey_core::fingerprint::Pointer;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fingerprint::{JSON, of};

fn recipe(pointers: &[&str]) -> Recipe {
    Recipe::default().ignoring(pointers.iter().map(|pointer| pointer.parse().unwrap()).collect())
}

#[track_caller]
fn assert_same(pointers: &[&str], one: &str, other: &str, same: bool) {
    let recipe = recipe(pointers);
    let equal = of(&[JSON], one.as_bytes(), &recipe) == of(&[JSON], other.as_bytes(), &recipe);
    assert_eq!(equal, same, "{pointers:?}: {one} and {other}");
}

#[test]
fn members_and_items_are_left_out_wherever_a_pointer_leads() {
    assert_same(&["/a"], r#"{"a":1,"b":2}"#, r#"{"b":2,"a":[3]}"#, true);
    assert_same(&["/a"], r#"{"a":1,"b":2}"#, r#"{"b":2}"#, true);
    assert_same(&["/a"], r#"{"a":1,"b":2}"#, r#"{"b":3}"#, false);
    assert_same(&["/a"], r#"{"\u0061":1}"#, "{}", true);
    assert_same(&["/a/b"], r#"{"a":{"b":1}}"#, r#"{"a":{}}"#, true);
    assert_same(&["/a/b"], r#"{"a":{"b":1}}"#, "{}", false);
    assert_same(&["/a~1b/m~0n"], r#"{"a/b":{"m~n":1}}"#, r#"{"a/b":{"m~n":2}}"#, true);
    assert_same(&["/"], r#"{"":1,"a":1}"#, r#"{"a":1}"#, true);
    assert_same(&["/1"], "[1,2,3]", "[1,9,3]", true);
    assert_same(&["/0", "/1"], "[1,2,3]", "[8,9,3]", true);
    assert_same(&["/0", "/1"], "[1,2,3]", "[8,9,4]", false);
    assert_same(&["/items/0/at"], r#"{"items":[{"at":1},{"at":2}]}"#, r#"{"items":[{"at":9},{"at":2}]}"#, true);
    assert_same(&["/items/0/at"], r#"{"items":[{"at":1},{"at":2}]}"#, r#"{"items":[{"at":1},{"at":9}]}"#, false);
    assert_same(&["/0"], r#"{"0":1}"#, r#"{"0":2}"#, true);
}

#[test]
fn a_pointer_to_nothing_has_no_effect() {
    for pointer in ["/x", "/a/x", "/a/0/0", "/b/00", "/b/+1", "/b/-", "/b/5", "/b/01", "/a/b/c"] {
        assert_same(&[pointer], r#"{"a":"s","b":[1,2]}"#, r#"{"b":[1,2],"a":"s"}"#, true);
        assert_same(&[pointer], r#"{"a":"s","b":[1,2]}"#, r#"{"b":[1,3],"a":"s"}"#, false);
        assert_same(&[pointer], r#"{"a":"s","b":[1,2]}"#, r#"{"b":[1,2],"a":"t"}"#, false);
        assert_same(&[pointer], "1", "2", false);
    }
}

#[test]
fn a_pointer_below_another_adds_nothing() {
    assert_same(&["/a", "/a/b"], r#"{"a":{"b":1,"c":2}}"#, r#"{"a":0}"#, true);
}

/// What is left out has to be JSON, so that it is clear where it ends; what it says is nobody's business.
#[test]
fn what_is_left_out_is_not_judged() {
    for unusual in [
        "1e99999999999999999999",
        "10e9223372036854775807",
        r#"{"x":1,"x":2}"#,
        r#""\ud800""#,
        r#"["\udc00\ud800",{"\ud800":[1e-99999999999999999999]}]"#,
    ] {
        let body = |value: &str| format!(r#"{{"t": {value}, "a": 1}}"#);
        assert_same(&["/t"], &body(unusual), r#"{"a":1}"#, true);
        assert_same(&["/t"], &body(unusual), r#"{"a":2}"#, false);
        assert_same(&["/other"], &body(unusual), &body(unusual).replace(' ', ""), false);
        let inside = format!(r#"{{"a":1,"t":[0,{unusual}]}}"#);
        assert_same(&["/t/1"], &inside, r#"{"a":1,"t":[0]}"#, true);
        // Beside it, the same is judged.
        let beside = format!(r#"{{"t": 1, "b": {unusual}}}"#);
        assert_same(&["/t"], &beside, &beside.replace(' ', ""), false);
    }
    assert_same(&["/t"], r#"{"t":1,"t":2,"a":1}"#, r#"{"a":1}"#, true);
    assert_same(&["/t/x"], r#"{"t":1, "t":2}"#, r#"{"t":1,"t":2}"#, false);
    for broken in ["01", "nul", "[1,]", "{\"a\"}", "\"\\x\"", "\"\\u00g0\"", &"[".repeat(200), "\u{1}"] {
        let body = |space: &str| format!(r#"{{"t":{broken},{space}"a":1}}"#);
        assert_same(&["/t"], &body(""), &body(" "), false);
    }
}

#[test]
fn nesting_is_bounded_in_what_is_left_out_too() {
    let body = |depth: usize| format!(r#"{{"t":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert_same(&["/t"], &body(127), "{}", true);
    assert_same(&["/t"], &body(128), "{}", false);
}

#[test]
fn only_json_has_pointers() {
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let recipe = recipe(&["/a"]);
    assert_ne!(of(&form, b"a=1", &recipe), of(&form, b"a=2", &recipe));
}

/// Few names, some of which look like indices.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![Just(json!(null)), (0..3).prop_map(|number| json!(number)), Just(json!("a"))];
    scalar.prop_recursive(3, 16, 3, |inner| {
        let name = prop::sample::select(vec!["a", "0", "1", "", "~/"]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(name, inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

fn pointers() -> impl Strategy<Value = Vec<String>> {
    let token = prop::sample::select(vec!["/a", "/0", "/1", "/", "/~0~1", "/2"]);
    let pointer = prop::collection::vec(token, 1..4).prop_map(|tokens| tokens.concat());
    prop::collection::vec(pointer, 0..4)
}

/// `value` without what is pointed to: all places are found before any is taken away, and of an array the last first.
fn without(value: &Value, pointers: &[String]) -> Value {
    let mut value = value.clone();
    let places: BTreeSet<String> =
        pointers.iter().filter(|pointer| value.pointer(pointer).is_some()).cloned().collect();
    for place in places.iter().rev() {
        let (parent, name) = place.rsplit_once('/').unwrap();
        let name = name.replace("~1", "/").replace("~0", "~");
        match value.pointer_mut(parent) {
            Some(Value::Array(items)) => drop(items.remove(name.parse().unwrap())),
            Some(Value::Object(members)) => drop(members.remove(&name)),
            _ => {}
        }
    }
    value
}

proptest! {
    #[test]
    fn bodies_are_equal_exactly_if_what_is_left_of_them_is(one in value(), other in value(), pointers in pointers()) {
        let parsed: Vec<Pointer> = pointers.iter().map(|pointer| pointer.parse().unwrap()).collect();
        let recipe = Recipe::default().ignoring(parsed);
        let fingerprint = |value: &Value| of(&[JSON], value.to_string().as_bytes(), &recipe);
        let left = [&one, &other].map(|value| without(value, &pointers));
        prop_assert_eq!(fingerprint(&one) == fingerprint(&other), left[0] == left[1]);
        let plain = |value: &Value| of(&[JSON], value.to_string().as_bytes(), &Recipe::default());
        prop_assert_eq!(fingerprint(&one).to_string(), plain(&left[0]).to_string());
    }
}
