//! `oncekey check`: whether `serve` would run here and now, as a list of what was looked at.
//!
//! Owns what is looked at and what the whole means. Each look is that of `serve` itself, without what `serve` changes: no schema is
//! made, no heartbeat written, no request sent. What `check-config` says without looking at anything but files stays its own.

mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oncekey_admin::Tokens;
use oncekey_store::SystemClock;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::drain::Drain;
use crate::exit::{Exit, Failure};
use crate::gateway;
use crate::jwt::Verifier;
use crate::operator::Console;
use crate::operator::screen::{table, visible};
use crate::settings::{Loaded, Refused, Sources, load};
use crate::tls::Tls;

/// How long whoever publishes a key set may take to give it, if it is not there at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mark {
    Ok,
    /// `serve` would run, and its operator should know.
    Warning,
    Failed,
}

/// One line of the list.
#[derive(Debug, Serialize)]
struct Line {
    check: &'static str,
    result: Mark,
    /// What was found.
    found: String,
    /// What to do about it.
    hint: Option<&'static str>,
    #[serde(skip)]
    exit: Option<Exit>,
}

/// The list.
#[derive(Debug, Default, Serialize)]
struct List {
    checks: Vec<Line>,
}

impl List {
    fn ok(&mut self, check: &'static str, found: impl fmt::Display) {
        self.add(check, Mark::Ok, found, None, None);
    }

    fn warn(&mut self, check: &'static str, found: impl fmt::Display, hint: Option<&'static str>) {
        self.add(check, Mark::Warning, found, hint, None);
    }

    fn fail(&mut self, check: &'static str, exit: Exit, found: impl fmt::Display, hint: &'static str) {
        self.add(check, Mark::Failed, found, Some(hint), Some(exit));
    }

    fn add(
        &mut self,
        check: &'static str,
        result: Mark,
        found: impl fmt::Display,
        hint: Option<&'static str>,
        exit: Option<Exit>,
    ) {
        self.checks.push(Line { check, result, found: found.to_string(), hint, exit });
    }

    /// What the program ends with: what needs a hand before what may come back by itself.
    fn exit(&self) -> Option<Exit> {
        let has = |exit| self.checks.iter().any(|line| line.exit == Some(exit));
        [Exit::Usage, Exit::Unavailable, Exit::Failed].into_iter().find(|exit| has(*exit))
    }
}

/// Looks at everything that `serve` needs, prints the list on stdout, and fails if one of it would keep `serve` from running or from
/// working. Bounded by the timeouts of what is asked; changes nothing, and may be repeated beside a running gateway.
pub(crate) async fn run(sources: &Sources, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut list = List::default();
    match load(sources) {
        Ok(loaded) => look(loaded, sources, &mut list).await,
        Err(refused) => {
            for remark in refused.0 {
                list.fail("configuration", Exit::Usage, remark, "correct the setting");
            }
        }
    }
    if console.json {
        console.print_json(&list)?;
    } else {
        console.print(&rows(&list))?;
    }
    let failed = list.checks.iter().filter(|line| line.exit.is_some()).count();
    let told = format!("{failed} of {} checks failed", list.checks.len());
    match list.exit() {
        None => Ok(()),
        Some(Exit::Usage) => Err(Failure::usage(told)),
        Some(Exit::Unavailable) => Err(Failure::unavailable(told)),
        Some(_) => Err(Failure::failed(told)),
    }
}

async fn look(mut loaded: Loaded, sources: &Sources, list: &mut List) {
    let routes = loaded.config.routes.len();
    list.ok("configuration", format_args!("it is right; {routes} route(s)"));
    for warning in &loaded.warnings {
        list.warn("configuration", warning, None);
    }
    secrets(&mut loaded, sources, list);
    let tls = files(&loaded, list);
    store::look(&loaded.config, list).await;
    if let Some(tls) = tls {
        upstream(&loaded, &tls, list).await;
    }
    keys(&loaded, list).await;
}

fn refusals(list: &mut List, check: &'static str, refused: Refused, hint: &'static str) {
    for remark in refused.0 {
        list.fail(check, Exit::Usage, remark, hint);
    }
}

