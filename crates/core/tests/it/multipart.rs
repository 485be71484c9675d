//! Multipart forms (F5): the parts in their order; what is no strict multipart is raw bytes.

use oncekey_core::fingerprint::{Body, Operation};
use oncekey_core::{Fingerprint, Recipe};
use proptest::prelude::*;

use crate::fingerprint::{MAX, headers};

fn of(content_type: &str, body: &[u8]) -> Fingerprint {
    let mut headers = headers(&[]);
    headers.insert("content-type", content_type.parse().unwrap());
    let body = &Body::decode(&headers, body, MAX).unwrap();
    let operation = Operation { method: &http::Method::POST, path: "/", query: None, headers: &headers, body };
    Fingerprint::of(&operation, &Recipe::default())
}

/// Whether a body of boundary `b` is read: then the boundary doesn't count.
#[track_caller]
fn is_read(body: &str) -> bool {
    let other = body.replace("--b", "--other-b");
    assert_ne!(body, other);
    of("multipart/form-data; boundary=b", body.as_bytes())
        == of("multipart/form-data; boundary=other-b", other.as_bytes())
}

fn with_head(head: &str) -> String {
    format!("--b\r\n{head}\r\n\r\nx\r\n--b--\r\n")
}

#[test]
fn what_is_multipart_is_read() {
    for body in [
        "--b--\r\n",
        "--b--",
        &with_head("Content-Disposition: form-data; name=a"),
        &with_head("content-disposition:FORM-DATA;name=\"\""),
        &with_head("Content-Disposition: form-data; name=\"a\\\"b\" ; filename=c;"),
        &with_head("Content-Type: text/plain\r\nContent-Length: 1\r\nContent-Disposition: form-data; name=a"),
        &with_head("Content-Transfer-Encoding: Binary\r\nContent-Disposition: form-data; name=a; filename*=utf-8''c"),
        "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--b\r\nContent-Disposition: form-data; name=a\r\n\r\n--c\r\n-\r\n\r\n--b--",
    ] {
        assert!(is_read(body), "{body:?}");
    }
}

#[test]
fn what_is_no_strict_multipart_is_raw() {
    let head = "Content-Disposition: form-data; name=a";
    for body in [
        "--b",
        "--b\r\n",
        "--b\r\n--b--\r\n",
        "--b\r\n\r\n--b--\r\n",
        "--b\r\n\r\nx\r\n--b--\r\n",
        &format!("preamble\r\n{}", with_head(head)),
        &format!("\r\n{}", with_head(head)),
        &format!("{}epilogue", with_head(head)),
        &with_head(head).replace("\r\n", "\n"),
        &with_head(head).replacen("--b\r\n", "--b \r\n", 1),
        &with_head(head).replace("--b--", "--b-"),
        &with_head(head).replace("--b--", "--b"),
        &with_head(head).replace("x\r\n--b--", "x\r\n--bb--"),
        &with_head("Content-Type: text/plain"),
        &with_head("Content-Disposition: form-data"),
        &with_head("Content-Disposition: form-data; filename=a"),
        &with_head("Content-Disposition: attachment; name=a"),
        &with_head("Content-Disposition: form-data; name=\"a"),
        &with_head("Content-Disposition: form-data; name="),
        &with_head("Content-Disposition: form-data; name=a b"),
        &with_head("Content-Disposition: form-data; name=a; name=b"),
        &with_head("Content-Disposition: form-data, name=a"),
        &with_head("Content-Disposition: form-data; name=a; name*=''b"),
        &with_head("Content-Disposition: form-data; name*0=b; name=a"),
        &with_head("Content-Disposition: form-data; name=a; filename*0=b"),
        &with_head(&format!("{head}\r\n{head}")),
        &with_head(&format!("{head}\r\n folded")),
        &with_head(&format!("{head}\r\nno field")),
        &with_head(&format!("{head}\r\n: no name")),
        &with_head(&format!("{head}\r\nContent-Type: a/b\r\nContent-Type: a/b")),
        &with_head(&format!("{head}\r\nContent-Transfer-Encoding: base64")),
        &with_head(&format!("{head}\r\nContent-Encoding: gzip")),
        &with_head(&format!("{head}\r\nContent-Length: 2")),
        &with_head(&format!("{head}\r\nContent-Type: multipart/mixed; boundary=c")),
        &with_head(&format!("{head}\n")),
        &with_head(&format!("{head}\n\r\nX: y")),
        &with_head(&format!("{head}\r\nX:\ny")),
        &with_head(&format!("{head}\r\nX: y\0")),
        &with_head(&format!("{head}\r\nX: --b")),
        &with_head(head).replace('x', "x\n--b\r\n"),
        &with_head(head).replace('x', "x\r--b--"),
        &with_head(head).replace('x', "x--b"),
    ] {
        assert!(!is_read(body), "{body:?}");
    }
}

