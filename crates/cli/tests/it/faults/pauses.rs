//! A gateway is paused for longer than its lease (SIGSTOP) while a second one on the same store meets its claim (E4, E10).

use oncekey_testkit::Answer;

use super::history::{History, Tally, assert_caught};
use super::site::{Gateway, Site};

const KEY: &str = "paused";

/// A site, its clients, the rival of a paused gateway.
struct Stage {
    site: Site,
    history: History,
    rival: Gateway,
}

/// What the two gateways break; empty for nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Broken {
    pub(super) owner: &'static str,
    pub(super) rival: &'static str,
}

impl Stage {
    /// A stage on a file, and on it an owner that pauses itself at a place; nowhere if that is empty.
    async fn with_pause_at(place: &str, broken: Broken) -> (Self, Gateway) {
        Self::at(Site::new().await, place, broken).await
    }

    /// The same at a site.
    async fn at(site: Site, place: &str, broken: Broken) -> (Self, Gateway) {
        let mut owner = site.gateway().breaking(broken.owner);
        if !place.is_empty() {
            owner = owner.fault(&format!("{place}=stop"));
        }
        let owner = owner.start().await;
        let rival = site.gateway().breaking(broken.rival).start().await;
        (Self { site, history: History::default(), rival }, owner)
    }

    /// Sends the request to the owner; while that is paused, does `meanwhile`; then lets the owner go on, which answers.
    async fn while_paused(&self, owner: &mut Gateway, meanwhile: impl Future<Output = ()>) -> Answer {
        let front = owner.front;
        let paused = async {
            owner.stopped().await;
            meanwhile.await;
            owner.process.cont().expect("the owner is only paused");
        };
        let (answer, ()) = tokio::join!(self.history.send(front, KEY, &[]), paused);
        answer.expect("the owner answers in the end")
    }

    async fn retry_on_rival(&self, code: Option<&str>) {
        let answer = self.history.send(self.rival.front, KEY, &[]).await.expect("the rival answers");
        if let Some(code) = code {
            assert_eq!(answer.problem(), Some(code), "{answer:?}");
        }
    }

    /// Everybody retries until the answer is final; then the verdict, by the records as each of the two shows them.
    async fn end(self, owner: &Gateway) -> Result<Tally, String> {
        for gateway in [owner, &self.rival, owner, &self.rival] {
            self.history.send(gateway.front, KEY, &[]).await;
        }
        self.history.check(&self.site.upstream, &self.rival.records().await)?;
        self.history.check(&self.site.upstream, &owner.records().await)
    }

    fn executions(&self) -> u32 {
        self.site.upstream.total()
    }
}

/// Paused before it sends; meanwhile its claim lapses, and that is written down.
async fn written_off_before_sending(place: &str, broken: Broken) -> (u32, Answer, Result<Tally, String>) {
    let (stage, mut owner) = Stage::with_pause_at(place, broken).await;
    let answer = stage.while_paused(&mut owner, async {
        stage.retry_on_rival(Some("outcome-unknown")).await;
        stage.rival.sweep().await;
    });
    let answer = answer.await;
    (stage.executions(), answer, stage.end(&owner).await)
}

#[tokio::test]
async fn a_gateway_that_wakes_after_its_claim_was_written_off_sends_nothing() {
    // Before it connects, and right before the first byte.
    for place in ["before_send", "before_send@2"] {
        let (sent, answer, judged) = written_off_before_sending(place, Broken::default()).await;
        assert_eq!((sent, answer.problem()), (0, Some("upstream-unreachable")), "{place}");
        let tally = judged.expect("nothing is wrong");
        // Known not to have run, so a retry executed it.
        assert_eq!((tally.executions, tally.completed), (1, 1), "{place}");
        eprintln!("paused at {place}, written off: {tally}");
    }
}

#[tokio::test]
async fn control_a_gateway_that_sends_after_its_claim_was_written_off_is_caught() {
    let broken = Broken { owner: "send_after_lease", ..Broken::default() };
    let (sent, _, _) = written_off_before_sending("before_send@2", broken).await;
    assert_eq!(sent, 1, "a gateway that breaks the rule passes");
}

