//! The problems a client may see (rules P): their codes, the one place where HTTP statuses are chosen for them, and the
//! JSON that says so. Which situation is which problem is decided by the caller, header fields are the HTTP layer's.

use http::{HeaderName, StatusCode};

use crate::field_name::Spelled;
use crate::json_text::write_string;
use crate::{KeyError, RecordId, ScopeError, ScopeSource};

/// What stands before the code in a problem's `type`, unless `problem_type_base` replaces it.
pub const TYPE_BASE: &str = "urn:oncekey:problem:";

/// What went wrong, as clients, metrics and logs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// The route requires a key and the request has none (K6).
    KeyMissing,
    /// What stands in the key field is no key (K3, K4, K5).
    KeyInvalid,
    /// No source yields a scope (S2).
    ScopeMissing,
    /// A source yields something that is no scope (S2).
    ScopeInvalid,
    /// The request itself can't be executed: ill-framed, malformed, or keyed and asking for an upgrade (H1, H4).
    RequestInvalid,
    /// The key belongs to another request (F8).
    KeyReused,
    /// The first request with this key still runs (W2).
    InProgress,
    /// The request's body is over `max_request`.
    BodyTooLarge,
    /// It is completed, and its response was not kept (R5).
    ResponseNotStored,
    /// It is known that the upstream got nothing (E6).
    UpstreamUnreachable,
    /// It may have taken effect, and nobody can tell (E7).
    OutcomeUnknown,
    /// The store didn't answer at claim time (D1).
    StoreUnavailable,
    /// Bounds of memory or concurrency are reached (W3).
    Overloaded,
    /// The record is there and can't be read.
    RecordUnreadable,
}

/// Whether repeating the request helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Repeat it as it is.
    SameKey,
    /// Fix the request and take a new key.
    NewKey,
    /// Repeating won't help.
    Never,
}

impl Retry {
    /// The member `retry` of a problem.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SameKey => "same-key",
            Self::NewKey => "new-key",
            Self::Never => "never",
        }
    }
}

impl Code {
    /// All codes, so that every counter is there from the start.
    pub const ALL: [Self; 14] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::ScopeMissing,
        Self::ScopeInvalid,
        Self::RequestInvalid,
        Self::KeyReused,
        Self::InProgress,
        Self::BodyTooLarge,
        Self::ResponseNotStored,
        Self::UpstreamUnreachable,
        Self::OutcomeUnknown,
        Self::StoreUnavailable,
        Self::Overloaded,
        Self::RecordUnreadable,
    ];

    /// The code as clients see it: in `code`, `type`, `Oncekey-Problem` and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeyMissing => "key-missing",
            Self::KeyInvalid => "key-invalid",
            Self::ScopeMissing => "scope-missing",
            Self::ScopeInvalid => "scope-invalid",
            Self::RequestInvalid => "request-invalid",
            Self::KeyReused => "key-reused",
            Self::InProgress => "in-progress",
            Self::BodyTooLarge => "body-too-large",
            Self::ResponseNotStored => "response-not-stored",
            Self::UpstreamUnreachable => "upstream-unreachable",
            Self::OutcomeUnknown => "outcome-unknown",
            Self::StoreUnavailable => "store-unavailable",
            Self::Overloaded => "overloaded",
            Self::RecordUnreadable => "record-unreadable",
        }
    }

    /// The HTTP status; the only place where it is chosen. That of `in-progress` may be set per route (W2).
    pub const fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyInvalid | Self::ScopeMissing | Self::ScopeInvalid | Self::RequestInvalid => {
                StatusCode::BAD_REQUEST
            }
            Self::KeyReused | Self::ResponseNotStored => StatusCode::CONFLICT,
            Self::InProgress => StatusCode::ACCEPTED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UpstreamUnreachable => StatusCode::BAD_GATEWAY,
            Self::OutcomeUnknown => StatusCode::GATEWAY_TIMEOUT,
            Self::StoreUnavailable | Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            Self::RecordUnreadable => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether repeating helps.
    pub const fn retry(self) -> Retry {
        match self {
            Self::KeyMissing
            | Self::KeyInvalid
            | Self::ScopeMissing
            | Self::ScopeInvalid
            | Self::RequestInvalid
            | Self::KeyReused
            | Self::BodyTooLarge => Retry::NewKey,
            Self::InProgress
            | Self::UpstreamUnreachable
            | Self::OutcomeUnknown
            | Self::StoreUnavailable
            | Self::Overloaded => Retry::SameKey,
            Self::ResponseNotStored | Self::RecordUnreadable => Retry::Never,
        }
    }

    /// The problem's short name, the same each time.
    pub const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "Idempotency key missing",
            Self::KeyInvalid => "Idempotency key invalid",
            Self::ScopeMissing => "Scope missing",
            Self::ScopeInvalid => "Scope invalid",
            Self::RequestInvalid => "Request invalid",
            Self::KeyReused => "Idempotency key used for another request",
            Self::InProgress => "Request in progress",
            Self::BodyTooLarge => "Request body too large",
            Self::ResponseNotStored => "Response not stored",
            Self::UpstreamUnreachable => "Upstream unreachable",
            Self::OutcomeUnknown => "Outcome unknown",
            Self::StoreUnavailable => "Store unavailable",
            Self::Overloaded => "Overloaded",
            Self::RecordUnreadable => "Record unreadable",
        }
    }

    /// What a client should do, where nothing more is known than the code.
    const fn advice(self) -> &'static str {
        match self {
            Self::KeyMissing => "Send a key of your own with this request, and the same key with each of its retries.",
            Self::KeyInvalid => {
                "Send the key on one field line, as 1 to 255 visible ASCII characters, quoted if it holds a comma."
            }
            Self::ScopeMissing => "Say whose request this is, in the place that the setting `scope` names.",
            Self::ScopeInvalid => "Say once whose request this is, in at most 255 characters.",
            Self::RequestInvalid => "Send the request as well-formed HTTP, without asking for an upgrade.",
            Self::KeyReused => {
                "This key belongs to another request: take a new key for this one, or repeat that one unchanged."
            }
            Self::InProgress => "The first request with this key still runs; repeat this one as it is in a moment.",
            Self::BodyTooLarge => "Send a smaller body, under a new key.",
            Self::ResponseNotStored => {
                "The operation is completed, but its response was not kept; look up its result instead of repeating it."
            }
            Self::UpstreamUnreachable => {
                "The service behind could not be reached and nothing was executed; repeat the request as it is."
            }
            Self::OutcomeUnknown => {
                "The operation may have taken effect and nobody can tell yet: do not repeat it under a new key, \
                 but ask for its state by its operation id, or repeat it under the same key later."
            }
            Self::StoreUnavailable => {
                "Nothing was executed, since it could not be recorded; repeat the request as it is in a moment."
            }
            Self::Overloaded => "Nothing was executed; repeat the request as it is in a moment.",
            Self::RecordUnreadable => {
                "There is a record of this operation and it can't be read; have the operator look at it by its \
                 operation id, and do not repeat the operation under a new key."
            }
        }
    }
}

