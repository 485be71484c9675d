//! Form bodies (F5): equal exactly if they say the same pairs, but for the order of different names.

use oncekey_core::{Fingerprint, Recipe};
use proptest::prelude::*;

use crate::fingerprint::{of, of_body, ordered, pairs, render};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn form(body: &str) -> Fingerprint {
    of_body(&[FORM], body)
}

#[test]
fn a_form_is_read_as_queries_are() {
    assert_eq!(form("b=2&a=1"), form("a=1&&b=2&"));
    assert_eq!(form("a"), form("a="));
    assert_eq!(form("a=+%2b"), form("%61=%20%2B"));
    assert_eq!(form(""), form("&"));
    assert_ne!(form("a=1&a=2"), form("a=2&a=1"));
    assert_ne!(form("a=%FF"), form("a=%FE"));
    assert_ne!(form("a=1"), form("A=1"));
    assert_eq!(of_body(&[("content-type", "Application/X-WWW-Form-URLencoded; charset=x")], "a=%31"), form("a=1"));
}

/// `[{sku: A, qty: 1}, {sku: B}]` and `[{sku: A}, {sku: B, qty: 1}]`, as Rails and others spell and read them.
#[test]
fn the_order_of_what_makes_up_items_of_a_list_counts() {
    assert_ne!(form("i[][sku]=A&i[][qty]=1&i[][sku]=B"), form("i[][sku]=A&i[][sku]=B&i[][qty]=1"));
    assert_ne!(form("i%5B%5d%5bsku%5d=A&i[][qty]=1"), form("i[][qty]=1&i[][sku]=A"));
    assert_ne!(form("o[][i][][a]=1&o[][b]=2"), form("o[][b]=2&o[][i][][a]=1"));
    assert_eq!(form("b=2&i[][sku]=A&a=1&i[][qty]=1"), form("i[][sku]=A&i[][qty]=1&a=1&b=2"));
    assert_eq!(form("m[b]=2&m[a]=1&l[]=1"), form("l[]=1&m[a]=1&m[b]=2"));
    assert_eq!(form("i[1][a]=2&i[0][a]=1"), form("i[0][a]=1&i[1][a]=2"));
}

#[test]
fn a_form_is_neither_its_bytes_nor_a_query() {
    assert_ne!(form("a=1"), of_body(&[("content-type", "text/plain")], "a=1"));
    assert_ne!(form("a=1"), of_body(&[FORM, FORM], "a=1"), "a repeated type is no type");
    let v1: Recipe = "v1".parse().unwrap();
    assert_ne!(form("a=1"), of(&[FORM], b"a=1", &v1));
}

/// Two bytes a pair, a name alone each: what costs much by the pair would show.
#[test]
fn a_mebibyte_of_pairs_is_read_in_one_go() {
    let names: Vec<_> = (0..250_000).map(|number| format!("{number:06x}")).collect();
    let (forwards, backwards) = (names.join("&"), names.into_iter().rev().collect::<Vec<_>>().join("&"));
    assert_eq!(form(&backwards), form(&forwards));
    assert_eq!(form(&"a&".repeat(1 << 19)), form(&"a=&".repeat(1 << 19)));
}

proptest! {
    #[test]
    fn forms_are_equal_exactly_if_their_pairs_are(
        one in pairs(), other in pairs(), spellings in prop::array::uniform2(prop::collection::vec(any::<u8>(), 1..40))
    ) {
        let forms = [form(&render(&one, &spellings[0])), form(&render(&other, &spellings[1]))];
        prop_assert_eq!(forms[0] == forms[1], ordered(one) == ordered(other));
    }

    #[test]
    fn the_spelling_of_a_form_does_not_count(
        sent in pairs(), spellings in prop::array::uniform2(prop::collection::vec(any::<u8>(), 1..40))
    ) {
        prop_assert_eq!(form(&render(&sent, &spellings[0])), form(&render(&ordered(sent), &spellings[1])));
    }
}
