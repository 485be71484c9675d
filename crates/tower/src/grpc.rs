//! gRPC over the layer: which calls can carry a key, what an answer's status means, and how oncekey's own problems look to a
//! client that reads nothing but gRPC.
//!
//! A gRPC answer says how it went in `grpc-status`, in its trailers or, where it has no messages, in its head; its HTTP
//! status is always 200. The layer judges it by the HTTP status that is nearest to it, so that `retry_status` and
//! `unknown_status` mean the same for both. gRPC-Web is HTTP like any other here: its trailers are part of its body.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use oncekey_core::policy::Verdict;
use oncekey_core::problem::{Code, Problem, Retry, Style};

use crate::body::ResponseBody;
use crate::own_answers::{self, OwnAnswers};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The client's deadline. An execution has one of its own and isn't cut by its client's (E3).
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// How long a client waits before it repeats a call, in milliseconds: what gRPC has for `Retry-After`.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const PROBLEM_JSON: HeaderName = HeaderName::from_static("oncekey-problem-json");

/// Whether a message is gRPC.
pub(crate) fn is_spoken(headers: &HeaderMap) -> bool {
    let Some(media_type) = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else { return false };
    let kind = b"application/grpc";
    media_type.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind))
        && matches!(media_type.get(kind.len()), None | Some(b'+' | b';' | b' '))
}

/// Why a call can't carry a key: only one that sends a single message is whole before it executes. A message is a byte of
/// flags, four bytes of length and as many bytes as they say.
pub(crate) fn refuses(body: &[u8]) -> Option<Problem> {
    let length = body.get(1..5).and_then(|length| <[u8; 4]>::try_from(length).ok()).map(u32::from_be_bytes);
    let whole = length.is_some_and(|length| body.len() as u64 - 5 == u64::from(length));
    let detail = "Send one whole message, or send no key: a call with a key can't stream its request.";
    (!whole).then(|| Problem::because(Code::RequestInvalid, detail))
}

/// Judges an answer, gRPC or not (E7, E8). `trailers` are `None` where they aren't known yet: such an answer is streamed, and
/// goes by its head (R7). `judge` says what an HTTP status means, with or without a promise that a retry may run.
pub(crate) fn verdict(
    status: StatusCode,
    headers: &HeaderMap,
    trailers: Option<&HeaderMap>,
    judge: impl Fn(StatusCode, bool) -> Verdict,
) -> Verdict {
    let field = |name: &HeaderName| trailers.and_then(|trailers| trailers.get(name)).or_else(|| headers.get(name));
    // Failed before it became gRPC, or streams and hasn't said how it goes.
    let by_http = status != StatusCode::OK || !is_spoken(headers) || trailers.is_none() && field(&STATUS).is_none();
    if by_http {
        return judge(status, headers.contains_key(RETRY_AFTER));
    }
    let said = field(&STATUS).and_then(|code| code.to_str().ok()).and_then(|code| code.parse().ok());
    // Cut off before it said how it went.
    let Some(nearest) = said.and_then(nearest) else { return Verdict::Unknown };
    // A negative pushback says: don't repeat it.
    let pushback = field(&PUSHBACK).is_some_and(|pushback| pushback.as_bytes().first().is_some_and(u8::is_ascii_digit));
    judge(nearest, pushback || field(&RETRY_AFTER).is_some())
}

/// The HTTP status that is nearest to a gRPC one (as google.rpc.Code has it, but for 1: a call that was cancelled while it ran
/// may have taken effect, as one may whose deadline passed; and for 8: servers give it too when an answer turns out larger than
/// they may send, after the call was executed, so only a pushback makes it a promise that nothing was).
fn nearest(code: u16) -> Option<StatusCode> {
    Some(match code {
        0 => StatusCode::OK,
        1 | 4 => StatusCode::GATEWAY_TIMEOUT,
        2 | 13 | 15 => StatusCode::INTERNAL_SERVER_ERROR,
        3 | 9 | 11 => StatusCode::BAD_REQUEST,
        5 => StatusCode::NOT_FOUND,
        6 | 10 => StatusCode::CONFLICT,
        7 => StatusCode::FORBIDDEN,
        12 => StatusCode::NOT_IMPLEMENTED,
        8 | 14 => StatusCode::SERVICE_UNAVAILABLE,
        16 => StatusCode::UNAUTHORIZED,
        _ => return None,
    })
}

/// The gRPC status of a problem; the only place where it is chosen.
const fn status_of(problem: &Problem) -> u16 {
    const UNKNOWN: u16 = 2;
    const INVALID_ARGUMENT: u16 = 3;
    const RESOURCE_EXHAUSTED: u16 = 8;
    const FAILED_PRECONDITION: u16 = 9;
    const UNAVAILABLE: u16 = 14;
    const DATA_LOSS: u16 = 15;
    match problem.code {
        Code::OutcomeUnknown => UNKNOWN,
        Code::KeyReused => FAILED_PRECONDITION,
        Code::BodyTooLarge | Code::QuotaExceeded => RESOURCE_EXHAUSTED,
        Code::RecordUnreadable => DATA_LOSS,
        _ => match problem.retry {
            Retry::SameKey => UNAVAILABLE,
            Retry::NewKey => INVALID_ARGUMENT,
            Retry::Never => FAILED_PRECONDITION,
        },
    }
}

