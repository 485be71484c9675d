//! Reading a keyed request's body whole, within the memory budget and in bounded time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use oncekey_core::problem::{Code, Problem};
use tokio::time::{Instant, timeout_at};

use crate::budget::{Pool, Share};

/// A whole body and the room it takes.
pub(crate) struct Intake {
    pub(crate) bytes: Bytes,
    pub(crate) share: Option<Share>,
}

/// Reads a body of at most `max` bytes. Nothing is read before there is room for all of it (W3), so that two half-read
/// bodies never wait for each other. `patience` bounds the wait for room, and then the reading.
pub(crate) async fn read<B>(body: B, max: u64, pool: &Pool, patience: Duration) -> Result<Intake, Problem>
where
    B: Body<Data = Bytes>,
{
    let hint = body.size_hint();
    if hint.lower() > max {
        return Err(Problem::body_too_large(max));
    }
    let most = hint.exact().unwrap_or(max);
    let room = timeout_at(Instant::now() + patience, pool.take(most)).await;
    let share = room.map_err(|_| Problem::new(Code::Overloaded))?;
    let reading = timeout_at(Instant::now() + patience, collect(body, hint.exact(), max)).await;
    let bytes = reading.map_err(|_| invalid("the body did not arrive in time"))??;
    Ok(Intake { bytes, share })
}

async fn collect<B>(body: B, exact: Option<u64>, max: u64) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes>,
{
    let mut body = std::pin::pin!(body);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers of a keyed request are dropped: its framing towards the upstream is ours (H1).
        let Ok(data) = frame.map_err(|_| invalid("the body was cut short or is framed wrongly"))?.into_data() else {
            continue;
        };
        if (first.len() + rest.len() + data.len()) as u64 > max {
            return Err(Problem::body_too_large(max));
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.reserve(exact.and_then(|exact| usize::try_from(exact).ok()).unwrap_or(first.len() + data.len()));
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn invalid(why: &str) -> Problem {
    let detail = format!("Send the whole request again: {why}, and nothing was executed.");
    Problem::because(Code::RequestInvalid, detail)
}
