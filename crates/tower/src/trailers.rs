//! The trailers of keyed requests' answers (R6): which go on, what they count for, and how they are announced.

use bytes::Bytes;
use http::header::{TE, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, Version, request};
use http_body::Body;
use http_body_util::BodyExt;
use oncekey_core::response::{end_to_end_trailers, strip_own};

use crate::body::ResponseBody;

/// The trailers that go on: end to end, and none of oncekey's own (R2).
pub(crate) fn passed(trailers: &HeaderMap, key_header: &HeaderName) -> HeaderMap {
    let mut trailers = end_to_end_trailers(trailers);
    strip_own(&mut trailers, key_header);
    trailers
}

/// A body as it arrives, of whose trailers only those that go on are left.
pub(crate) fn passing<R>(body: R, key_header: HeaderName) -> impl Body<Data = Bytes, Error = R::Error> + Send
where
    R: Body<Data = Bytes> + Send,
{
    body.map_frame(move |frame| match frame.into_trailers() {
        Ok(trailers) => http_body::Frame::trailers(passed(&trailers, &key_header)),
        Err(frame) => frame,
    })
}

/// What trailers count for in `max_response`, in bytes: their names and values.
pub(crate) fn len(trailers: &HeaderMap) -> u64 {
    trailers.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum()
}

/// Whether the names of trailers have to stand in the head to reach this client: over HTTP/1.1, if it takes any. Over
/// HTTP/2 they come as they are.
pub(crate) fn are_announced_to(request: &request::Parts) -> bool {
    let mut te = request.headers.get_all(TE).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    request.version < Version::HTTP_2 && te.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Announces the trailers of a whole answer. Those of a streamed one are known to the inner service only.
pub(crate) fn announce(answer: &mut Response<ResponseBody>) {
    let Some(trailers) = answer.body().trailers() else { return };
    let names: Vec<_> = trailers.keys().map(HeaderName::as_str).collect();
    let names = HeaderValue::try_from(names.join(", ")).expect("names and commas are a field value");
    answer.headers_mut().insert(TRAILER, names);
}
