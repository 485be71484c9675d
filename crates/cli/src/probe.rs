//! Asking the upstream about unknown outcomes, over HTTP (E7, `probe`).
//!
//! Owns one kind of request: a GET of what `probe_url` makes of an operation, with the fields of `probe_headers` and no
//! others, and what its answer means. It follows no redirect, keeps no cookies, takes no proxy from the environment, decodes
//! nothing, and is bounded in time and in bytes. When it is asked, and what becomes of its answer, is the engine's matter.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use oncekey_core::Identity;
use oncekey_core::policy::Policy;
use oncekey_core::response::{RecordedBody, RecordedResponse, strip_own};
use oncekey_engine::{Probe, Probed, fault};
use reqwest::{Client, Response, redirect, retry};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::config::{GuardedRoute, ProbeConfig};
use crate::settings::ProbeUrl;
use crate::tls;

/// How long one question may take, to the last byte of its answer. Whoever asks waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Questions of a route at a time. An answer is in memory until it is recorded, so that these times `max_response` is what a
/// route's probes take at most; further ones wait for their turn within [`PATIENCE`].
const AT_A_TIME: usize = 16;

/// The probe of a route that has one. An error is a sentence about what can't be set up.
pub(crate) fn of_route(guarded: &GuardedRoute) -> Result<Option<Probe>, String> {
    let Some(ProbeConfig { url, fields, .. }) = &guarded.probe else { return Ok(None) };
    let policy = Arc::clone(&guarded.route.policy);
    let asker = Asker {
        client: client(url, policy.timing.connect_timeout)?,
        url: url.clone(),
        fields: fields.clone(),
        key_header: guarded.route.guard.key_header.clone(),
        policy,
        turns: Semaphore::new(AT_A_TIME),
    };
    let asker = Arc::new(asker);
    Ok(Some(Probe::new(move |identity| {
        let asker = Arc::clone(&asker);
        Box::pin(async move {
            match timeout(PATIENCE, asker.turns.acquire()).await {
                Ok(Ok(_turn)) => asker.ask(&identity).await,
                Ok(Err(_)) | Err(_) => Probed::Unclear("too much is being asked already".to_owned()),
            }
        })
    })))
}

fn client(url: &ProbeUrl, connect_timeout: Duration) -> Result<Client, String> {
    let failed = |error: &dyn std::error::Error| format!("probe_url: no client for {url} can be set up: {error}");
    let tls = tls::client_config(url.is_secure()).map_err(|error| failed(&error))?;
    Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .no_proxy()
        .referer(false)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .pool_max_idle_per_host(0) // one question now and then: a kept connection would only be found closed
        .connect_timeout(connect_timeout.min(PATIENCE))
        .timeout(PATIENCE)
        .build()
        .map_err(|error| failed(&error))
}

/// What asks for one route.
struct Asker {
    client: Client,
    url: ProbeUrl,
    fields: HeaderMap,
    key_header: HeaderName,
    policy: Arc<Policy>,
    turns: Semaphore,
}

impl Asker {
    async fn ask(&self, identity: &Identity) -> Probed {
        let Some(url) = self.url.about(identity) else {
            return Probed::Unclear(
                "a URL can't name this operation: a value would be taken for a path's `..`".to_owned(),
            );
        };
        let request = self.client.get(url).headers(self.fields.clone());
        let request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        match request.send().await {
            Ok(answer) if answer.status().is_success() => self.outcome(answer).await,
            Ok(answer) if answer.status() == StatusCode::NOT_FOUND => Probed::Absent,
            Ok(answer) => Probed::Unclear(format!("it was answered with {}", answer.status().as_u16())),
            Err(error) => Probed::Unclear(told(error)),
        }
    }

    /// An answer that is the outcome, once it is whole. One that is too large to be kept says all the same that nothing may
    /// run again; it is recorded without its body, as any such answer is (R5).
    async fn outcome(&self, mut answer: Response) -> Probed {
        let recording = &self.policy.recording;
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        strip_own(&mut headers, &self.key_header);
        let recorded = |body| Probed::Completed(Arc::new(RecordedResponse::of(status, &headers, body, recording)));
        if recording.stream || answer.content_length().is_some_and(|length| length > recording.max_response) {
            return recorded(RecordedBody::NotStored);
        }
        let mut body = BytesMut::new();
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) if (body.len() + chunk.len()) as u64 > recording.max_response => {
                    return recorded(RecordedBody::NotStored);
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return recorded(RecordedBody::Stored(body.freeze())),
                Err(error) => return Probed::Unclear(format!("its answer was cut short: {}", told(error))),
            }
        }
    }
}

/// An error for the log: without the URL, which holds a key (P2).
fn told(error: reqwest::Error) -> String {
    let error = if fault::broken("log_urls") { error } else { error.without_url() };
    let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
