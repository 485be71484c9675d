//! The problems that the gateway answers without the layer: a request that is no HTTP, and unguarded traffic whose upstream
//! gave no answer (P1). They look as `[defaults]` says, since no route is known.

use std::time::Duration;

use http::Response;
use oncekey_core::problem::{Code, Problem};
use oncekey_tower::{OwnAnswers, ResponseBody, problem_response};

/// How the gateway refuses.
#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    /// How its answers look.
    pub(crate) own_answers: OwnAnswers,
    /// What `Retry-After` says in them.
    pub(crate) retry_after: Duration,
}

impl Default for Refusals {
    /// The built-in values.
    fn default() -> Self {
        Self { own_answers: OwnAnswers::default(), retry_after: Duration::from_secs(2) }
    }
}

impl Refusals {
    /// A request that breaks the rules of HTTP itself (H1). `detail` says which.
    pub(super) fn request_invalid(&self, detail: &str) -> Response<ResponseBody> {
        self.problem(&Problem::because(Code::RequestInvalid, detail))
    }

    /// A request whose body broke off, or broke its framing.
    pub(super) fn body_incomplete(&self) -> Response<ResponseBody> {
        self.problem(&Problem::body_incomplete("the body was cut short or is framed wrongly"))
    }

    /// Nothing was executed, or the method is safe to repeat (E6).
    pub(super) fn upstream_unreachable(&self) -> Response<ResponseBody> {
        let detail = "The upstream gave no answer and nothing took effect; repeat the request as it is.";
        self.problem(&Problem::because(Code::UpstreamUnreachable, detail))
    }

    /// The request was sent and its answer was lost (E7); no record was kept, so repeating it may execute it again.
    pub(super) fn outcome_unknown(&self) -> Response<ResponseBody> {
        let detail =
            "The upstream may have executed the request, but its answer was lost; find out before you repeat it.";
        self.problem(&Problem::because(Code::OutcomeUnknown, detail))
    }

    fn problem(&self, problem: &Problem) -> Response<ResponseBody> {
        problem_response(problem, &self.own_answers, Some(self.retry_after))
    }
}
