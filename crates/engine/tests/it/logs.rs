//! No log line at any level holds a key or a scope (P2).

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use oncekey_engine::Settings;
use oncekey_store::{Resolution, Store};
use oncekey_store_test::{Fault, Op, samples};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use crate::upstream::{Run, Upstream};
use crate::world::{World, spawn};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

const KEY: &str = "key-that-no-line-may-hold";
const SCOPE: &str = "scope-that-no-line-may-hold";

#[tokio::test(start_paused = true)]
async fn no_log_line_holds_a_key_or_a_scope() {
    let lines = Lines::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(lines.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (world, upstream) = (World::new(), Upstream::new());
    let engine = world.node_with(Settings { record_retry: Duration::from_secs(1), ..Settings::default() }).await;
    let call = |part: &str| {
        let mut call = upstream.call(&format!("{KEY}-{part}"));
        call.identity = samples::identity(SCOPE, &format!("{KEY}-{part}"));
        call
    };
    for fault in [Fault::NotApplied, Fault::ReplyLost, Fault::Corrupt] {
        world.store.fail_next(Op::Claim, fault.clone());
        engine.run(call(&format!("claim-{fault:?}"))).await;
        world.store.fail_next(Op::Record, fault.clone());
        engine.run(call(&format!("record-{fault:?}"))).await;
    }
    for (run, part) in [(Run::Lose, "lost"), (Run::Refuse, "refused")] {
        upstream.next(run);
        engine.run(call(part)).await;
    }
    let gate = upstream.held(Run::Lose);
    let fenced = spawn(&engine, call("fenced"));
    gate.reached().await;
    world.clock.advance(Duration::from_secs(631));
    let verdict = Resolution::Completed { response: samples::response("theirs"), token: samples::token() };
    world.store.resolve(call("fenced").identity.id(), verdict).await.expect("resolved");
    gate.open();
    fenced.await.expect("it ends");
    engine.shutdown(Duration::ZERO).await;

    let lines = String::from_utf8_lossy(&lines.0.lock()).into_owned();
    assert!(lines.contains(&call("lost").identity.id().to_string()), "records are named by their operation ids");
    assert!(!lines.contains(KEY) && !lines.contains(SCOPE), "{lines}");
}
