//! What the clients of a scenario were answered, and the judge over it: clients, upstream and records must tell one story.

mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use http::{HeaderMap, StatusCode};
use oncekey_testkit::{Answer, Call, Client, CountingUpstream, Http2Client, RawAnswer};
use parking_lot::Mutex;

use super::site::{RecordRow, Records};

/// The scope of every request here.
pub(super) const SCOPE: &str = "acc-1";

/// The body of every request here: a retry is the same operation.
pub(super) const BODY: &str = r#"{"amount":1200}"#;

/// All that the clients of one scenario saw, in the order in which they saw it.
#[derive(Default)]
pub(super) struct History {
    seen: Mutex<BTreeMap<String, Vec<Seen>>>,
    /// How often a key may be executed beyond once, where policy says so.
    again: u32,
}

/// How often the upstream executed a key, and with how many effects.
#[derive(Clone, Copy, Debug)]
struct Ran {
    executions: u32,
    effects: u32,
    /// How many executions there may be; there may never be more than one effect.
    most: u32,
}

/// What a client saw: an answer, or the end of its connection without one.
type Seen = Option<Answer>;

/// The request for a key; `script` are header fields for the upstream, which are no part of the operation.
pub(super) fn request(key: &str, script: &[(&str, &str)]) -> Call {
    let call = Call::post("/orders").scope(SCOPE).key(key).json(BODY);
    script.iter().fold(call, |call, (name, value)| call.header(name, value))
}

impl History {
    /// A history in which a key may be executed this often.
    pub(super) fn allowing(executions: u32) -> Self {
        Self { again: executions - 1, ..Self::default() }
    }

    /// Sends the request for a key on a connection of its own, and notes what comes of it.
    pub(super) async fn send(&self, to: SocketAddr, key: &str, script: &[(&str, &str)]) -> Option<Answer> {
        self.send_on(&Client::new(to), key, script).await
    }

    /// Sends the request for a key on a client's connection, and notes what comes of it.
    pub(super) async fn send_on(&self, client: &Client, key: &str, script: &[(&str, &str)]) -> Option<Answer> {
        let answer = client.call(&request(key, script)).await.ok();
        self.note(key, answer.clone());
        answer
    }

    /// Sends the request for a key as a stream of a client's connection, and notes what comes of it.
    pub(super) async fn send_on_stream(
        &self,
        client: &Http2Client,
        key: &str,
        script: &[(&str, &str)],
    ) -> Option<Answer> {
        let answer = client.call(&request(key, script)).await.ok();
        self.note(key, answer.clone());
        answer
    }

    /// Notes an answer that was read byte by byte.
    pub(super) fn saw(&self, key: &str, answer: &RawAnswer) {
        let mut headers = HeaderMap::new();
        for (name, value) in &answer.headers {
            let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a field name");
            headers.append(name, value.parse().expect("a field value"));
        }
        let status = StatusCode::from_u16(answer.status).expect("a status");
        let body = answer.body.clone().into();
        self.note(key, Some(Answer { status, headers, body, trailers: HeaderMap::new() }));
    }

    /// Notes that a client left without an answer.
    pub(super) fn left(&self, key: &str) {
        self.note(key, None);
    }

    fn note(&self, key: &str, seen: Seen) {
        self.seen.lock().entry(key.to_owned()).or_default().push(seen);
    }

    /// Judges all keys. The scenario must be over: each key was retried until its answer was final.
    pub(super) fn check(&self, upstream: &CountingUpstream, records: &Records) -> Result<Tally, String> {
        let seen = self.seen.lock();
        let strangers: Vec<_> = upstream.arrivals().iter().map(|arrival| arrival.key.clone()).collect();
        if let Some(stranger) = strangers.iter().find(|key| !seen.contains_key(*key)) {
            return Err(format!("the upstream executed {stranger:?}, which nobody asked for"));
        }
        let mut tally = Tally { keys: seen.len(), executions: upstream.total(), ..Tally::default() };
        for (key, seen) in &*seen {
            let (executions, effects) = (upstream.executions(SCOPE, key), upstream.effects(SCOPE, key));
            let ran = Ran { executions, effects, most: self.again + 1 };
            let record = records.0.get(key).ok_or_else(|| format!("{key}: no record"))?;
            judge(seen, ran, record, &mut tally).map_err(|why| format!("{key}: {why}"))?;
        }
        Ok(tally)
    }
}