#[test]
fn a_boundary_is_one_as_the_rfc_has_it() {
    let same = |content_type: &str, boundary: &str| {
        let body = with_head("Content-Disposition: form-data; name=a");
        let sent = body.replace("--b", &format!("--{boundary}"));
        of(content_type, sent.as_bytes()) == of("multipart/form-data; boundary=b", body.as_bytes())
    };
    for (parameters, boundary) in [
        ("boundary=B", "B"),
        ("Boundary=B", "B"),
        ("charset=utf-8;boundary=B", "B"),
        ("boundary=\"B c:/?\"; x=y;", "B c:/?"),
        (&*format!("boundary={}", "x".repeat(70)), &*"x".repeat(70)),
    ] {
        assert!(same(&format!("multipart/form-data; {parameters}"), boundary), "{parameters}");
    }
    for (parameters, boundary) in [
        ("", ""),
        ("boundary=", ""),
        ("boundary=\"\"", ""),
        ("boundary=\"B \"", "B "),
        ("boundary=\"B", "B"),
        ("boundary=B; boundary=B", "B"),
        ("boundary=B; boundary*=''C", "B"),
        ("boundary*0=B; boundary=B", "B"),
        ("boundary=B C", "B"),
        ("boundary=\"a@b\"", "a@b"),
        (&*format!("boundary={}", "x".repeat(71)), &*"x".repeat(71)),
    ] {
        assert!(!same(&format!("multipart/form-data; {parameters}"), boundary), "{parameters}");
    }
    assert!(!same("multipart/mixed; boundary=b", "b"));
}

/// A part as rule F5 knows it is its head, too, as far as anybody takes a name from it.
#[test]
fn all_parameters_of_a_part_count() {
    let of = |parameters: &str| {
        let body = with_head(&format!("Content-Disposition: form-data; {parameters}"));
        assert!(is_read(&body), "{body}");
        of("multipart/form-data; boundary=b", body.as_bytes())
    };
    let all = [
        "name=a",
        "name=a; size=1",
        "name=a; filename=c",
        "name=a; filename*=c",
        "name=a; filename=c; filename*=c",
        "name=a; filename*=c; filename=c",
        "name=\"a; filename=c\"",
        "name=a; filename=\"\"",
    ]
    .map(of);
    for (index, one) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| one != other), "{index}");
    }
    assert_eq!(of("filename=c ;name=\"a\""), of("name=a;filename=c"));
}

/// The same bytes, parted elsewhere: a form that is raw here has parts to more lenient readers.
#[test]
fn bytes_that_are_no_form_are_another_request_under_another_boundary() {
    let part = |boundary: &str, amount: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=amount\r\n\r\n{amount}\r\n")
    };
    let body = format!("preamble\r\n{}{}--c--\r\n--b--\r\n", part("b", "1"), part("c", "1000"));
    for media_type in ["multipart/form-data", "multipart/mixed"] {
        let of = |boundary: &str| of(&format!("{media_type}; boundary={boundary}"), body.as_bytes());
        assert_ne!(of("b"), of("c"), "{media_type}");
        assert_eq!(of("b"), of("b"), "{media_type}");
    }
}

