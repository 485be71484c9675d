//! What of an answer is recorded (R2, R3), and how it survives being kept.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use oncekey_core::policy::Recording;
use oncekey_core::response::{DecodeError, RecordedBody, end_to_end, end_to_end_trailers, strip_own};
use oncekey_core::{InvalidTraceContext, RecordedResponse, TraceContext};
use proptest::prelude::*;

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let line =
        |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    let mut headers = HeaderMap::new();
    for (name, value) in lines.iter().map(line) {
        headers.append(name, value);
    }
    headers
}

fn recorded(lines: &[(&str, &str)], recording: &Recording) -> HeaderMap {
    RecordedResponse::of(StatusCode::OK, &headers(lines), RecordedBody::NotStored, recording).headers
}

#[test]
fn taking_lines_out_leaves_the_others_in_their_order() {
    let lines =
        [("Date", "d"), ("B", "1"), ("Keep-Alive", "k"), ("Oncekey-Problem", "p"), ("A", "2"), ("B", "3"), ("C", "4")];
    let mut first = end_to_end(&headers(&lines));
    strip_own(&mut first, &HeaderName::from_static("idempotency-key"));
    let replayed = recorded(&lines, &Recording::default());
    let names = |headers: &HeaderMap| headers.iter().map(|(name, _)| name.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&first), ["date", "b", "b", "a", "c"]);
    assert_eq!(names(&replayed), ["b", "b", "oncekey-problem", "a", "c"]);
}

#[test]
fn fields_of_the_first_answer_only_are_not_recorded() {
    let dropped = [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Content-Length",
        "Date",
        "Age",
        "Alt-Svc",
        "WWW-Authenticate",
        "Authentication-Info",
        "Proxy-Authenticate",
        "Proxy-Authentication-Info",
        "Proxy-Status",
        "Set-Cookie",
    ];
    for name in dropped {
        assert_eq!(
            recorded(&[(name, "1"), ("X-Kept", "1"), (name, "2")], &Recording::default()),
            headers(&[("X-Kept", "1")]),
            "{name}"
        );
    }
    let kept = [
        "Content-Type",
        "Content-Encoding",
        "Location",
        "ETag",
        "Retry-After",
        "Via",
        "Warning",
        "X-Proxy-Status",
        "Set-Cookie2",
    ];
    for name in kept {
        assert_eq!(recorded(&[(name, "1")], &Recording::default()), headers(&[(name, "1")]), "{name}");
    }
}

#[test]
fn cookies_are_recorded_if_the_route_says_so_and_dropped_headers_never() {
    let recording = Recording {
        store_set_cookie: true,
        drop_headers: vec![HeaderName::from_static("x-trace"), HeaderName::from_static("etag")],
        ..Recording::default()
    };
    let lines = [("Set-Cookie", "a=1"), ("X-Trace", "t"), ("Set-Cookie", "b=2"), ("ETag", "e")];
    assert_eq!(recorded(&lines, &recording), headers(&[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]));
    let recording = Recording { drop_headers: vec![http::header::SET_COOKIE], ..recording };
    assert_eq!(recorded(&[("Set-Cookie", "a=1")], &recording), HeaderMap::new());
}

#[test]
fn the_lines_of_one_name_keep_their_order() {
    let lines = [("Link", "b"), ("X-A", "1"), ("Link", "a"), ("Date", "now"), ("Link", "b"), ("Link", "")];
    let kept: Vec<_> = recorded(&lines, &Recording::default()).get_all("link").iter().cloned().collect();
    assert_eq!(kept, ["b", "a", "b", ""]);
}

#[test]
fn what_connection_names_stays_on_its_hop() {
    let lines = [
        ("Connection", "close, X-One ,, not a name"),
        ("Connection", "x-two"),
        ("X-One", "1"),
        ("X-Two", "2"),
        ("X-Three", "3"),
        ("Close", "a field like any other, were it not named"),
    ];
    assert_eq!(end_to_end(&headers(&lines)), headers(&[("X-Three", "3")]));
    assert_eq!(recorded(&lines, &Recording::default()), headers(&[("X-Three", "3")]));
}

