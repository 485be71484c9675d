//! When two requests are the same operation (F1–F4, F9), beyond the shared vectors. Forms, codings and what is ignored have
//! files of their own.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncekey_core::fingerprint::{Body, Operation, Pointer, RecipeError};
use oncekey_core::{Fingerprint, Recipe};
use proptest::prelude::*;

pub(crate) fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    let mut headers = HeaderMap::new();
    for (name, value) in lines.iter().map(line) {
        headers.append(name, value);
    }
    headers
}

/// A mebibyte is room enough for each body of these tests.
pub(crate) const MAX: u64 = 1024 * 1024;

pub(crate) fn of(lines: &[(&'static str, &str)], body: &[u8], recipe: &Recipe) -> Fingerprint {
    let headers = headers(lines);
    let body = &Body::decode(&headers, body, MAX).unwrap();
    let operation = Operation { method: &Method::POST, path: "/orders", query: None, headers: &headers, body };
    Fingerprint::of(&operation, recipe)
}

pub(crate) fn of_body(lines: &[(&'static str, &str)], body: &str) -> Fingerprint {
    of(lines, body.as_bytes(), &Recipe::default())
}

fn of_query(query: Option<&str>) -> Fingerprint {
    of_query_under(query, &Recipe::default())
}

fn of_query_under(query: Option<&str>, recipe: &Recipe) -> Fingerprint {
    let headers = HeaderMap::new();
    let body = &Body::decode(&headers, b"", MAX).unwrap();
    let operation = Operation { method: &Method::POST, path: "/", query, headers: &headers, body };
    Fingerprint::of(&operation, recipe)
}

/// Whether a body under these fields is read as JSON: then white space in it doesn't count.
fn is_read(lines: &[(&'static str, &str)]) -> bool {
    of_body(lines, "[1]") == of_body(lines, "[ 1 ]")
}

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

/// A request that has something in every part, and one whose body is raw.
fn digests(version: &str) -> [String; 2] {
    let headers = headers(&[("content-type", "Application/JSON; charset=utf-8"), ("x-region", "eu"), ("x-region", "")]);
    let body = Body::decode(&headers, br#"{"b":[-12.50,"\u00e9\n",true],"a":{}}"#, MAX).unwrap();
    let operation = Operation {
        method: &Method::PUT,
        path: "/a%20b",
        query: Some("b=%FF&a=1&&a=+&c"),
        headers: &headers,
        body: &body,
    };
    let recipe: Recipe = format!("{version} headers=x-none,x-region").parse().unwrap();
    [Fingerprint::of(&operation, &recipe), of(&[], b"\x00raw", &version.parse().unwrap())].map(|of| of.to_string())
}

/// Records keep fingerprints of each version, so these never change (F9). The digests were worked out apart from this
/// crate.
#[test]
fn the_encodings_stay_as_they_are() {
    assert_eq!(
        digests("v1"),
        [
            "a6c1f36d911f46f908898b4a3240b5858bb778c055bf945dbc13682f3569f4c0",
            "bbe15e0f846815fa9c78b06627779f957c0c73d5a2790302b4574ce6af7d7e00"
        ]
    );
    assert_eq!(
        digests("v2"),
        [
            "67db3391b0a505c5083d51bcafe9e5c70f8fdda9f267225924ed6c0f4160c0d9",
            "d9e568b17144a51f49f6e610a621c8f4d2ae60fd660866478f489fa819f9ca90"
        ]
    );
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(
        of_body(&form, "b=1&a=2&a").to_string(),
        "baab4b1bae74f950487b043837ef9838b291c62186ab93a4d81b676b5fbe64c1"
    );
    let multipart = b"--b\r\nContent-Disposition: form-data; name=note\r\n\r\nhi\r\n--b\r\n\
        Content-Disposition: form-data; name=\"file\"; filename=\"a.bin\"; filename*=utf-8''a.bin\r\n\
        Content-Type: image/PNG; x=y\r\n\r\n\0\xff\r\n\r\n--b--\r\n";
    assert_eq!(
        of(&[("content-type", "multipart/form-data; boundary=b")], multipart, &Recipe::default()).to_string(),
        "a84350af038a728ddf5a1ea0b1675678afb4426bf786f2b8621da4ba0d2a41ce"
    );
    let unread = [("content-type", "multipart/form-data; boundary=b"), ("content-encoding", "gzip")];
    assert_eq!(of_body(&unread, "--b").to_string(), "52dff174eff5ecebddc6bae8aada5a6992addfd5c9804bef73a925128cc20d6e");
}

/// What later versions read is raw bytes to the first, also where it could decode or parse it.
#[test]
fn the_first_encoding_reads_json_alone() {
    let v1: Recipe = "v1".parse().unwrap();
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_ne!(of(&form, b"a=1&b=2", &v1), of(&form, b"b=2&a=1", &v1));
    let gzip = [JSON, ("content-encoding", "gzip")];
    assert_ne!(of(&gzip, b"[1]", &v1), of(&gzip, b"[ 1]", &v1));
    assert_eq!(of(&[JSON], b"[1]", &v1), of(&[JSON], b"[ 1]", &v1));
    assert_eq!(of(&[("content-encoding", "gzip")], b"x", &v1), of(&[], b"x", &v1));
    let lists = ["i[][a]=1&i[][b]=2", "i[][b]=2&i[][a]=1"].map(Some);
    assert_eq!(of_query_under(lists[0], &v1), of_query_under(lists[1], &v1));
    assert_ne!(of_query(lists[0]), of_query(lists[1]));
}

#[test]
fn an_absent_an_empty_and_a_repeated_content_type_are_three_things() {
    let cases: [&[(&str, &str)]; 6] = [
        &[],
        &[("content-type", "")],
        &[JSON],
        &[JSON, JSON],
        &[JSON, ("content-type", "text/plain")],
        &[("content-type", "text/plain"), JSON],
    ];
    for (index, one) in cases.iter().enumerate() {
        for other in &cases[..index] {
            assert_ne!(of_body(one, "{}"), of_body(other, "{}"), "{one:?} and {other:?}");
        }
    }
    assert_eq!(of_body(&[("content-type", "")], "{}"), of_body(&[("content-type", " ; a=b")], "{}"));
}

#[test]
fn only_one_content_type_that_says_json_is_read_as_json() {
    for media_type in [
        "application/json",
        "APPLICATION/JSON",
        " application/json ; charset=x",
        "application/vnd.api+json",
        "a/b+JSON;v=1",
    ] {
        assert!(is_read(&[("content-type", media_type)]), "{media_type}");
    }
    for media_type in [
        "",
        "text/json",
        "application/json5",
        "application/jsonp",
        "application/json-seq",
        "application/json, text/plain",
    ] {
        assert!(!is_read(&[("content-type", media_type)]), "{media_type}");
    }
    assert!(!is_read(&[]));
    assert!(!is_read(&[JSON, JSON]));
}

#[test]
fn a_body_that_is_not_in_its_coding_is_raw_and_identity_is_none() {
    for coding in ["identity", "Identity", "", "identity, identity", " identity ,"] {
        assert!(is_read(&[JSON, ("content-encoding", coding)]), "{coding}");
        assert_eq!(of_body(&[JSON, ("content-encoding", coding)], "{}"), of_body(&[JSON], "{}"), "{coding}");
    }
    for coding in ["gzip", "br", "identity, gzip", "unheard-of"] {
        assert!(!is_read(&[JSON, ("content-encoding", coding)]), "{coding}");
    }
    assert!(!is_read(&[JSON, ("content-encoding", "identity"), ("content-encoding", "gzip")]));
}

/// `{}` in a coding that it isn't in is raw, `{}` without one is canonical, and both are the same two bytes.
#[test]
fn a_raw_body_never_passes_for_a_canonical_one() {
    assert_ne!(of_body(&[JSON, ("content-encoding", "gzip")], "{}"), of_body(&[JSON], "{}"));
}

#[test]
fn all_values_of_a_named_header_count_in_their_order() {
    let recipe = Recipe::new(&[HeaderName::from_static("x-a"), HeaderName::from_static("x-b")]).unwrap();
    let cases: [&[(&str, &str)]; 9] = [
        &[],
        &[("x-a", "")],
        &[("x-a", "1")],
        &[("x-b", "1")],
        &[("x-a", "1"), ("x-a", "2")],
        &[("x-a", "2"), ("x-a", "1")],
        &[("x-a", "1, 2")],
        &[("x-a", "1"), ("x-a", "")],
        &[("x-a", "1"), ("x-b", "2")],
    ];
    for (index, one) in cases.iter().enumerate() {
        for other in &cases[..index] {
            assert_ne!(of(one, b"", &recipe), of(other, b"", &recipe), "{one:?} and {other:?}");
        }
    }
    assert_eq!(
        of(&[("x-a", "1"), ("x-b", "2")], b"", &recipe),
        of(&[("x-b", "2"), ("x-c", "3"), ("x-a", "1")], b"", &recipe)
    );
}

#[test]
fn a_recipe_is_the_same_however_its_headers_are_ordered_and_refuses_authorization() {
    let [a, b] = ["x-a", "x-b"].map(HeaderName::from_static);
    let recipe = Recipe::new(&[b.clone(), a.clone(), b.clone()]).unwrap();
    assert_eq!(recipe, Recipe::new(&[a, b]).unwrap());
    assert_eq!(recipe.to_string(), "v2 headers=x-a,x-b");
    assert_eq!(Recipe::new(&[http::header::AUTHORIZATION]), Err(RecipeError::Authorization));
}

#[test]
fn a_recipe_is_read_back_as_it_was_kept_and_nothing_else_is() {
    for kept in [
        "v1",
        "v1 headers=x-a",
        "v1 headers=x-a,x-b",
        "v2",
        "v2 headers=x-a",
        "v2 ignore=/a",
        "v2 ignore=/,/a,/a/0,/a%20b%2C%25%3D/~1",
        "v2 headers=x-a,x-b ignore=/a",
    ] {
        assert_eq!(kept.parse::<Recipe>().unwrap().to_string(), kept);
    }
    for foreign in [
        "",
        "v",
        "v3",
        "v10",
        "v1 ",
        "v1 headers=",
        "v1 headers=a,",
        "v1 headers=a b",
        "v1 ignore=/a",
        "v1 headers=x-a ignore=/a",
        "V1",
        "v2 headers=b,a",
        "v2 headers=A",
        "v2 headers=a headers=a",
        "v2 ignore=",
        "v2 ignore=a",
        "v2 ignore=/a,",
        "v2 ignore=/b,/a",
        "v2 ignore=/a,/a",
        "v2 ignore=/%61",
        "v2 ignore=/%2c",
        "v2 ignore=/%+1",
        "v2 ignore=/%",
        "v2 ignore=/%FF",
        "v2 ignore=/é",
        "v2 ignore=/~2",
        "v2 ignore=/a headers=a",
        "v2 other=/a",
        "v2  ",
    ] {
        assert_eq!(foreign.parse::<Recipe>(), Err(RecipeError::Unknown(foreign.to_owned())));
    }
    assert_eq!("v1 headers=authorization".parse::<Recipe>(), Err(RecipeError::Authorization));
}

#[test]
fn no_query_an_empty_one_and_one_of_nothing_are_the_same() {
    for query in ["", "&", "&&"] {
        assert_eq!(of_query(Some(query)), of_query(None), "{query}");
    }
    assert_ne!(of_query(Some("=")), of_query(None));
}

/// Pairs as a client means them: few different names, any bytes.
pub(crate) fn pairs() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let bytes = prop::collection::vec(prop_oneof![prop::sample::select(b"ab &=+%\xff\0".to_vec()), any::<u8>()], 0..3);
    prop::collection::vec((bytes.clone(), bytes), 0..5)
}

/// A query that says `pairs`, with each byte spelled as `spelling` picks.
pub(crate) fn render(pairs: &[(Vec<u8>, Vec<u8>)], spelling: &[u8]) -> String {
    let mut picks = spelling.iter().cycle();
    let mut render_bytes = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |text, byte| match (picks.next().unwrap() % 3, byte) {
            (0, b' ') => text + "+",
            (1, byte) if byte.is_ascii_alphanumeric() => text + &char::from(*byte).to_string(),
            (2, byte) => text + &format!("%{byte:02x}"),
            (_, byte) => text + &format!("%{byte:02X}"),
        })
    };
    // A pair of two empty strings needs its `=`: without it there is no pair.
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", render_bytes(name), render_bytes(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The same pairs as far as rule F2 goes.
pub(crate) fn ordered(mut pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs
}

proptest! {
    #[test]
    fn queries_are_equal_exactly_if_their_pairs_are(
        one in pairs(), other in pairs(), spellings in prop::array::uniform2(prop::collection::vec(any::<u8>(), 1..40))
    ) {
        let fingerprints = [of_query(Some(&render(&one, &spellings[0]))), of_query(Some(&render(&other, &spellings[1])))];
        prop_assert_eq!(fingerprints[0] == fingerprints[1], ordered(one) == ordered(other));
    }

    #[test]
    fn the_order_of_different_names_and_the_spelling_of_a_query_do_not_count(
        sent in pairs(), spellings in prop::array::uniform2(prop::collection::vec(any::<u8>(), 1..40))
    ) {
        let first = of_query(Some(&render(&sent, &spellings[0])));
        prop_assert_eq!(first, of_query(Some(&render(&ordered(sent), &spellings[1]))));
    }

    #[test]
    fn nothing_in_a_request_panics(
        path in any::<String>(), query in any::<Option<String>>(), body in prop::collection::vec(any::<u8>(), 0..40),
        content_type in prop::collection::vec(prop_oneof![0x20..0x7fu8, 0x80..=0xffu8], 0..20)
    ) {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_bytes(&content_type).unwrap());
        let (recipe, longer) = (Recipe::default(), [&body[..], b"x"].concat());
        let [body, longer] = [&body, &longer].map(|body| Body::decode(&headers, body, MAX).unwrap());
        let query = query.as_deref();
        let operation = Operation { method: &Method::POST, path: &path, query, headers: &headers, body: &body };
        let fingerprint = Fingerprint::of(&operation, &recipe);
        prop_assert_eq!(&fingerprint, &Fingerprint::of(&operation, &recipe));
        prop_assert_ne!(&fingerprint, &Fingerprint::of(&Operation { body: &longer, ..operation }, &recipe));
    }

    #[test]
    fn any_recipe_is_read_back_as_it_was_kept(
        names in prop::collection::vec("[a-z!-]{1,4}", 0..3), tokens in prop::collection::vec(any::<Vec<String>>(), 0..4)
    ) {
        let names: Vec<HeaderName> = names.iter().map(|name| name.parse().unwrap()).collect();
        let escaped = |token: &String| format!("/{}", token.replace('~', "~0").replace('/', "~1"));
        let texts: Vec<String> = tokens.iter().map(|tokens| tokens.iter().map(escaped).collect()).collect();
        let pointers: Vec<Pointer> = texts.iter().filter(|text| !text.is_empty()).map(|text| text.parse().unwrap()).collect();
        let recipe = Recipe::new(&names).unwrap().ignoring(pointers);
        prop_assert!(recipe.to_string().is_ascii());
        prop_assert_eq!(recipe.to_string().parse::<Recipe>(), Ok(recipe));
    }

    #[test]
    fn raw_bodies_are_equal_exactly_if_their_bytes_are(one in "[ab]{0,3}", other in "[ab]{0,3}") {
        prop_assert_eq!(of_body(&[], &one) == of_body(&[], &other), one == other);
    }
}
