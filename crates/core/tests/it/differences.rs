//! What makes two requests differ, and how a canonical form is shown.

use http::{HeaderName, Method};
use oncekey_core::Recipe;
use oncekey_core::fingerprint::{Body, Canonical, Difference, Operation};
use proptest::prelude::*;

use crate::fingerprint::{JSON, MAX, headers};

type Request<'a> = (&'a str, &'a [(&'static str, &'a str)], &'a [u8]);

fn recipe() -> Recipe {
    Recipe::new(&[HeaderName::from_static("x-region")]).unwrap().ignoring(vec!["/at".parse().unwrap()])
}

fn with_form<T>((target, lines, body): Request<'_>, recipe: &Recipe, use_form: impl FnOnce(&Canonical<'_>) -> T) -> T {
    let headers = headers(lines);
    let body = Body::decode(&headers, body, MAX).unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    use_form(&Canonical::of(&Operation { method: &Method::POST, path, query, headers: &headers, body: &body }, recipe))
}

fn shown(request: Request<'_>) -> String {
    with_form(request, &recipe(), |form| form.to_string())
}

/// The differences, each as `part name: one | other`, and whether the fingerprints differ.
fn between(one: Request<'_>, other: Request<'_>) -> (Vec<String>, bool) {
    let recipe = recipe();
    with_form(one, &recipe, |one| {
        with_form(other, &recipe, |other| {
            let text = |difference: Difference| {
                let [one, other] = difference.values.map(|value| value.unwrap_or("-".to_owned()));
                format!("{} {}: {one} | {other}", difference.part, difference.name)
            };
            let differences = Difference::between(one, other).into_iter().map(text).collect();
            (differences, one.fingerprint() != other.fingerprint())
        })
    })
}

#[track_caller]
fn assert_between(one: Request<'_>, other: Request<'_>, expected: &[&str]) {
    assert_eq!(between(one, other), (expected.iter().map(|&text| text.to_owned()).collect(), true));
}