/// Paused before it sends; meanwhile an operator says that nothing ran, and the rival executes.
async fn executed_elsewhere_before_sending(broken: Broken) -> Result<Tally, String> {
    let (stage, mut owner) = Stage::with_pause_at("before_send@2", broken).await;
    let woken = stage.while_paused(&mut owner, async {
        stage.retry_on_rival(Some("outcome-unknown")).await;
        stage.rival.resolve_failed(KEY).await;
        stage.retry_on_rival(None).await;
        assert_eq!(stage.executions(), 1);
    });
    woken.await;
    stage.end(&owner).await
}

#[tokio::test]
async fn a_gateway_that_wakes_after_another_one_executed_sends_nothing() {
    let tally = executed_elsewhere_before_sending(Broken::default()).await.expect("nothing is wrong");
    eprintln!("paused before sending, executed elsewhere: {tally}");
    assert_eq!((tally.executions, tally.completed), (1, 1));
}

#[tokio::test]
async fn control_a_gateway_that_sends_after_another_one_executed_is_caught() {
    let broken = Broken { owner: "send_after_lease", ..Broken::default() };
    assert_caught(executed_elsewhere_before_sending(broken).await, "executed 2 times");
}

/// Paused at a place; meanwhile the rival is asked for the same, and doesn't know.
async fn called_unknown_meanwhile(place: &str, broken: Broken) -> Result<Tally, String> {
    called_unknown_at(Site::new().await, place, broken).await
}

/// The same at a site.
pub(super) async fn called_unknown_at(site: Site, place: &str, broken: Broken) -> Result<Tally, String> {
    let (stage, mut owner) = Stage::at(site, place, broken).await;
    let answer = stage.while_paused(&mut owner, async {
        let expected = broken.rival.is_empty().then_some("outcome-unknown");
        stage.retry_on_rival(expected).await;
    });
    let answer = answer.await;
    assert_eq!(answer.status, 201, "{answer:?}");
    stage.end(&owner).await
}

#[tokio::test]
async fn a_late_outcome_of_a_lapsed_claim_counts_and_is_replayed_everywhere() {
    // Its token still stands; the check passed and the first byte was next; the upstream has answered.
    for place in ["before_send@2", "after_check@2", "before_record"] {
        let tally = called_unknown_meanwhile(place, Broken::default()).await.expect("nothing is wrong");
        eprintln!("paused at {place}, called unknown by a rival: {tally}");
        assert_eq!((tally.executions, tally.completed, tally.called_unknown), (1, 1, 1), "{place}");
    }
}

#[tokio::test]
async fn control_a_rival_that_executes_a_lapsed_claim_is_caught_at_each_place() {
    let broken = Broken { rival: "execute_lapsed", ..Broken::default() };
    for place in ["after_check@2", "before_record"] {
        assert_caught(called_unknown_meanwhile(place, broken).await, "executed 2 times");
    }
}

/// Paused while the upstream works, which answers before the gateway goes on.
async fn paused_after_sending(broken: Broken) -> Result<Tally, String> {
    let (stage, mut owner) = Stage::with_pause_at("", broken).await;
    let front = owner.front;
    let paused = async {
        stage.site.upstream.arrived(1).await;
        owner.process.stop().expect("the owner lives");
        stage.retry_on_rival(broken.rival.is_empty().then_some("outcome-unknown")).await;
        stage.site.upstream.open("slow");
        owner.process.cont().expect("the owner is only paused");
    };
    let (answer, ()) = tokio::join!(stage.history.send(front, KEY, &[("x-test-gate", "slow")]), paused);
    assert_eq!(answer.map(|answer| answer.status.as_u16()), Some(201));
    stage.end(&owner).await
}

#[tokio::test]
async fn an_answer_that_came_while_its_gateway_was_paused_is_recorded_and_replayed_everywhere() {
    let tally = paused_after_sending(Broken::default()).await.expect("nothing is wrong");
    eprintln!("paused while the upstream works: {tally}");
    assert_eq!((tally.executions, tally.completed, tally.called_unknown), (1, 1, 1));
}

#[tokio::test]
async fn control_a_rival_that_executes_what_a_paused_gateway_has_sent_is_caught() {
    let broken = Broken { rival: "execute_lapsed", ..Broken::default() };
    assert_caught(paused_after_sending(broken).await, "executed 2 times");
}