/// Judges one key.
fn judge(seen: &[Seen], ran: Ran, record: &RecordRow, tally: &mut Tally) -> Result<(), String> {
    if ran.effects > 1 {
        return Err(format!("took effect {} times, executed {} times", ran.effects, ran.executions));
    }
    if ran.executions > ran.most {
        return Err(format!("executed {} times", ran.executions));
    }
    let mut first: Option<Lasting> = None;
    let mut firsts = 0;
    for seen in seen {
        let Some(answer) = seen else {
            tally.unanswered += 1;
            continue;
        };
        if let Some(problem) = answer.problem() {
            if let ("outcome-unknown", Some(_)) = (problem, &first) {
                return Err("the answer was given, and then called unknown".to_owned());
            }
            tally.problem(problem)?;
            continue;
        }
        if answer.status != StatusCode::CREATED {
            return Err(format!("an answer that the upstream never gave: {answer:?}"));
        }
        firsts += u32::from(!answer.is_replay());
        tally.replays += usize::from(answer.is_replay());
        let lasting = Lasting::of(answer);
        if first.get_or_insert_with(|| lasting.clone()) != &lasting {
            return Err(format!("the answer changed: first {first:?}, then {lasting:?}"));
        }
    }
    if firsts > 1 {
        return Err(format!("{firsts} answers claim to be the first"));
    }
    judge_end(seen.last(), ran.executions, record, first.is_some())?;
    tally.end(&record.state)
}

/// Judges the record against the last answer.
fn judge_end(last: Option<&Seen>, executions: u32, record: &RecordRow, answered: bool) -> Result<(), String> {
    let Some(Some(last)) = last else { return Err("its last retry was not answered".to_owned()) };
    let tells = match (record.state.as_str(), last.problem()) {
        ("completed", None) => executions >= 1 && last.is_replay() && record.response_status == Some(201),
        ("unknown", Some("outcome-unknown")) => !answered,
        ("failed", Some("upstream-unreachable")) => executions == 0 && !answered,
        _ => false,
    };
    if tells {
        return Ok(());
    }
    Err(format!("{record:?} after {executions} executions, answered: {answered}, and the last answer was {last:?}"))
}

/// What must be the same in a first answer and all its replays (R1): everything but what R2 adds and R3 leaves out.
#[derive(Clone, Debug, PartialEq)]
struct Lasting {
    fields: BTreeSet<(String, Vec<u8>)>,
    body: bytes::Bytes,
}

impl Lasting {
    fn of(answer: &Answer) -> Self {
        let passing = ["date", "idempotent-replayed", "connection"];
        let fields = answer.headers.iter().filter(|(name, _)| !passing.contains(&name.as_str()));
        let fields = fields.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        Self { fields: fields.collect(), body: answer.body.clone() }
    }
}

/// The sums over scenarios that were found right.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) keys: usize,
    pub(super) executions: u32,
    pub(super) completed: usize,
    pub(super) failed: usize,
    pub(super) unknown: usize,
    pub(super) replays: usize,
    pub(super) in_progress: usize,
    pub(super) called_unknown: usize,
    pub(super) unavailable: usize,
    pub(super) not_executed: usize,
    pub(super) unanswered: usize,
}

impl Tally {
    fn problem(&mut self, code: &str) -> Result<(), String> {
        match code {
            "in-progress" => self.in_progress += 1,
            "outcome-unknown" => self.called_unknown += 1,
            "store-unavailable" => self.unavailable += 1,
            "upstream-unreachable" => self.not_executed += 1,
            other => return Err(format!("a problem that nothing here calls for: {other}")),
        }
        Ok(())
    }

    fn end(&mut self, state: &str) -> Result<(), String> {
        match state {
            "completed" => self.completed += 1,
            "failed" => self.failed += 1,
            "unknown" => self.unknown += 1,
            other => return Err(format!("it ended {other}")),
        }
        Ok(())
    }

    /// For scenarios in which nothing may be left unknown.
    pub(super) fn all_completed(self) -> Result<Self, String> {
        if self.completed == self.keys { Ok(self) } else { Err(format!("some did not complete: {self}")) }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.keys += other.keys;
        self.executions += other.executions;
        self.completed += other.completed;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.replays += other.replays;
        self.in_progress += other.in_progress;
        self.called_unknown += other.called_unknown;
        self.unavailable += other.unavailable;
        self.not_executed += other.not_executed;
        self.unanswered += other.unanswered;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, executions, completed, failed, unknown, replays, unanswered, .. } = self;
        write!(
            f,
            "{keys} keys, {executions} executions: {completed} completed, {failed} failed, {unknown} unknown; \
             {replays} replays, {unanswered} requests without an answer"
        )
    }
}

/// Asserts that a broken scenario was found guilty of what it broke.
#[track_caller]
pub(super) fn assert_caught(judged: Result<Tally, String>, of: &str) {
    match judged {
        Err(why) => assert!(why.contains(of), "caught, but of something else than `{of}`: {why}"),
        Ok(tally) => panic!("a gateway that breaks the rule passes: {tally}"),
    }
}