/// Each line could be the beginning of a boundary, and none is one.
#[test]
fn a_mebibyte_of_near_boundaries_is_read_in_one_go() {
    let content = format!("\r\n--{}", "x".repeat(69)).repeat(10_000) + &"\r\n".repeat(150_000);
    let body = |boundary: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=a\r\n\r\n{content}\r\n--{boundary}--")
    };
    let [one, other] = ["x".repeat(69) + "y", "z".to_owned()];
    assert_eq!(
        of(&format!("multipart/form-data; boundary={one}"), body(&one).as_bytes()),
        of(&format!("multipart/form-data; boundary={other}"), body(&other).as_bytes())
    );
}

/// A part as rule F5 knows it.
type Model = (String, Option<String>, Option<String>, Vec<u8>);

fn model() -> impl Strategy<Value = Vec<Model>> {
    let name = "[ab\"é ;]{0,2}";
    let content = prop::collection::vec(prop::sample::select(b"ab-\r\n\0\xff".to_vec()), 0..6);
    let part = (name, prop::option::of(name), prop::option::of("[ab]/[cd]"), content);
    prop::collection::vec(part, 0..4)
}

/// The parts as a client spells them that makes its choices by `style`.
fn render(parts: &[Model], boundary: &str, style: u8) -> Vec<u8> {
    let mut body = Vec::new();
    let [disposition, media_type, colon] = match style % 3 {
        0 => ["Content-Disposition", "Content-Type", ": "],
        1 => ["content-disposition", "content-type", ":"],
        _ => ["CONTENT-DISPOSITION", "CONTENT-TYPE", ":  "],
    };
    for (name, filename, kind, content) in parts {
        let quoted = |text: &String| format!("\"{}\"", text.replace('"', "\\\""));
        let filename = filename.as_ref().map_or(String::new(), |name| format!("; filename={}", quoted(name)));
        let disposition = format!("{disposition}{colon}form-data; name={}{filename}\r\n", quoted(name));
        let kind =
            kind.as_ref().map_or(String::new(), |kind| format!("{media_type}{colon}{kind}; charset={style}\r\n"));
        let [first, second] = if style.is_multiple_of(2) { [disposition, kind] } else { [kind, disposition] };
        body.extend_from_slice(format!("--{boundary}\r\n{first}{second}\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--{}", if style.is_multiple_of(2) { "\r\n" } else { "" }).as_bytes());
    body
}

proptest! {
    #[test]
    fn bodies_are_equal_exactly_if_their_parts_are(
        one in model(), other in model(), styles in any::<[u8; 2]>(), boundaries in prop::array::uniform2("[x-z]{3}( z)?")
    ) {
        let fingerprints: Vec<_> = [(&one, 0), (&other, 1)].map(|(parts, side)| {
            let boundary: &str = &boundaries[side];
            of(&format!("multipart/form-data; boundary=\"{boundary}\""), &render(parts, boundary, styles[side]))
        }).into();
        prop_assert_eq!(fingerprints[0] == fingerprints[1], one == other);
    }

    #[test]
    fn the_style_of_a_client_does_not_count(parts in model(), styles in any::<[u8; 2]>()) {
        let of = |side: usize| of(&format!("multipart/form-data; boundary=x{side}"), &render(&parts, &format!("x{side}"), styles[side]));
        prop_assert_eq!(of(0), of(1));
    }

    #[test]
    fn bytes_never_panic(body in "(--b|\r\n|--|Content-Disposition: form-data; name=|[a\":;= -]){0,20}") {
        let _ = of("multipart/form-data; boundary=b", body.as_bytes());
    }
}