/// What is kept in variables and files and never shown.
fn secrets(loaded: &mut Loaded, sources: &Sources, list: &mut List) {
    match loaded.admin_tokens(&sources.environment) {
        Ok(tokens) => access(tokens, loaded.config.admin.listen.ip().is_loopback(), list),
        Err(refused) => refusals(list, "admin token", refused, "put the secret where the setting says"),
    }
    let is_probed = loaded.config.routes.iter().any(|guarded| guarded.probe.is_some());
    match loaded.read_probe_fields(&sources.environment) {
        Ok(()) if is_probed => list.ok("probe headers", "their secrets can be read"),
        Ok(()) => {}
        Err(refused) => refusals(list, "probe headers", refused, "put the secret where probe_headers say"),
    }
}

/// Who may use the admin API.
fn access(tokens: Tokens, loopback: bool, list: &mut List) {
    let (act, read) = (tokens.act.is_some(), tokens.read.is_some());
    if let Err(failure) = gateway::access(tokens, loopback) {
        return list.fail("admin token", failure.exit(), failure, "give each of the two a secret of its own");
    }
    match (act, read) {
        (true, true) => list.ok("admin token", "both can be read"),
        (true, false) => list.ok("admin token", "it can be read"),
        (false, true) => list.ok("admin token", "it can be read, and lets nobody change anything"),
        (false, false) if loopback => list.ok("admin token", "there is none, and the listener is on this machine only"),
        (false, false) => {
            let found = "there is none: the listener serves health and metrics only";
            list.warn("admin token", found, Some("set admin.token to use the admin API from other machines"));
        }
    }
}

/// The files of TLS; `None` if they can't be used.
fn files(loaded: &Loaded, list: &mut List) -> Option<Tls> {
    match loaded.tls() {
        Ok((tls, doubts)) => {
            if tls.listener.is_some() || tls.upstream.is_some() {
                list.ok("TLS files", "they can be used");
            }
            for doubt in doubts {
                list.warn("TLS files", doubt, Some("renew what is about to lapse"));
            }
            Some(tls)
        }
        Err(unusable) => {
            refusals(list, "TLS files", unusable.refused, "correct the file, or who may read it");
            None
        }
    }
}

/// Connects as a request would, TLS included, and sends nothing.
async fn upstream(loaded: &Loaded, tls: &Tls, list: &mut List) {
    let config = &loaded.config;
    let reached = gateway::upstream(config, tls, Arc::new(SystemClock), Drain::new()).reach().await;
    let url = &config.upstream.url;
    match reached {
        Ok(()) => list.ok("upstream", format_args!("{url} takes connections")),
        Err(unreached) => {
            let hint = "start the upstream, or correct `upstream` and what its TLS trusts";
            list.fail("upstream", Exit::Unavailable, format_args!("{url}: {unreached}"), hint);
        }
    }
}

/// The key set that tokens are verified with.
async fn keys(loaded: &Loaded, list: &mut List) {
    let Some(config) = &loaded.config.jwt else { return };
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let prepared = Verifier::new(Arc::new(SystemClock), tasks, stop.clone()).prepare(Some(config), PATIENCE).await;
    stop.cancel();
    match prepared {
        Ok(_) => list.ok("jwt.jwks", format_args!("{} holds keys", config.jwks)),
        Err(failure) => list.fail("jwt.jwks", failure.exit(), &failure, "correct jwt.jwks, or see to who publishes it"),
    }
}

/// A line for each look, and the hint below it.
fn rows(list: &List) -> String {
    let mut rows = Vec::new();
    for Line { check, result, found, hint, .. } in &list.checks {
        let result = match result {
            Mark::Ok => "ok",
            Mark::Warning => "warning",
            Mark::Failed => "FAILED",
        };
        rows.push([result.to_owned(), (*check).to_owned(), visible(found)]);
        if let Some(hint) = hint {
            rows.push([String::new(), String::new(), format!("hint: {hint}")]);
        }
    }
    table(&rows)
}
