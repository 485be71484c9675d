//! `on_unknown = "probe"` before an upstream that executes whatever it is sent, and tells what took effect.

use futures_util::future::join_all;

use super::{KEY, Loop};
use crate::faults::history::{SCOPE, Tally, assert_caught};
use crate::faults::site::{Plan, Site};

/// Longer than any test takes.
const NEVER: &str = "1h";

/// Soon, and no sooner than a lease has passed.
const SOON: &str = "1500ms";

fn plan(site: &Site, settle: &str) -> Plan {
    site.gateway()
        .set("on_unknown", "probe")
        .set("probe_url", &format!("{}/effects/{{scope}}/{{key}}", site.upstream.url()))
        .set("probe_settle", settle)
}

/// Where one gateway after the other dies, and how often the operation is then executed.
const KILLS: [(&[&str], u32); 6] = [
    // It took effect: each retry asks, and nothing is executed again.
    (&["before_record", "before_probe", "after_probe", "before_reply"], 1),
    // Nothing was sent: once that has settled it is executed.
    (&["after_claim", "before_probe", "after_probe"], 1),
    (&["after_check@2", "before_probe", "before_record", "after_probe"], 1),
    (&["before_send@2", "after_claim", "after_check@2"], 1),
    (&["before_claim", "before_record", "before_reply"], 1),
    (&["before_reply"], 1),
];

#[tokio::test]
async fn whatever_kills_it_the_operation_completes_and_is_executed_once() {
    let stories = KILLS.map(|(places, executions)| async move {
        let story = Loop::new(Site::new().await, 1);
        let plan = plan(&story.site, SOON);
        story.kills(&plan, places).await;
        let tally = story.end(&plan).await.0.and_then(Tally::all_completed);
        let tally = tally.unwrap_or_else(|why| panic!("{places:?}: {why}"));
        eprintln!("killed at {places:?} under probe: {tally}, asked {} times", story.site.upstream.asked());
        assert_eq!((tally.executions, story.site.upstream.effects(SCOPE, KEY)), (executions, 1), "{places:?}");
    });
    join_all(stories).await;
}

/// The gateway dies while the upstream works, which goes on to take effect. A successor is asked before that, and after.
async fn asked_while_the_upstream_works(broken: &str) -> Result<Tally, String> {
    let story = Loop { script: &[("x-test-effect-gate", "work")], ..Loop::new(Site::new().await, 1) };
    let upstream = &story.site.upstream;
    let plan = plan(&story.site, NEVER);
    let mut victim = plan.start().await;
    tokio::join!(story.history.send(victim.front, KEY, story.script), async {
        upstream.received(1).await;
        victim.process.kill9().await.expect("it lives until it is killed");
    });

    let successor = plan.clone().breaking(broken).start().await;
    let early = async {
        for _ in 0..3 {
            let told = story.history.send(successor.front, KEY, story.script).await.expect("an answer");
            if !broken.is_empty() {
                continue;
            }
            assert_eq!((told.problem(), told.header("retry-after")), (Some("outcome-unknown"), Some("2")), "{told:?}");
        }
    };
    let opened = async {
        if broken.is_empty() {
            return;
        }
        upstream.received(2).await; // it was executed again before the first took effect
        upstream.open("work");
    };
    tokio::join!(early, opened);
    upstream.open("work");
    upstream.took_effect(1).await;
    let (judged, records) = story.end(&plan).await;
    assert_eq!(records.state(KEY), "completed");
    judged
}

#[tokio::test]
async fn an_early_404_executes_nothing_and_the_outcome_that_comes_is_replayed() {
    let tally = asked_while_the_upstream_works("").await.expect("nothing is wrong");
    eprintln!("asked while the upstream works: {tally}");
    assert_eq!((tally.executions, tally.completed, tally.called_unknown), (1, 1, 3), "{tally:?}");
}

#[tokio::test]
async fn control_a_gateway_that_believes_an_early_404_is_caught() {
    assert_caught(asked_while_the_upstream_works("probe_early").await, "took effect 2 times");
}

#[tokio::test]
async fn a_gateway_that_died_before_it_sent_is_not_executed_for_before_that_has_settled() {
    let story = Loop::new(Site::new().await, 1);
    let patient = plan(&story.site, NEVER);
    story.kills(&patient, &["after_check@2"]).await;
    let gateway = patient.start().await;
    for _ in 0..3 {
        let told = story.history.send(gateway.front, KEY, &[]).await.expect("an answer");
        assert_eq!(told.problem(), Some("outcome-unknown"));
    }
    assert_eq!((story.site.upstream.total(), story.site.upstream.asked()), (0, 2), "the first waited for the lapse");
    drop(gateway);
    let (judged, _) = story.end(&plan(&story.site, "0s")).await;
    assert_eq!(judged.expect("nothing is wrong").completed, 1);
    assert_eq!(story.site.upstream.total(), 1);
}