#[test]
fn a_first_answer_keeps_every_end_to_end_field() {
    let lines = [
        ("Date", "now"),
        ("Set-Cookie", "a=1"),
        ("WWW-Authenticate", "Basic"),
        ("Alt-Svc", "h2"),
        ("Age", "1"),
        ("Content-Length", "3"),
        ("Trailer", "X-Sum"),
        ("Proxy-Authenticate", "Basic"),
    ];
    assert_eq!(end_to_end(&headers(&lines)), headers(&lines));
    let hop_by_hop = [
        ("Keep-Alive", "5"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("Proxy-Connection", "x"),
    ];
    assert_eq!(end_to_end(&headers(&hop_by_hop)), HeaderMap::new());
}

#[test]
fn an_upstream_can_not_speak_for_oncekey() {
    let mut answer = headers(&[
        ("Idempotent-Replayed", "true"),
        ("Oncekey-Problem", "key-reused"),
        ("Oncekey-Problem-Json", "{}"),
        ("Oncekey-Operation-Id", "x"),
        ("Oncekey-Outcome", "completed"),
        ("X-Key", "echo"),
        ("X-Key", "again"),
        ("Idempotency-Key", "not the key field of this route"),
    ]);
    strip_own(&mut answer, &HeaderName::from_static("x-key"));
    assert_eq!(answer, headers(&[("Idempotency-Key", "not the key field of this route")]));
}

/// Stores keep heads of version 1, so it never changes.
#[test]
fn version_1_of_a_kept_head_stays_as_it_is() {
    let mut response = RecordedResponse {
        status: StatusCode::CREATED,
        headers: headers(&[("Location", "/a:b"), ("Link", "1"), ("Link", " ")]),
        body: RecordedBody::Stored(Bytes::from_static(b"x")),
        trailers: HeaderMap::new(),
        trace: None,
    };
    assert_eq!(response.encode_head(), b"1 201 stored\nlocation:/a:b\nlink:1\nlink: \n\n");
    response.headers.clear();
    response.body = RecordedBody::NotStored;
    assert_eq!(response.encode_head(), b"1 201 not-stored\n\n");
}

/// Nor do those of version 2.
#[test]
fn version_2_of_a_kept_head_is_version_1_and_its_trailers() {
    let mut response = RecordedResponse {
        status: StatusCode::OK,
        headers: headers(&[("A", "1")]),
        body: RecordedBody::Stored(Bytes::from_static(b"x")),
        trailers: headers(&[("Grpc-Status", "0"), ("B", "2"), ("B", "1")]),
        trace: None,
    };
    assert_eq!(response.encode_head(), b"2 200 stored\na:1\n\ngrpc-status:0\nb:2\nb:1\n\n");
    response.headers.clear();
    assert_eq!(response.encode_head(), b"2 200 stored\n\ngrpc-status:0\nb:2\nb:1\n\n");
    response.trailers.clear();
    assert_eq!(response.encode_head(), b"1 200 stored\n\n", "programs that know no trailers read it");
}

/// Nor do those of version 3.
#[test]
fn version_3_of_a_kept_head_names_the_span_of_its_execution() {
    let trace = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331".parse().ok();
    assert!(trace.is_some());
    let trailers = headers(&[("B", "2")]);
    let body = RecordedBody::Stored(Bytes::from_static(b"x"));
    let mut response =
        RecordedResponse { status: StatusCode::OK, headers: headers(&[("A", "1")]), body, trailers, trace };
    let line = b"3 200 stored 0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331\n";
    assert_eq!(response.encode_head(), [&line[..], b"a:1\n\nb:2\n\n"].concat());
    response.trailers.clear();
    assert_eq!(response.encode_head(), [&line[..], b"a:1\n\n\n"].concat());
    assert_eq!(response.without_body().trace, trace);
    response.trace = None;
    assert_eq!(response.encode_head(), b"1 200 stored\na:1\n\n", "untraced, any program reads it");
}

#[test]
fn a_span_that_names_nothing_is_refused() {
    for wrong in [
        "",
        "0af7651916cd43dd8448eb211c80319c",
        "0af7651916cd43dd8448eb211c80319c-",
        "0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331",
        "0af7651916cd43dd8448eb211c80319c-b7ad6b716920333",
        "+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00000000000000000000000000000000-b7ad6b7169203331",
        "0af7651916cd43dd8448eb211c80319c-0000000000000000",
        "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ] {
        assert_eq!(wrong.parse::<TraceContext>(), Err(InvalidTraceContext), "{wrong}");
    }
    assert_eq!(TraceContext::new([0; 16], [1; 8]), None);
}

#[test]
fn trailers_that_frame_route_describe_or_carry_credentials_go_nowhere() {
    let never = [
        "Authorization",
        "Connection",
        "Content-Encoding",
        "Content-Length",
        "Content-Range",
        "Content-Type",
        "Cookie",
        "Host",
        "Keep-Alive",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "Set-Cookie",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "WWW-Authenticate",
    ];
    let kept = [("Grpc-Status", "0"), ("X-Sum", "1"), ("X-Sum", "2"), ("Server-Timing", "a")];
    let all: Vec<_> = never.map(|name| (name, "1")).into_iter().chain(kept).collect();
    let passed = end_to_end_trailers(&headers(&all));
    assert_eq!(passed, headers(&kept));
    let response = RecordedResponse::of(
        StatusCode::OK,
        &HeaderMap::new(),
        RecordedBody::Stored(Bytes::new()),
        &Recording { store_set_cookie: true, ..Recording::default() },
    );
    assert_eq!(response.with_trailers(&headers(&all), &Recording::default()).trailers, headers(&kept));
}

#[test]
fn of_trailers_no_more_is_recorded_than_of_headers() {
    let recording = Recording { drop_headers: vec![HeaderName::from_static("x-trace")], ..Recording::default() };
    let lines = [("Date", "d"), ("Age", "1"), ("Authentication-Info", "a"), ("X-Trace", "t"), ("X-Sum", "1")];
    let response =
        RecordedResponse::of(StatusCode::OK, &HeaderMap::new(), RecordedBody::Stored(Bytes::new()), &recording);
    let response = response.with_trailers(&headers(&lines), &recording);
    assert_eq!(response.trailers, headers(&[("X-Sum", "1")]));
    assert!(response.without_body().trailers.is_empty());
}

#[test]
fn a_head_that_was_not_kept_so_is_refused() {
    for (head, error) in [
        (&b""[..], DecodeError::Version),
        (b"1", DecodeError::Version),
        (b"4 200 stored\n\n", DecodeError::Version),
        (b"21 200 stored\n\n", DecodeError::Version),
        (b"12 200 stored\n\n", DecodeError::Version),
        (b"1 200 stored", DecodeError::Length),
        (b"1 200 stored\n", DecodeError::Length),
        (b"1 200 stored\na:b\n", DecodeError::Length),
        (b"1 200 stored\na:b\n\n\n", DecodeError::Length),
        (b"1 200 stored\n\na:b\n\n", DecodeError::Length),
        (b"1 \n\n", DecodeError::Status),
        (b"1 200\n\n", DecodeError::Status),
        (b"1 20 stored\n\n", DecodeError::Status),
        (b"1 099 stored\n\n", DecodeError::Status),
        (b"1 +20 stored\n\n", DecodeError::Status),
        (b"1 200 kept\n\n", DecodeError::Status),
        (b"1 200 stored \n\n", DecodeError::Status),
        (b"1 200 stored\na\n\n", DecodeError::Header),
        (b"1 200 stored\n:b\n\n", DecodeError::Header),
        (b"1 200 stored\nA:b\n\n", DecodeError::Header),
        (b"1 200 stored\na b:c\n\n", DecodeError::Header),
        (b"1 200 stored\na:b\r\n\n", DecodeError::Header),
        (b"1 200 stored\na:\0\n\n", DecodeError::Header),
        (b"1 200 not-stored\n\n", DecodeError::Body),
        (b"2 200 stored\n\n", DecodeError::Length),
        (b"2 200 stored\na:b\n\n", DecodeError::Length),
        (b"2 200 stored\na:b\n\n\n", DecodeError::Length),
        (b"2 200 stored\na:b\n\n\n\n", DecodeError::Length),
        (b"2 200 stored\na:b\n\nc:d\n", DecodeError::Length),
        (b"2 200 stored\na:b\n\nc:d\n\ne:f\n\n", DecodeError::Length),
        (b"2 200 stored\n\nC:d\n\n", DecodeError::Header),
        (b"2 200 stored\n\nc\n\n", DecodeError::Header),
        (b"3 200 stored\n\n\n", DecodeError::Status),
        (b"3 200 stored \n\n\n", DecodeError::Status),
        (b"3 200 stored 0af7651916cd43dd8448eb211c80319c-0000000000000000\n\n\n", DecodeError::Status),
        (b"3 200 0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331\n\n\n", DecodeError::Status),
        (b"3 200 stored 0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331\n\n", DecodeError::Length),
        (b"1 200 stored 0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331\n\n", DecodeError::Status),
    ] {
        assert_eq!(RecordedResponse::decode(head, Some(Bytes::new())), Err(error), "{}", head.escape_ascii());
    }
    assert_eq!(RecordedResponse::decode(b"1 200 stored\n\n", None), Err(DecodeError::Body));
}

#[test]
fn more_lines_than_a_header_map_takes_are_refused() {
    let lines: Vec<_> = (0..40_000).map(|number| format!("x-{number}:")).collect();
    let head = format!("1 200 not-stored\n{}\n\n", lines.join("\n"));
    assert_eq!(RecordedResponse::decode(head.as_bytes(), None), Err(DecodeError::Header));
}

#[test]
fn debug_output_holds_no_body() {
    assert_eq!(format!("{:?}", RecordedBody::Stored(Bytes::from_static(b"secret"))), "Stored(6 bytes)");
}

fn response() -> impl Strategy<Value = RecordedResponse> {
    let name = prop_oneof!["[a-c]", "[a-z0-9!#$%&'*+.^_`|~-]{1,12}"];
    let value = prop::collection::vec(prop_oneof![Just(b'\t'), 0x20..0x7fu8, 0x80..=0xffu8], 0..12);
    let body = prop::option::of(prop::collection::vec(any::<u8>(), 0..12));
    let lines = prop::collection::vec((name, value), 0..8);
    let lines = lines.prop_map(|lines| {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(&value).unwrap());
        }
        headers
    });
    let trace = prop::option::of(any::<([u8; 16], [u8; 8])>());
    (100..1000u16, lines.clone(), body, lines, trace).prop_map(|(status, headers, body, trailers, trace)| {
        let body = body.map_or(RecordedBody::NotStored, |bytes| RecordedBody::Stored(bytes.into()));
        let trace = trace.and_then(|(trace, span)| TraceContext::new(trace, span));
        RecordedResponse { status: StatusCode::from_u16(status).unwrap(), headers, body, trailers, trace }
    })
}

