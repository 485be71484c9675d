//! Reading a keyed request's body whole, within the memory budget and in bounded time.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use oncekey_core::problem::{Code, Problem};
use tokio::time::timeout;

use crate::budget::{Pool, Share, UNCOUNTED};
use crate::gathered::Gathered;

/// A whole body and the room it takes.
pub(crate) struct Intake {
    pub(crate) bytes: Bytes,
    pub(crate) share: Option<Share>,
}

/// How large a body may be, and what it takes in memory beside its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// The most bytes of the body.
    pub(crate) max: u64,
    /// The most bytes that decoding it takes; 0 for a body under no coding.
    pub(crate) decoding: u64,
}

/// Reads a body. Nothing that is counted is read before there is room for all of it, and for decoding it (W3), so that two
/// half-read bodies never wait for each other. A body that doesn't say its length takes room for the largest it can be, once it
/// isn't small any more. `patience` bounds the wait for room, and the reading before and after it. The share beside the body is
/// the room for decoding it.
pub(crate) async fn read<B>(
    body: B,
    bounds: Bounds,
    pool: &Pool,
    patience: Duration,
) -> Result<(Intake, Option<Share>), Problem>
where
    B: Body<Data = Bytes>,
{
    let Bounds { max, decoding } = bounds;
    let hint = body.size_hint();
    if hint.lower() > max {
        return Err(Problem::body_too_large(max));
    }
    let mut body = std::pin::pin!(body);
    let mut gathered = Gathered::new(None, max);
    let reading = async |body: Pin<&mut B>, gathered: &mut Gathered, pause: u64| {
        let read = timeout(patience, gather(body, gathered, max, pause)).await;
        read.map_err(|_| Problem::body_incomplete("the body did not arrive in time"))?
    };
    let ended = hint.exact().is_none() && reading(body.as_mut(), &mut gathered, UNCOUNTED).await?;
    let size = if ended { gathered.len() } else { hint.exact().unwrap_or(max) };
    let room = timeout(patience, pool.take_both([size, decoding])).await;
    let [share, decoding] = room.map_err(|_| Problem::new(Code::Overloaded))?;
    if !ended {
        if hint.exact().is_some() {
            // Only now: a head alone must not make its announced length be allocated, once for each stream that waits.
            gathered = Gathered::new(hint.exact(), max);
        }
        reading(body, &mut gathered, max).await?;
    }
    // hyper takes a stream of HTTP/2 that its client gave up (RST_STREAM with NO_ERROR) for whole.
    if hint.lower() > gathered.len() {
        return Err(Problem::body_incomplete("the body is shorter than it says"));
    }
    Ok((Intake { bytes: gathered.into_bytes(), share }, decoding))
}

/// Reads until there are more than `pause` bytes; whether the body ended before.
async fn gather<B>(mut body: Pin<&mut B>, gathered: &mut Gathered, max: u64, pause: u64) -> Result<bool, Problem>
where
    B: Body<Data = Bytes>,
{
    while gathered.len() <= pause {
        let Some(frame) = body.frame().await else { return Ok(true) };
        // Trailers of a keyed request are dropped: its framing towards the upstream is ours (H1).
        let Ok(data) =
            frame.map_err(|_| Problem::body_incomplete("the body was cut short or is framed wrongly"))?.into_data()
        else {
            continue;
        };
        if gathered.len() + data.len() as u64 > max {
            return Err(Problem::body_too_large(max));
        }
        gathered.push(&data);
    }
    Ok(false)
}
