//! The problems that the gateway answers without the layer: a request that is no HTTP, and unguarded traffic whose upstream
//! gave no answer (P1).

use std::time::Duration;

use http::Response;
use oncekey_core::problem::{Code, Problem};
use oncekey_tower::{ResponseBody, problem_response};

/// What `Retry-After` says where no route is known.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// A request that breaks the rules of HTTP itself (H1). `detail` says which.
pub(super) fn request_invalid(detail: &str) -> Response<ResponseBody> {
    problem_response(&Problem::because(Code::RequestInvalid, detail), None)
}

/// Nothing was executed, or the method is safe to repeat (E6).
pub(super) fn upstream_unreachable() -> Response<ResponseBody> {
    let detail = "The upstream gave no answer and nothing took effect; repeat the request as it is.";
    problem_response(&Problem::because(Code::UpstreamUnreachable, detail), Some(RETRY_AFTER))
}

/// The request was sent and its answer was lost (E7); no record was kept, so repeating it may execute it again.
pub(super) fn outcome_unknown() -> Response<ResponseBody> {
    let detail = "The upstream may have executed the request, but its answer was lost; find out before you repeat it.";
    problem_response(&Problem::because(Code::OutcomeUnknown, detail), None)
}
