//! An operator's verdict as JSON (A3): read strictly, since what is recorded here is what clients will be answered.

use std::fmt;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use oncekey_core::policy::Recording;
use oncekey_core::response::{RecordedBody, end_to_end, strip_own};
use oncekey_core::{RecordedResponse, State, Token};
use oncekey_store::Resolution;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// Largest verdict, in bytes of JSON.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_REASON: usize = 1000;
const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// How an operation that nobody could tell ended.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The response that retries get; `None` if it did not take effect.
    pub response: Option<Arc<RecordedResponse>>,
}

/// JSON that is no verdict or no response; each says what to change.
#[derive(Debug, thiserror::Error)]
pub enum InvalidVerdict {
    /// Not JSON, or not of the shape.
    #[error(
        "{0}; a verdict is {{\"as\":\"completed\",\"response\":{{\"status\",\"headers\",\"body\" or \"body_base64\", and \"trailers\" if it had any}}}} or {{\"as\":\"failed\"}}, both with an optional \"reason\""
    )]
    Shape(serde_json::Error),
    /// `--response` or a file that is not of a response's shape.
    #[error(
        "{0}; a response is {{\"status\",\"headers\",\"body\" or \"body_base64\", and \"trailers\" if it had any}}"
    )]
    ResponseShape(serde_json::Error),
    /// Retries must be answered with something.
    #[error("\"as\":\"completed\" needs the \"response\" that retries will get")]
    NoResponse,
    /// It would never be used.
    #[error("\"as\":\"failed\" takes no \"response\": the next retry executes")]
    UselessResponse,
    /// Informational and made-up codes can't end a request.
    #[error("status {0} can't be recorded; allowed: 200 to 599")]
    Status(u16),
    /// A name or value that HTTP doesn't allow.
    #[error("header {0:?} has a name or value that HTTP doesn't allow")]
    Header(String),
    /// Which of the two counts would be a guess.
    #[error("give \"body\" or \"body_base64\", not both")]
    TwoBodies,
    /// Not standard base64 with padding.
    #[error("\"body_base64\" is not base64: {0}")]
    Base64(base64::DecodeError),
    /// These statuses never have one.
    #[error("a response with status {0} has no body")]
    BodyNotAllowed(u16),
    /// Longer than a line of the trail should be.
    #[error("\"reason\" is longer than 1000 characters")]
    Reason,
    /// Not every store can keep it.
    #[error("\"reason\" holds a NUL character")]
    ReasonText,
}

impl Verdict {
    /// Reads the body of `POST /api/records/{id}/resolve`: the verdict, and the operator's own words.
    pub(crate) fn parse(json: &[u8]) -> Result<(Self, Option<String>), InvalidVerdict> {
        let VerdictJson { verdict, response, reason } = serde_json::from_slice(json).map_err(InvalidVerdict::Shape)?;
        Ok((Self::read(verdict, response)?, checked_reason(reason)?))
    }

    pub(crate) fn read(verdict: Ended, response: Option<ResponseJson>) -> Result<Self, InvalidVerdict> {
        let response = match (verdict, response) {
            (Ended::Completed, Some(response)) => Some(Arc::new(response.read()?)),
            (Ended::Completed, None) => return Err(InvalidVerdict::NoResponse),
            (Ended::Failed, None) => None,
            (Ended::Failed, Some(_)) => return Err(InvalidVerdict::UselessResponse),
        };
        Ok(Self { response })
    }

    /// What the store is to write. Draws the random token that fences a late outcome (E5); an error means that the machine
    /// has no randomness to give.
    pub(crate) fn resolution(&self) -> Result<Resolution, getrandom::Error> {
        let Some(response) = &self.response else { return Ok(Resolution::Failed) };
        let mut token = [0; 16];
        getrandom::fill(&mut token)?;
        Ok(Resolution::Completed { response: Arc::clone(response), token: Token::from_bytes(token) })
    }

