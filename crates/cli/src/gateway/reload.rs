//! SIGHUP: the configuration read again while the gateway runs.
//!
//! A reload is whole or not at all: what is wrong with it is said in the log, and the configuration before stays. A request is
//! answered by the configuration that was there when it began, an operation executes under it to its end. Which settings need
//! a restart is the matter of [`crate::settings`].

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use oncekey_admin::{Access, publish_reload};
use oncekey_engine::Engine;
use oncekey_tower::ResponseBody;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::assembly::{Assembly, Service};
use super::classes::Promises;
use crate::exit::Failure;
use crate::front::Current;
use crate::jwt::Verifier;
use crate::settings::{Loaded, Refused, Reloaded, Sources, reload};
use crate::tls::Tls;

/// How long other keys of tokens may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a reload reads, and what it replaces.
pub(super) struct Reload {
    /// Where settings come from; `None`: nowhere, and there is nothing to reload.
    pub(super) sources: Option<Sources>,
    /// The configuration that is in force.
    pub(super) running: Loaded,
    pub(super) assembly: Assembly,
    pub(super) verifier: Verifier,
    pub(super) engine: Engine<Response<ResponseBody>>,
    pub(super) promises: Arc<Promises>,
    /// Who may ask the admin listener, and whether that is on a loopback address.
    pub(super) access: watch::Sender<Access>,
    pub(super) loopback: bool,
    /// What TLS runs on, and what its files are looked at for.
    pub(super) tls: watch::Sender<Tls>,
    pub(super) current: Current<Service>,
}

impl Reload {
    /// Reads everything again, and lets it count if it is right.
    pub(super) async fn run(&mut self) {
        let Some(sources) = self.sources.clone() else { return };
        let outcome = self.try_run(sources).await;
        publish_reload(outcome.is_ok());
        match outcome {
            Ok(()) => tracing::info!("the configuration was reloaded"),
            Err(refused) => {
                for line in refused.to_string().lines() {
                    tracing::error!("{line}");
                }
                tracing::error!("the configuration was not reloaded; the one before stays in force");
            }
        }
    }

    /// Prepares everything first, and puts it in place when nothing can fail any more. What else is to be read again by the same
    /// signal (certificates, secrets, key sets that the configuration names) is prepared here too.
    async fn try_run(&mut self, sources: Sources) -> Result<(), Failure> {
        let running = self.running.clone();
        let read = spawn_blocking(move || {
            let mut reloaded = reload(&sources, &running)?;
            reloaded.loaded.read_probe_fields(&sources.environment)?;
            let tokens = reloaded.loaded.admin_tokens(&sources.environment)?;
            let tls = reloaded.loaded.tls().map_err(|unusable| unusable.refused)?;
            Ok::<_, Refused>((reloaded, tokens, tls))
        });
        let read = read.await.map_err(Failure::failed)?;
        let (Reloaded { loaded, kept }, admin_tokens, (tls, doubts)) = read.map_err(Failure::usage)?;
        let access = super::access(admin_tokens, self.loopback)?;
        let tokens = self.verifier.prepare(loaded.config.jwt.as_ref(), PATIENCE).await?;
        let serving = self.assembly.serving(&loaded.config, tokens.as_ref(), &tls)?;
        self.promises.reroute(&loaded.config.routes)?;

        self.engine.adjust(&super::settings(&loaded.config));
        self.access.send_replace(access);
        self.verifier.keep(loaded.config.jwt.as_ref(), tokens.as_ref());
        self.current.replace(serving);
        self.tls.send_modify(|running| running.take_over(tls));
        for warning in loaded.warnings.iter().chain(&doubts) {
            tracing::warn!("{warning}");
        }
        if !kept.is_empty() {
            tracing::warn!(
                settings = kept.join(", "),
                "changed settings that need a restart keep their values until then"
            );
        }
        self.running = loaded;
        Ok(())
    }
}