/// A problem as a client sees it. It holds no body, no credential and no key (P2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What went wrong.
    pub code: Code,
    /// [`Code::status`], unless the route sets another.
    pub status: StatusCode,
    /// One plain sentence that tells the client what to do.
    pub detail: String,
    /// The record it concerns, if there is one (P3).
    pub operation_id: Option<RecordId>,
    /// Status of the response that was not kept (R5).
    pub original_status: Option<StatusCode>,
}

impl Problem {
    /// A problem of which nothing more is known than its code.
    pub fn new(code: Code) -> Self {
        Self::because(code, code.advice())
    }

    /// A problem with a detail of its own.
    pub fn because(code: Code, detail: impl Into<String>) -> Self {
        Self { code, status: code.status(), detail: detail.into(), operation_id: None, original_status: None }
    }

    /// `key-missing`, naming the field that was looked for (K6).
    pub fn key_missing(key_header: &HeaderName) -> Self {
        let detail = format!("Send a key of your own in {}, and the same key with each retry.", Spelled(key_header));
        Self::because(Code::KeyMissing, detail)
    }

    /// `key-invalid`, saying what to change.
    pub fn key_invalid(error: KeyError) -> Self {
        Self::because(Code::KeyInvalid, format!("Send a valid key: {error}."))
    }

    /// `scope-missing`, naming what was looked for and the setting (S2).
    pub fn scope_missing(sources: &[ScopeSource]) -> Self {
        let sources: Vec<_> = sources.iter().map(ScopeSource::to_string).collect();
        let detail = format!(
            "Say whose request this is: looked for {}, as the setting `scope` says, and found no value.",
            sources.join(", then ")
        );
        Self::because(Code::ScopeMissing, detail)
    }

    /// `scope-invalid`, saying what to change and where.
    pub fn scope_invalid(source: &ScopeSource, error: ScopeError) -> Self {
        Self::because(Code::ScopeInvalid, format!("Send a valid scope in {source}: {error}."))
    }

    /// `body-too-large`, saying how large a body may be, in bytes.
    pub fn body_too_large(max_request: u64) -> Self {
        Self::because(Code::BodyTooLarge, format!("Send at most {max_request} bytes of body, under a new key."))
    }

    /// `in-progress` under the route's `in_progress_status` (W2).
    pub fn in_progress(status: StatusCode) -> Self {
        Self { status, ..Self::new(Code::InProgress) }
    }

    /// `response-not-stored`, with the status of the response that was not kept (R5).
    pub fn response_not_stored(original_status: StatusCode) -> Self {
        Self { original_status: Some(original_status), ..Self::new(Code::ResponseNotStored) }
    }

    /// The same problem about a record (P3).
    #[must_use]
    pub fn about(self, operation_id: RecordId) -> Self {
        Self { operation_id: Some(operation_id), ..self }
    }

    /// The media type of [`Problem::body`].
    pub fn media_type(&self) -> &'static str {
        if self.is_acceptance() { "application/json" } else { "application/problem+json" }
    }

    /// The body: RFC 9457 JSON whose `type` is `type_base` and the code, or the plain answer of W2.
    pub fn body(&self, type_base: &str) -> Vec<u8> {
        let mut json = JsonObject::new();
        if self.is_acceptance() {
            json.text("detail", "Processing");
            json.text("status", "processing");
        } else {
            json.text("type", &format!("{type_base}{}", self.code.as_str()));
            json.text("title", self.code.title());
            json.number("status", self.status.as_u16());
            json.text("detail", &self.detail);
            json.text("code", self.code.as_str());
            json.text("retry", self.code.retry().as_str());
        }
        if let Some(id) = self.operation_id {
            json.text("operation_id", &id.to_string());
        }
        if let Some(status) = self.original_status {
            json.number("original_status", status.as_u16());
        }
        json.finish()
    }

    /// Whether this is the 202 of W2, which is no problem to a client but an answer to wait on.
    fn is_acceptance(&self) -> bool {
        self.code == Code::InProgress && self.status == StatusCode::ACCEPTED
    }
}

/// A JSON object, written member by member.
struct JsonObject(Vec<u8>);

impl JsonObject {
    fn new() -> Self {
        Self(vec![b'{'])
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_string(value, &mut self.0);
    }

    fn number(&mut self, name: &str, value: u16) {
        self.name(name);
        self.0.extend(value.to_string().into_bytes());
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        write_string(name, &mut self.0);
        self.0.push(b':');
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}
