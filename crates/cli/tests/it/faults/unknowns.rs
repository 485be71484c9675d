//! Unknown outcomes that policy lets a retry settle (E7): kill -9 again and again at every step under `retry` and `probe`,
//! and a gateway that is paused for longer than its lease while another one takes its record over.

mod probe;
mod retry;

use std::time::Duration;

use oncekey_testkit::Answer;

use super::history::{History, Tally};
use super::site::{Plan, Records, Site};

const KEY: &str = "unknown";

/// Between two requests of a client that was told to come back.
const COME_BACK: Duration = Duration::from_millis(20);

/// A key that is asked for again and again while one gateway after the other dies.
struct Loop {
    site: Site,
    history: History,
    /// Header fields for the upstream, with every request.
    script: &'static [(&'static str, &'static str)],
}

impl Loop {
    fn new(site: Site, executions: u32) -> Self {
        Self { site, history: History::allowing(executions), script: &[] }
    }

    /// Starts a gateway that is killed at each of these places in turn, and asks it until it is. A place that isn't reached,
    /// since the outcome is known by then, ends the loop.
    async fn kills(&self, plan: &Plan, places: &[&str]) {
        for place in places {
            let mut gateway = plan.clone().fault(&format!("{place}=kill")).start().await;
            let end = self.ask_until(gateway.front, |answer| answer.is_none_or(is_final)).await;
            if end.is_some() {
                gateway.process.kill9().await.expect("it lives until it is killed");
                return;
            }
            gateway.killed().await;
        }
    }

    /// Asks a gateway without faults until the outcome is final, and judges it all.
    async fn end(&self, plan: &Plan) -> (Result<Tally, String>, Records) {
        let gateway = plan.start().await;
        self.ask_until(gateway.front, |answer| answer.is_some_and(is_final)).await;
        let records = gateway.records().await;
        (self.history.check(&self.site.upstream, &records), records)
    }

    async fn ask_until(&self, front: std::net::SocketAddr, done: impl Fn(Option<&Answer>) -> bool) -> Option<Answer> {
        let asked = async {
            loop {
                let answer = self.history.send(front, KEY, self.script).await;
                if done(answer.as_ref()) {
                    return answer;
                }
                tokio::time::sleep(COME_BACK).await;
            }
        };
        tokio::time::timeout(oncekey_testkit::PATIENCE, asked).await.expect("it comes to an end")
    }
}

/// Whether nothing more comes of asking again: a replay, or an unknown outcome that is held.
fn is_final(answer: &Answer) -> bool {
    let held = answer.problem() == Some("outcome-unknown") && answer.header("retry-after").is_none();
    answer.is_replay() || held
}
