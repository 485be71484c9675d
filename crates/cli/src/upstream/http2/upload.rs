//! The body of a request on its way up, as fast as the peer takes it.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body;
use http_body_util::BodyExt;
use oncekey_tower::RequestBody;

use super::connection::Place;

/// Sends the body with its trailers; ends early when the peer resets the stream, which the answer tells. A body that breaks
/// off resets the stream. Dropped, it resets the stream too, once the answer isn't awaited any more.
pub(super) async fn send(mut stream: SendStream<Bytes>, mut body: RequestBody, place: Arc<Place>) {
    let _ = pieces(&mut stream, &mut body).await;
    // Only now has the stream ended on this side.
    drop(place);
}

async fn pieces(stream: &mut SendStream<Bytes>, body: &mut RequestBody) -> Result<(), h2::Error> {
    loop {
        let frame = tokio::select! {
            biased;
            reset = poll_fn(|cx| stream.poll_reset(cx)) => return reset.map(drop),
            frame = body.frame() => frame,
        };
        let frame = match frame {
            None => return stream.send_data(Bytes::new(), true),
            Some(Ok(frame)) => frame,
            Some(Err(_)) => {
                stream.send_reset(Reason::CANCEL);
                return Ok(());
            }
        };
        match frame.into_data() {
            Ok(data) if body.is_end_stream() => return piece(stream, data, true).await,
            Ok(data) => piece(stream, data, false).await?,
            Err(frame) => {
                let Ok(trailers) = frame.into_trailers() else { continue };
                return stream.send_trailers(trailers);
            }
        }
    }
}

/// Sends a piece within the peer's window.
async fn piece(stream: &mut SendStream<Bytes>, mut data: Bytes, last: bool) -> Result<(), h2::Error> {
    if data.is_empty() && last {
        return stream.send_data(data, true);
    }
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        while stream.capacity() == 0 {
            match poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                // The stream is closed for sending; the answer tells why.
                None => return Ok(()),
            }
        }
        let now = data.split_to(data.len().min(stream.capacity()));
        let end = last && data.is_empty();
        stream.send_data(now, end)?;
    }
    Ok(())
}
