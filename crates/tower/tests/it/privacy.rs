//! What must never be in a log line, a label or a problem: bodies, credentials, whole keys (P2).

use std::io;
use std::sync::Arc;

use http::{Request, Response};
use oncekey_engine::NotExecuted;
use oncekey_store_test::{Fault, Op};
use parking_lot::Mutex;

use crate::bodies::{TestBody, full, pieces};
use crate::harness::*;

const CANARIES: [&str; 6] =
    ["KEY-CANARY", "SCOPE-CANARY", "BODY-CANARY", "TOKEN-CANARY", "ANSWER-CANARY", "COOKIE-CANARY"];

/// Everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

fn secret(key: &str) -> http::request::Builder {
    Request::post("/orders?q=BODY-CANARY")
        .header("Idempotency-Key", format!("KEY-CANARY-{key}"))
        .header("X-Account-Id", "SCOPE-CANARY")
        .header("Authorization", "Bearer TOKEN-CANARY")
        .header("Cookie", "COOKIE-CANARY")
}

fn body() -> TestBody {
    full("BODY-CANARY")
}

fn assert_clean(what: &str, text: &str) {
    for canary in CANARIES {
        assert!(!text.contains(canary), "{what} holds {canary}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_log_line_problem_or_label_holds_a_secret() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let world = Setup::governed(|policy| policy.recording.max_response = 20)
        .start(Upstream::new(|number| async move {
            let answer =
                |text: &'static str| Response::builder().header("Set-Cookie", "COOKIE-CANARY").body(full(text));
            match number {
                0 => Ok(answer("ANSWER-CANARY").unwrap()),
                1 => Err(NotExecuted::because("refused").into()),
                2 => Err("reset".into()),
                3 => Ok(Response::new(pieces([Ok("ANSWER-CANARY".into()), Err("reset")]))),
                4 => panic!("the test says so"),
                _ => Ok(answer("ANSWER-CANARY, and too long to be kept").unwrap()),
            }
        }))
        .await;
    let mut answers = Vec::new();
    for key in ["done", "done", "unsent", "reset", "cut", "panics", "long", "long"] {
        answers.push(world.send(secret(key).body(body()).unwrap()).await);
    }
    answers.push(world.send(secret("done").body(full("BODY-CANARY 2")).unwrap()).await);
    answers.push(world.send(secret("a b").body(body()).unwrap()).await);
    answers.push(world.send(secret("x").header("X-Account-Id", "SCOPE-CANARY").body(body()).unwrap()).await);
    answers.push(world.send(secret("x").body(pieces([Ok("BODY-CANARY".into()), Err("BODY-CANARY")])).unwrap()).await);
    for fault in [Fault::NotApplied, Fault::Corrupt, Fault::RequestLost, Fault::ReplyLost] {
        world.store.fail_next(Op::Claim, fault);
        answers.push(world.send(secret("store").body(body()).unwrap()).await);
    }
    world.store.fail_next(Op::Record, Fault::RequestLost);
    answers.push(world.send(secret("record").body(body()).unwrap()).await);
    let text = log.text();
    assert!(text.contains("the outcome is unknown") && text.contains("a record can't be read"), "it is logged: {text}");
    assert_clean("the log", &text);
    let problems: Vec<_> = answers.iter().filter(|answer| problem(*answer).is_some()).collect();
    assert!(problems.len() >= 9, "{}", problems.len());
    for answer in problems {
        assert_clean("a problem", std::str::from_utf8(answer.body()).unwrap());
        let mut fields = answer.headers().clone();
        fields.remove("Idempotency-Key");
        assert_clean("a problem's head", &format!("{fields:?}"));
    }
    assert_clean("a label", &format!("{:?}", world.metrics.snapshot().into_vec()));
}
