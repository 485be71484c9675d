//! Which tokens are believed through reloads: the keys stay where the configuration of tokens does.

use std::sync::Arc;
use std::time::Duration;

use oncekey_store::Clock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{JwtConfig, Tokens, start};
use crate::exit::Failure;

/// Prepares what tokens are verified with, and keeps it fresh.
pub(crate) struct Verifier {
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
    stop: CancellationToken,
    in_force: Option<(JwtConfig, Arc<Tokens>)>,
}

impl Verifier {
    /// The keys are kept fresh by tasks of `tasks`, until `stop`.
    pub(crate) fn new(clock: Arc<dyn Clock>, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self { clock, tasks, stop, in_force: None }
    }

    /// What a configuration verifies tokens with. Under one that is in force the keys stay, and are read again soon: an issuer
    /// that is away holds up no reload. Dropped, or not kept afterwards, it changes nothing.
    pub(crate) async fn prepare(
        &self,
        config: Option<&JwtConfig>,
        patience: Duration,
    ) -> Result<Option<Arc<Tokens>>, Failure> {
        let Some(config) = config else { return Ok(None) };
        if let Some((_, tokens)) = self.in_force.as_ref().filter(|(in_force, _)| in_force == config) {
            tokens.refresh();
            return Ok(Some(Arc::clone(tokens)));
        }
        let (tokens, refresh) = start(config, Arc::clone(&self.clock), patience).await?;
        // Ends by itself with the last route that verifies by these tokens.
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(refresh.run()));
        Ok(Some(tokens))
    }

    /// What was prepared is in force from now on.
    pub(crate) fn keep(&mut self, config: Option<&JwtConfig>, tokens: Option<&Arc<Tokens>>) {
        self.in_force = config.cloned().zip(tokens.map(Arc::clone));
    }
}