fn body_of(response: &RecordedResponse) -> Option<Bytes> {
    match &response.body {
        RecordedBody::Stored(bytes) => Some(bytes.clone()),
        RecordedBody::NotStored => None,
    }
}

proptest! {
    #[test]
    fn a_response_is_read_back_as_it_was_kept(response in response()) {
        let head = response.encode_head();
        let decoded = RecordedResponse::decode(&head, body_of(&response)).unwrap();
        prop_assert_eq!(decoded.encode_head(), head, "the order of lines too");
        prop_assert_eq!(decoded, response);
    }

    #[test]
    fn a_head_that_was_cut_off_is_refused(response in response(), cut in any::<prop::sample::Index>()) {
        let head = response.encode_head();
        let head = &head[..cut.index(head.len())];
        prop_assert!(RecordedResponse::decode(head, body_of(&response)).is_err());
    }

    #[test]
    fn what_is_read_from_any_bytes_is_what_they_say(
        start in "([123] [0-9]{3} (not-)?stored( 0{31}1-0{15}1)?\n(a:b\n\n)?|[123] |)", rest in prop::collection::vec(any::<u8>(), 0..40), end in "(\n\n|)"
    ) {
        let head = [start.as_bytes(), &rest, end.as_bytes()].concat();
        for body in [None, Some(Bytes::new())] {
            if let Ok(response) = RecordedResponse::decode(&head, body) {
                prop_assert_eq!(RecordedResponse::decode(&response.encode_head(), body_of(&response)), Ok(response));
            }
        }
    }
}
