//! The problems a client may see (rules P): what they say, and the JSON that says it. What belongs to each code is in
//! `code`, how a route gives them in `style`; which situation is which problem is decided by the caller, header fields are the HTTP layer's.

mod code;
mod style;

use http::{HeaderName, StatusCode};

use crate::field_name::Spelled;
use crate::json_text::write_string;
use crate::{KeyError, RecordId, ScopeError};

pub use code::{Code, Retry};
pub use style::{Profile, Style, TYPE_BASE};

/// A problem as a client sees it. It holds no body, no credential and no key (P2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What went wrong.
    pub code: Code,
    /// One plain sentence that tells the client what to do.
    pub detail: String,
    /// The record it concerns, if there is one (P3).
    pub operation_id: Option<RecordId>,
    /// Status of the response that was not kept (R5).
    pub original_status: Option<StatusCode>,
    /// Whether repeating helps: [`Code::retry`], unless it is known better.
    pub retry: Retry,
    /// Whether the same request may be answered otherwise in a while, so that `Retry-After` says when.
    pub passes: bool,
}

impl Problem {
    /// A problem of which nothing more is known than its code.
    pub fn new(code: Code) -> Self {
        Self::because(code, code.advice())
    }

    /// A problem with a detail of its own.
    pub fn because(code: Code, detail: impl Into<String>) -> Self {
        let (detail, retry, passes) = (detail.into(), code.retry(), code.passes());
        Self { code, detail, operation_id: None, original_status: None, retry, passes }
    }

    /// The same problem of a request that is to be repeated as it is. A request that was refused before anyone looked for its
    /// record may be the retry of one that was executed: told to take a new key, its client would have it executed again.
    #[must_use]
    pub fn to_repeat(self) -> Self {
        Self { retry: Retry::SameKey, ..self }
    }

    /// `request-invalid` for a body that did not arrive whole; `why` says how.
    pub fn body_incomplete(why: &str) -> Self {
        let detail =
            format!("Send the whole request again under the same key: {why}, so this time nothing was executed.");
        Self::because(Code::RequestInvalid, detail).to_repeat()
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
    pub fn scope_missing<'a>(sources: impl IntoIterator<Item = &'a str>) -> Self {
        let sources: Vec<_> = sources.into_iter().collect();
        let detail = format!(
            "Say whose request this is: looked for {}, as the setting `scope` says, and found no value.",
            sources.join(", then ")
        );
        Self::because(Code::ScopeMissing, detail)
    }

    /// `scope-invalid`, saying what to change and where.
    pub fn scope_invalid(source: &str, error: ScopeError) -> Self {
        Self::because(Code::ScopeInvalid, format!("Send a valid scope in {source}: {error}."))
    }

    /// `body-too-large`, saying how large a body may be, in bytes.
    pub fn body_too_large(max_request: u64) -> Self {
        Self::because(Code::BodyTooLarge, format!("Send at most {max_request} bytes of body, under a new key."))
    }

    /// `body-too-large` for a body that is too large once its content codings are taken off (F6).
    pub fn decoded_too_large(max_request: u64) -> Self {
        let detail = format!("Send a body of at most {max_request} bytes once it is decoded, under a new key.");
        Self::because(Code::BodyTooLarge, detail)
    }

    /// `response-not-stored`, with the status of the response that was not kept (R5).
    pub fn response_not_stored(original_status: StatusCode) -> Self {
        Self { original_status: Some(original_status), ..Self::new(Code::ResponseNotStored) }
    }

    /// `outcome-unknown` where the next retry may settle it, by executing again or by asking the upstream (E7).
    pub fn unknown_for_now() -> Self {
        let detail = "The operation may have taken effect and nobody can tell yet: do not repeat it under a new key, but \
                      repeat it as it is in a moment, which may settle it.";
        Self { passes: true, ..Self::because(Code::OutcomeUnknown, detail) }
    }

    /// The same problem about a record (P3).
    #[must_use]
    pub fn about(self, operation_id: RecordId) -> Self {
        Self { operation_id: Some(operation_id), ..self }
    }

    /// The media type of [`Problem::body`].
    pub fn media_type(&self, style: &Style) -> &'static str {
        if style.is_acceptance(self.code) { "application/json" } else { "application/problem+json" }
    }

    /// The body: RFC 9457 JSON whose `type` is the style's base and the code, or the plain answer of W2.
    pub fn body(&self, style: &Style) -> Vec<u8> {
        let mut json = JsonObject::new();
        if style.is_acceptance(self.code) {
            json.text("detail", "Processing");
            json.text("status", "processing");
        } else {
            json.text("type", &format!("{}{}", style.type_base, self.code.as_str()));
            json.text("title", self.code.title());
            json.number("status", style.status(self.code).as_u16());
            json.text("detail", &self.detail);
            json.text("code", self.code.as_str());
            json.text("retry", self.retry.as_str());
        }
        if let Some(id) = self.operation_id {
            json.text("operation_id", &id.to_string());
        }
        if let Some(status) = self.original_status {
            json.number("original_status", status.as_u16());
        }
        json.finish()
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
