//! Driving a connection: polling it, and winding it down when it has to end.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::places::Places;
use super::pulse::{Beat, Pulse};

/// How long a connection may do nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Between two requests.
    pub(super) idle: Duration,
    /// Within the head of a request, from its first byte; `None` where heads can't be told from other traffic.
    pub(super) head: Option<Duration>,
    /// Once it is being wound down.
    pub(super) farewell: Duration,
}

/// What ends a connection that doesn't end by itself.
#[derive(Clone, Copy)]
pub(super) struct Enders<'a> {
    /// The drain of the gateway.
    pub(super) stopping: &'a CancellationToken,
    /// Newcomers that want its place while it is idle.
    pub(super) places: &'a Places,
    pub(super) limits: Limits,
}

/// Drives `http` to its end. `wind_down` is called once, when one of the enders says so and the connection is idle (or, for
/// the drain, at once); whatever runs then goes on. `None` if the connection was then idle for too long, or never finished a
/// head.
pub(super) async fn drive<'e, H: Future>(
    http: Pin<&mut H>,
    wind_down: fn(Pin<&mut H>),
    pulse: &'e Pulse,
    enders: Enders<'e>,
) -> Option<H::Output> {
    let stopping = pin!(enders.stopping.cancelled());
    let wanted = pin!(enders.places.wanted());
    let timer = pin!(tokio::time::sleep(enders.limits.idle));
    let mut watch =
        Watch { http, wind_down, pulse, enders, stopping, wanted, timer, resting: None, in_head: false, ending: false };
    std::future::poll_fn(|cx| watch.poll(cx)).await
}

struct Watch<'p, 'e, H> {
    http: Pin<&'p mut H>,
    wind_down: fn(Pin<&mut H>),
    pulse: &'e Pulse,
    enders: Enders<'e>,
    stopping: Pin<&'p mut WaitForCancellationFuture<'e>>,
    wanted: Pin<&'p mut Notified<'e>>,
    timer: Pin<&'p mut Sleep>,
    /// The exchange that the present rest comes before; `None` while busy.
    resting: Option<u64>,
    in_head: bool,
    ending: bool,
}

impl<H: Future> Watch<'_, '_, H> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<H::Output>> {
        loop {
            if let Poll::Ready(output) = self.http.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            let stops = !self.ending && self.stopping.as_mut().poll(cx).is_ready();
            match self.pulse.beat(cx.waker()) {
                Beat::Busy => {
                    // Whoever is busy doesn't hear that its place is wanted.
                    if self.resting.take().is_some() {
                        self.wanted.set(self.enders.places.wanted());
                    }
                    if !stops {
                        return Poll::Pending;
                    }
                }
                Beat::Idle(next) => {
                    self.rest(next);
                    if self.timer.as_mut().poll(cx).is_ready() && (self.ending || self.in_head) {
                        return Poll::Ready(None);
                    }
                    let over = self.timer.is_elapsed();
                    let wanted = !self.ending && self.wanted.as_mut().poll(cx).is_ready();
                    if !stops && !over && !wanted {
                        return Poll::Pending;
                    }
                }
            }
            (self.wind_down)(self.http.as_mut());
            self.ending = true;
            self.resting = None;
        }
    }

    /// Times the rest before exchange `next`, and the head of its request once that begins.
    fn rest(&mut self, next: u64) {
        let limits = self.enders.limits;
        if self.resting != Some(next) {
            self.resting = Some(next);
            self.in_head = false;
            self.wanted.set(self.enders.places.wanted());
            let limit = if self.ending { limits.farewell } else { limits.idle };
            self.timer.as_mut().reset(Instant::now() + limit);
        }
        if let Some(limit) = limits.head.filter(|_| !self.ending && !self.in_head && self.pulse.has_heard()) {
            self.in_head = true;
            self.timer.as_mut().reset(Instant::now() + limit);
        }
    }
}
