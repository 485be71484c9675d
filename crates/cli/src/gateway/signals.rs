//! The signals that end the gateway (D4), and the one that asks it to read its configuration again.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// SIGTERM, SIGINT and SIGHUP.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Option<Signal>,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// To end.
    End,
    /// To read the configuration again. Signals that come while one is being read count as one.
    Reload,
}

impl Signals {
    /// From here on a signal asks instead of killing; SIGHUP only if there is something to reload.
    pub(super) fn listen(reloads: bool) -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::failed);
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: reloads.then(|| listen(SignalKind::hangup())).transpose()?,
        })
    }

    /// Waits for a signal. One that asks to end goes first.
    pub(super) async fn next(&mut self) -> Asked {
        let Self { terminate, interrupt, hang_up } = self;
        let hung_up = async {
            match hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = terminate.recv() => Asked::End,
            _ = interrupt.recv() => Asked::End,
            _ = hung_up => Asked::Reload,
        }
    }

    /// Waits for a signal that asks to end; what else is asked meanwhile waits.
    pub(super) async fn asked_to_end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// The next signal that asks to end ends the process at once: what isn't recorded by then lapses, as after `kill -9`.
    pub(super) fn exit_at_the_next(mut self) {
        #[expect(clippy::disallowed_methods, reason = "ends with the process, by design")]
        tokio::spawn(async move {
            self.asked_to_end().await;
            tracing::warn!("ended at once by a second signal");
            std::process::exit(1);
        });
    }
}
