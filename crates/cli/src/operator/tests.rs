//! The operator's commands on a memory store: what is printed, what is changed, how they end.

mod auditing;
mod changing;
mod looking;
mod maintaining;

use std::sync::Arc;

use oncekey_admin::resolution::Verdict;
use oncekey_core::{RecordId, State};
use oncekey_store::{Filter, MemoryStore, Outcome};
use oncekey_store_test::{Fixture, samples};
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::operator::{Change, Console};

fn desk() -> Fixture {
    Fixture::new(|clock| Arc::new(MemoryStore::new(clock)))
}

async fn ended(desk: &Fixture, scope: &str, key: &str, outcome: Outcome) -> RecordId {
    let claim = desk.claimed(scope, key).await;
    desk.store.record(claim.identity.id(), claim.token, outcome).await.unwrap();
    claim.identity.id()
}

async fn state(desk: &Fixture, id: RecordId) -> Option<State> {
    desk.store.read(id).await.unwrap().map(|found| found.record.state)
}

/// The two ends of a console, and what somebody types at it.
#[derive(Default)]
struct Session {
    out: Vec<u8>,
    talk: Vec<u8>,
    typed: Option<&'static [u8]>,
    json: bool,
}

impl Session {
    fn json() -> Self {
        Self { json: true, ..Self::default() }
    }

    fn typing(answer: &'static str) -> Self {
        Self { typed: Some(answer.as_bytes()), ..Self::default() }
    }

    fn console(&mut self) -> Console<'_> {
        let answers = self.typed.as_mut().map(|typed| typed as &mut dyn std::io::BufRead);
        Console { out: &mut self.out, talk: &mut self.talk, answers, json: self.json }
    }

    fn out(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    fn talk(&self) -> &str {
        std::str::from_utf8(&self.talk).unwrap()
    }

    fn value(&self) -> Value {
        serde_json::from_slice(&self.out).expect("stdout is JSON")
    }
}

fn ends(result: Result<(), Failure>) -> Exit {
    result.map_or_else(|failure| failure.exit(), |()| Exit::Fine)
}

fn failed() -> Verdict {
    Verdict { response: None }
}

fn asking() -> Change {
    Change { dry_run: false, yes: false, operator: samples::operator("call-1") }
}

fn yes() -> Change {
    Change { yes: true, ..asking() }
}

fn dry_run() -> Change {
    Change { dry_run: true, ..asking() }
}

fn of_scope(scope: &str) -> Filter {
    Filter { scope: Some(scope.to_owned()), ..Filter::default() }
}