    /// What the record becomes.
    pub(crate) fn state(&self) -> State {
        if self.response.is_some() { State::Completed } else { State::Failed }
    }
}

/// A reason of a length that a line of the trail can hold.
pub fn checked_reason(reason: Option<String>) -> Result<Option<String>, InvalidVerdict> {
    match reason {
        Some(reason) if reason.chars().count() > MAX_REASON => Err(InvalidVerdict::Reason),
        Some(reason) if reason.contains('\0') => Err(InvalidVerdict::ReasonText),
        reason => Ok(reason),
    }
}

/// Reads a response alone: the `response` member of a verdict.
pub fn parse_response(json: &[u8]) -> Result<RecordedResponse, InvalidVerdict> {
    serde_json::from_slice::<ResponseJson>(json).map_err(InvalidVerdict::ResponseShape)?.read()
}

pub(crate) fn body_limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(MAX_BYTES)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerdictJson {
    #[serde(rename = "as")]
    verdict: Ended,
    response: Option<ResponseJson>,
    reason: Option<String>,
}

/// The two verdicts.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ended {
    Completed,
    Failed,
}

/// A response as an operator gives it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResponseJson {
    status: u16,
    #[serde(default)]
    headers: HeaderLines,
    body: Option<String>,
    body_base64: Option<String>,
    #[serde(default)]
    trailers: HeaderLines,
}

impl ResponseJson {
    fn read(self) -> Result<RecordedResponse, InvalidVerdict> {
        let status = StatusCode::from_u16(self.status).ok().filter(|status| (200..600).contains(&status.as_u16()));
        let status = status.ok_or(InvalidVerdict::Status(self.status))?;
        let body = match (self.body, self.body_base64) {
            (Some(_), Some(_)) => return Err(InvalidVerdict::TwoBodies),
            (text, None) => Bytes::from(text.unwrap_or_default()),
            (None, Some(base64)) => Bytes::from(STANDARD.decode(base64).map_err(InvalidVerdict::Base64)?),
        };
        if matches!(self.status, 204 | 205 | 304) && !body.is_empty() {
            return Err(InvalidVerdict::BodyNotAllowed(self.status));
        }
        // The operator stands in for the upstream, so the same rules apply to what is given (R2, R3). Which route it was,
        // and so its own settings of them, isn't known here; the built-in ones are the careful ones.
        let mut headers = end_to_end(&self.headers.read()?);
        strip_own(&mut headers, &KEY_HEADER);
        let mut trailers = self.trailers.read()?;
        strip_own(&mut trailers, &KEY_HEADER);
        let recording = Recording::default();
        let response = RecordedResponse::of(status, &headers, RecordedBody::Stored(body), &recording);
        Ok(response.with_trailers(&trailers, &recording))
    }
}

/// Header lines, given as an object or as `[[name, value], …]`.
#[derive(Default)]
struct HeaderLines(Vec<(String, String)>);

impl HeaderLines {
    fn read(self) -> Result<HeaderMap, InvalidVerdict> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.0 {
            let parsed = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()));
            let (Ok(parsed_name), Ok(value)) = parsed else { return Err(InvalidVerdict::Header(name)) };
            headers.append(parsed_name, value);
        }
        Ok(headers)
    }
}

impl<'de> Deserialize<'de> for HeaderLines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeaderLinesVisitor)
    }
}

struct HeaderLinesVisitor;

impl<'de> Visitor<'de> for HeaderLinesVisitor {
    type Value = HeaderLines;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers as {\"name\":\"value\"} or [[\"name\",\"value\"]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderLines, A::Error> {
        let mut lines = Vec::new();
        while let Some(line) = map.next_entry()? {
            lines.push(line);
        }
        Ok(HeaderLines(lines))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<HeaderLines, A::Error> {
        let mut lines = Vec::new();
        while let Some(line) = seq.next_element()? {
            lines.push(line);
        }
        Ok(HeaderLines(lines))
    }
}