#[test]
fn each_part_is_named() {
    assert_between(("/a?x=1", &[], b""), ("/b?x=2&x=1", &[], b""), &["path : /a | /b", "query x: 1 | [\"2\",\"1\"]"]);
    assert_between(
        ("/?x=%FF", &[], b""),
        ("/", &[JSON], b""),
        &["query x: \\xff | -", "media_type : - | application/json"],
    );
    assert_between(
        ("/", &[("x-region", "eu")], b""),
        ("/", &[("x-region", "eu"), ("x-region", "")], b""),
        &["header x-region: eu | [\"eu\",\"\"]"],
    );
    assert_between(
        ("/", &[JSON], br#"{"a":[1,{"b":2}],"c/d":1,"at":1}"#),
        ("/", &[JSON], br#"{"a":[1.0,{"b":"2"},3],"e":{"f":null},"at":2}"#),
        &["json /a/1/b: 2 | \"2\"", "json /a/2: - | 3", "json /c~1d: 1 | -", "json /e: - | {\"f\":null}"],
    );
    assert_between(
        ("/", &[JSON], br#"{"\"\u000a\\":[[],{}],"b":{"":"]"}}"#),
        ("/", &[JSON], br#"{"b":{"":"}"},"\"\n\\":[[],{},[]]}"#),
        &["json /\"\n\\/2: - | []", "json /b/: \"]\" | \"}\""],
    );
    assert_between(("/", &[JSON], b"1"), ("/", &[JSON], b"[]"), &["json : 1 | []"]);
    assert_between(("/", &[JSON], b"{}"), ("/", &[JSON], b"{"), &["body : JSON | raw bytes"]);
    assert_between(("/", &[], b"same, one"), ("/", &[], b"same, other"), &["body byte 7: ne | ther"]);
    assert_between(("/", &[], b"same"), ("/", &[], b"same\xff"), &["body byte 4:  | \\xff"]);
    let form = &[("content-type", "application/x-www-form-urlencoded")];
    assert_between(("/", form, b"a=1&b=2"), ("/", form, b"b=2&a=3"), &["form a: 1 | 3"]);
    assert_between(
        ("/", form, b"a[][b]=1&a[][c]=2&d=1"),
        ("/", form, b"d=1&a[][c]=2&a[][b]=1"),
        &["form a[]: [\"[b]=1\",\"[c]=2\"] | [\"[c]=2\",\"[b]=1\"]"],
    );
    assert_between(
        ("/", &[("content-encoding", "gzip")], b"same"),
        ("/", &[("content-encoding", "br")], b"same"),
        &["header content-encoding: gzip | br"],
    );
    let [b, c] = ["multipart/form-data; boundary=b", "multipart/form-data; boundary=c"].map(|t| [("content-type", t)]);
    assert_between(
        ("/", &b, b"same"),
        ("/", &c, b"same"),
        &["header content-type: multipart/form-data; boundary=b | multipart/form-data; boundary=c"],
    );
}

#[test]
fn parts_of_a_multipart_form_are_numbered() {
    let lines = &[("content-type", "multipart/form-data; boundary=b")];
    let one = b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\nhello\r\n--b--";
    let other =
        b"--b\r\nContent-Disposition: form-data; name=a; filename=f\r\nContent-Type: A/b\r\n\r\nhelp\r\n--b\r\n\
                  Content-Disposition: form-data; name=c\r\n\r\n\r\n--b--";
    assert_between(
        ("/", lines, one),
        ("/", lines, other),
        &[
            "multipart part 1 filename: - | f",
            "multipart part 1 media type: - | a/b",
            "multipart part 1 content from byte 3: lo | p",
            "multipart part 2: - | c",
        ],
    );
    assert_eq!(
        shown(("/", lines, other)),
        "POST /\nmedia type multipart/form-data\nno header x-region\nbody, read as multipart form:\n\
         part a, filename f, media type a/b:\nhelp\npart c:\n\n"
    );
}

#[test]
fn a_canonical_form_shows_all_that_counts() {
    assert_eq!(
        shown((
            "/a%20b?b=%FF&a=1",
            &[JSON, ("x-region", "eu"), ("x-other", "1")],
            b"{\"at\":1,\"b\":1.0,\"a\":\"\\u0041\"}"
        )),
        "POST /a%20b\nquery a = 1\nquery b = \\xff\nmedia type application/json\nheader x-region = eu\n\
         body, read as JSON:\n{\"a\":\"A\",\"b\":1}\n"
    );
    assert!(shown(("/?a=%0Abody", &[], b"a\nb")).starts_with("POST /\nquery a = \\nbody\nno media type\n"));
    let binary = [0xff; 300];
    assert!(shown(("/", &[], &binary)).ends_with(&format!("{}… (300 bytes)\n", "\\xff".repeat(256))));
}

proptest! {
    #[test]
    fn there_is_a_difference_exactly_if_the_fingerprints_differ(
        targets in prop::array::uniform2("/[ab]?(\\?([ab](\\[\\]c?)?=?[12]?&?){0,3})?"),
        types in prop::array::uniform2(prop::sample::select(vec![
            "application/json", "application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=b", "multipart/form-data; boundary=c",
        ])),
        codings in prop::array::uniform2(prop::sample::select(vec!["", "identity", "br", "unheard-of"])),
        bodies in prop::array::uniform2(prop_oneof![
            "[\\[{]{0,1}\"[ab]\"[:,][12][,]?(\"[ab]\":[12])?[\\]}]{0,1}", "([ab](\\[\\]c?)?=?[12]?&?){0,3}",
            "--b\r\nContent-Disposition: form-data; name=[ab](; filename=[ab])?\r\n\r\n[ab]?\r\n--b--",
        ]),
        regions in prop::array::uniform2("[ab]?"),
    ) {
        let lines = [0, 1].map(|side: usize| [
            ("content-type", types[side]), ("content-encoding", codings[side]), ("x-region", regions[side].as_str()),
        ]);
        let [one, other] = [0, 1].map(|side: usize| (targets[side].as_str(), &lines[side][..], bodies[side].as_bytes()));
        let (differences, differ) = between(one, other);
        prop_assert_eq!(!differences.is_empty(), differ, "{:?}", differences);
    }
}
