//! What a request asks the counting upstream to do, read from its `X-Test-*` headers.

use std::str::FromStr;
use std::time::Duration;

use h2::Reason;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::Cut;

/// How the end of the answer's body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
    Close,
}

/// Which body the answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Nothing,
    Echo,
    Events,
    Payload(u64),
}

/// When the connection ends before the answer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutAt {
    pub(super) how: Cut,
    /// Bytes of the body that are still sent; `None`: not even the head.
    pub(super) after: Option<u64>,
}

/// How an exchange over HTTP/2 ends that was executed, without its whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breaks {
    Reset(Reason),
    GoAway,
    Cut(Cut),
}

/// How a request over HTTP/2 is refused, which isn't executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Stream,
    GoAway,
}

/// What befalls a stream of HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnStream {
    pub(super) breaks: Option<Breaks>,
    /// Bytes of the body that are still sent before it breaks; `None`: not even the head.
    pub(super) after: Option<u64>,
    pub(super) refusal: Option<Refusal>,
}

/// Where a request or its answer waits for the test.
#[derive(Debug)]
pub(super) struct Gates {
    pub(super) read: Option<String>,
    pub(super) effect: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) body: Option<String>,
}

/// A whole script.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) trailers: Vec<(HeaderName, HeaderValue)>,
    pub(super) informational: Option<u16>,
    pub(super) kind: Kind,
    pub(super) framing: Framing,
    pub(super) delay: Duration,
    pub(super) gates: Gates,
    pub(super) cut: Option<CutAt>,
    pub(super) on_stream: OnStream,
}

impl Script {
    /// Reads the script of a request; the error is a sentence for the test's author.
    pub(super) fn read(method: &Method, headers: &HeaderMap) -> Result<Self, String> {
        let gate = |name| value::<String>(headers, name);
        let usual = if *method == Method::POST { StatusCode::CREATED } else { StatusCode::OK };
        let status = value(headers, "x-test-status")?.unwrap_or(usual);
        let breaks = breaks(headers)?;
        Ok(Self {
            status,
            headers: lines(headers, "x-test-header")?,
            trailers: lines(headers, "x-test-trailer")?,
            informational: value(headers, "x-test-informational")?,
            kind: if bodiless(status) { Kind::Nothing } else { kind(headers)? },
            framing: framing(headers)?,
            delay: Duration::from_millis(value(headers, "x-test-delay-ms")?.unwrap_or(0)),
            gates: Gates {
                read: gate("x-test-read-gate")?,
                effect: gate("x-test-effect-gate")?,
                answer: gate("x-test-gate")?,
                body: gate("x-test-body-gate")?,
            },
            cut: if matches!(breaks, None | Some(Breaks::Cut(_))) { cut(headers)? } else { None },
            on_stream: OnStream { breaks, after: value(headers, "x-test-cut-after")?, refusal: refusal(headers)? },
        })
    }
}

/// Whether an answer with this status never has a body, nor says how long it is.
pub(super) fn bodiless(status: StatusCode) -> bool {
    [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
}

fn kind(headers: &HeaderMap) -> Result<Kind, String> {
    if let Some(bytes) = value(headers, "x-test-body-bytes")? {
        return Ok(Kind::Payload(bytes));
    }
    match value::<String>(headers, "x-test-body")?.as_deref() {
        None | Some("json") => Ok(Kind::Json),
        Some("none") => Ok(Kind::Nothing),
        Some("echo") => Ok(Kind::Echo),
        Some("sse") => Ok(Kind::Events),
        Some(other) => Err(format!("X-Test-Body: {other} is none of json, none, echo, sse")),
    }
}

fn framing(headers: &HeaderMap) -> Result<Framing, String> {
    match value::<String>(headers, "x-test-framing")?.as_deref() {
        None | Some("length") => Ok(Framing::Length),
        Some("chunked") => Ok(Framing::Chunked),
        Some("close") => Ok(Framing::Close),
        Some(other) => Err(format!("X-Test-Framing: {other} is none of length, chunked, close")),
    }
}

fn cut(headers: &HeaderMap) -> Result<Option<CutAt>, String> {
    let after = value(headers, "x-test-cut-after")?;
    let how = match value::<String>(headers, "x-test-cut")?.as_deref() {
        None if after.is_some() => return Err("X-Test-Cut-After needs X-Test-Cut".to_owned()),
        None => return Ok(None),
        Some("fin") => Cut::Fin,
        Some("rst") => Cut::Rst,
        Some(other) => return Err(format!("X-Test-Cut: {other} is none of fin, rst")),
    };
    Ok(Some(CutAt { how, after }))
}

fn breaks(headers: &HeaderMap) -> Result<Option<Breaks>, String> {
    if let Some(code) = value::<String>(headers, "x-test-reset")? {
        let known = (0..=13).map(Reason::from).find(|reason| format!("{reason:?}") == code);
        return known.map(|code| Some(Breaks::Reset(code))).ok_or_else(|| format!("X-Test-Reset: {code} is no code"));
    }
    match value::<String>(headers, "x-test-go-away")?.as_deref() {
        None => Ok(cut(headers)?.map(|cut| Breaks::Cut(cut.how))),
        Some("yes") => Ok(Some(Breaks::GoAway)),
        Some(other) => Err(format!("X-Test-Go-Away: {other} is not yes")),
    }
}

fn refusal(headers: &HeaderMap) -> Result<Option<Refusal>, String> {
    match value::<String>(headers, "x-test-refuse")?.as_deref() {
        None => Ok(None),
        Some("stream") => Ok(Some(Refusal::Stream)),
        Some("go-away") => Ok(Some(Refusal::GoAway)),
        Some(other) => Err(format!("X-Test-Refuse: {other} is none of stream, go-away")),
    }
}

fn value<T: FromStr>(headers: &HeaderMap, name: &str) -> Result<Option<T>, String> {
    let Some(field) = headers.get(name) else { return Ok(None) };
    let parsed = field.to_str().ok().and_then(|text| text.parse().ok());
    parsed.map(Some).ok_or_else(|| format!("{name}: {field:?} can't be read"))
}

/// The `NAME: VALUE` lines under a name. Values may hold any byte that a field may.
fn lines(headers: &HeaderMap, name: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let line = |field: &HeaderValue| {
        let bytes = field.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&bytes[..colon]).ok()?;
        Some((name, HeaderValue::from_bytes(bytes[colon + 1..].trim_ascii()).ok()?))
    };
    let read = |field| line(field).ok_or_else(|| format!("{name}: {field:?} is no NAME: VALUE"));
    headers.get_all(name).iter().map(read).collect()
}
