//! The signals that end the gateway (D4).

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// SIGTERM and SIGINT.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From here on a signal asks instead of killing.
    pub(super) fn listen() -> Result<Self, Failure> {
        let terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits for a signal.
    pub(super) async fn asked_to_end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// The next signal ends the process at once: what isn't recorded by then lapses, as after `kill -9`.
    pub(super) fn exit_at_the_next(mut self) {
        #[expect(clippy::disallowed_methods, reason = "ends with the process, by design")]
        tokio::spawn(async move {
            self.asked_to_end().await;
            tracing::warn!("ended at once by a second signal");
            std::process::exit(1);
        });
    }
}