/// A problem as a gRPC client reads it: no message, the status in the head, the problem's JSON as metadata.
pub(crate) fn problem_response(problem: &Problem, own: &OwnAnswers, retry_after: Duration) -> Response<ResponseBody> {
    // An answer to wait on is a problem here: gRPC knows no 202.
    let in_progress =
        if own.style.in_progress == StatusCode::ACCEPTED { StatusCode::CONFLICT } else { own.style.in_progress };
    let own = OwnAnswers { style: Style { in_progress, ..own.style.clone() }, fields: own.fields.clone() };
    let (mut head, body) = own_answers::problem_response(problem, &own, Some(retry_after)).into_parts();
    head.status = StatusCode::OK;
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(STATUS, HeaderValue::from(status_of(problem)));
    head.headers.insert(MESSAGE, percent_encoded(&problem.detail));
    if let Some(json) = body.whole_bytes().and_then(|json| HeaderValue::from_bytes(json).ok()) {
        head.headers.insert(PROBLEM_JSON, json);
    }
    let seconds = head.headers.get(RETRY_AFTER).and_then(|seconds| seconds.to_str().ok()?.parse::<u64>().ok());
    if let Some(seconds) = seconds {
        head.headers.insert(PUSHBACK, HeaderValue::from(seconds.saturating_mul(1000)));
    }
    Response::from_parts(head, ResponseBody::whole(bytes::Bytes::new()))
}

/// Text as `grpc-message` carries it: visible ASCII and spaces as they are, all else as `%` and two digits.
fn percent_encoded(text: &str) -> HeaderValue {
    let encoded = text.bytes().fold(String::with_capacity(text.len()), |encoded, byte| match byte {
        b'%' | 0..0x20 | 0x7f.. => encoded + &format!("%{byte:02X}"),
        _ => encoded + char::from(byte).encode_utf8(&mut [0; 4]),
    });
    HeaderValue::try_from(encoded).expect("visible ASCII and spaces are a field value")
}

#[cfg(test)]
mod tests {
    use oncekey_core::policy::Recording;

    use super::*;

    fn by_default(status: StatusCode, may_retry: bool) -> Verdict {
        Recording::default().verdict(status, may_retry)
    }

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn judged(headers: &[(&'static str, &'static str)], trailers: &[(&'static str, &'static str)]) -> Verdict {
        verdict(StatusCode::OK, &fields(headers), Some(&fields(trailers)), by_default)
    }

    #[test]
    fn every_status_means_what_its_nearest_http_status_means() {
        let spoken = [("content-type", "application/grpc+proto")];
        let by_code = |code: &'static str| judged(&spoken, &[("grpc-status", code)]);
        for code in ["0", "2", "3", "5", "6", "9", "10", "11", "12", "13", "15"] {
            assert_eq!(by_code(code), Verdict::Completed, "{code}");
        }
        for code in ["7", "16"] {
            assert_eq!(by_code(code), Verdict::Failed, "{code}");
        }
        for code in ["1", "4", "8", "14", "17", "-1", "", "ok"] {
            assert_eq!(by_code(code), Verdict::Unknown, "{code}");
        }
        assert_eq!(judged(&spoken, &[]), Verdict::Unknown, "cut off");
    }

    #[test]
    fn unavailable_with_a_time_to_come_back_is_the_servers_own_word() {
        let spoken = [("content-type", "application/grpc")];
        for (field, value, verdict) in [
            ("grpc-retry-pushback-ms", "0", Verdict::Failed),
            ("grpc-retry-pushback-ms", "-1", Verdict::Unknown),
            ("retry-after", "1", Verdict::Failed),
        ] {
            for code in ["8", "14"] {
                assert_eq!(
                    judged(&spoken, &[("grpc-status", code), (field, value)]),
                    verdict,
                    "{code} {field}: {value}"
                );
            }
        }
    }

    #[test]
    fn the_head_is_judged_where_no_trailers_come_and_other_answers_by_http() {
        assert_eq!(judged(&[("content-type", "application/grpc"), ("grpc-status", "7")], &[]), Verdict::Failed);
        assert_eq!(judged(&[("content-type", "application/grpc-web"), ("grpc-status", "8")], &[]), Verdict::Completed);
        let said = fields(&[("content-type", "application/grpc"), ("grpc-status", "7")]);
        let spoken = fields(&[("content-type", "application/grpc")]);
        for (status, head, expected) in [
            (StatusCode::UNAUTHORIZED, &spoken, Verdict::Failed),
            (StatusCode::BAD_GATEWAY, &said, Verdict::Unknown),
            (StatusCode::OK, &said, Verdict::Failed),
            (StatusCode::OK, &spoken, Verdict::Completed),
        ] {
            assert_eq!(verdict(status, head, None, by_default), expected, "streamed, {status}");
        }
    }

    #[test]
    fn one_whole_message_can_carry_a_key() {
        assert!(refuses(b"\0\0\0\0\0").is_none());
        assert!(refuses(b"\x01\0\0\0\x02ab").is_none());
        for body in [&b""[..], b"\0\0\0\0", b"\0\0\0\0\x02a", b"\0\0\0\0\x01ab", b"\0\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(refuses(body).map(|problem| problem.code), Some(Code::RequestInvalid), "{body:?}");
        }
    }

    #[test]
    fn each_problem_has_the_status_that_says_whether_to_repeat_it() {
        let statuses: Vec<_> = Code::ALL.iter().map(|code| (code.as_str(), status_of(&Problem::new(*code)))).collect();
        for (code, status) in [
            ("key-missing", 3),
            ("key-reused", 9),
            ("in-progress", 14),
            ("body-too-large", 8),
            ("quota-exceeded", 8),
            ("response-not-stored", 9),
            ("outcome-unknown", 2),
            ("store-unavailable", 14),
            ("record-unreadable", 15),
        ] {
            assert!(statuses.contains(&(code, status)), "{code}");
        }
        assert_eq!(status_of(&Problem::body_incomplete("it was cut short")), 14);
        assert_eq!(percent_encoded("a 100% caf\u{e9}\n"), "a 100%25 caf%C3%A9%0A");
    }
}
