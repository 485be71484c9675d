//! One exchange on a stream: its request, and its answer's head.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::header::CONTENT_LENGTH;
use http::uri::Scheme;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use oncekey_engine::NotExecuted;
use oncekey_tower::RequestBody;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::answer::{Answer, Held};
use super::connection::Place;
use super::{form, proof, upload};
use crate::upstream::lines::Unanswered;

/// Sends a request and waits for its answer's head, without a limit of its own. Dropped, it resets the stream: what was sent
/// by then stays sent.
pub(in crate::upstream) async fn send(
    place: Place,
    request: Request<RequestBody>,
    scheme: &Scheme,
    tasks: &TaskTracker,
) -> Result<Response<Answer>, Unanswered> {
    let (parts, body) = request.into_parts();
    let head = form::head(&parts, scheme).map_err(|why| Unanswered::NotExecuted(NotExecuted::because(why)))?;
    let Ok((answer, stream)) = place.requests().send_request(head, body.is_end_stream()) else {
        return Err(Unanswered::Unsent(Box::new(Request::from_parts(parts, body))));
    };
    let place = Arc::new(place);
    let upload = if body.is_end_stream() {
        None
    } else {
        let mut upload = Box::pin(upload::send(stream, body, Arc::clone(&place)));
        // Most bodies are gone at once.
        let pending = futures_util::poll!(&mut upload).is_pending();
        pending.then(|| AbortOnDropHandle::new(tasks.spawn(upload)))
    };
    let response = head_of(answer).await?;
    place.heard();
    let length = announced(response.headers());
    Ok(response.map(|stream| Answer::new(stream, length, Held { place, upload })))
}

/// The head of the answer itself; interim ones are passed over.
async fn head_of(mut answer: h2::client::ResponseFuture) -> Result<Response<h2::RecvStream>, Unanswered> {
    let mut begun = false;
    let received = poll_fn(|cx| {
        while let Poll::Ready(Some(Ok(_))) = answer.poll_informational(cx) {
            begun = true;
        }
        Pin::new(&mut answer).poll(cx)
    });
    let received = received.await;
    received.map_err(|error| match proof::not_executed(&error, begun) {
        Some(proof) => Unanswered::NotExecuted(proof),
        None => Unanswered::Broken(error.into()),
    })
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
