//! The codes of problems, and what follows from each: its HTTP status, chosen here and nowhere else, whether repeating
//! helps, and what a client is told.

use http::StatusCode;

use super::style::Profile;

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
    /// The scope has as many records as it may have (`max_records_per_scope`).
    QuotaExceeded,
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
    pub const ALL: [Self; 15] = [
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
        Self::QuotaExceeded,
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
            Self::QuotaExceeded => "quota-exceeded",
            Self::RecordUnreadable => "record-unreadable",
        }
    }

    /// The HTTP status in a profile; the only place where it is chosen. That of `in-progress` may be set per route (W2).
    pub const fn status(self, profile: Profile) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyInvalid | Self::ScopeMissing | Self::ScopeInvalid | Self::RequestInvalid => {
                StatusCode::BAD_REQUEST
            }
            Self::KeyReused => match profile {
                Profile::Default => StatusCode::CONFLICT,
                Profile::Ietf => StatusCode::UNPROCESSABLE_ENTITY,
                Profile::Stripe => StatusCode::BAD_REQUEST,
            },
            Self::InProgress => match profile {
                Profile::Default => StatusCode::ACCEPTED,
                Profile::Ietf | Profile::Stripe => StatusCode::CONFLICT,
            },
            Self::ResponseNotStored => StatusCode::CONFLICT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UpstreamUnreachable => StatusCode::BAD_GATEWAY,
            Self::OutcomeUnknown => StatusCode::GATEWAY_TIMEOUT,
            Self::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
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
            | Self::Overloaded
            | Self::QuotaExceeded => Retry::SameKey,
            Self::ResponseNotStored | Self::RecordUnreadable => Retry::Never,
        }
    }

    /// Whether it usually passes by itself, so that `Retry-After` makes sense.
    pub(super) const fn passes(self) -> bool {
        matches!(
            self,
            Self::InProgress
                | Self::UpstreamUnreachable
                | Self::StoreUnavailable
                | Self::Overloaded
                | Self::QuotaExceeded
        )
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
            Self::QuotaExceeded => "Quota exceeded",
            Self::RecordUnreadable => "Record unreadable",
        }
    }

    /// What a client should do, where nothing more is known than the code.
    pub(super) const fn advice(self) -> &'static str {
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
                "The service behind could not be reached and this request was not executed; repeat it as it is."
            }
            Self::OutcomeUnknown => {
                "The operation may have taken effect and nobody can tell yet: do not repeat it under a new key, \
                 but ask for its state by its operation id, or repeat it under the same key later."
            }
            Self::StoreUnavailable => {
                "This request was not executed, since it could not be recorded; repeat it as it is in a moment."
            }
            Self::Overloaded => "Nothing was executed; repeat the request as it is in a moment.",
            Self::QuotaExceeded => {
                "Nothing was executed, since too many operations of this account are kept already; repeat the request as \
                 it is when some of them have expired."
            }
            Self::RecordUnreadable => {
                "There is a record of this operation and it can't be read; have the operator look at it by its \
                 operation id, and do not repeat the operation under a new key."
            }
        }
    }
}
