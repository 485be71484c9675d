//! Connections that are cut right before and right after a commit: what the caller is told, and what asking again finds.

use std::sync::Arc;
use std::time::Duration;

use oncekey_core::State;
use oncekey_store::{Claim, Claimed, Clock, ManualClock, Replaces, Store, StoreError};
use oncekey_store_postgres::PostgresStore;
use oncekey_store_test::{granted, samples, written};
use oncekey_testkit::{CommitCutter, CutAt};

use crate::place::{OLD, clock, migrated, open};

const CLAIM: &str = "ON CONFLICT (id) DO NOTHING";
const REPLACE: &str = "SET status = $18";
const OUTCOME: &str = "SET status = o.state";
const MARK: &str = "FROM lapsed";
const DELETE: &str = "USING expired";

const BOTH: [CutAt; 2] = [CutAt::BeforeCommit, CutAt::AfterCommit];

/// A database, a store that reaches it through the cutter, and one that reaches it directly.
struct Stage {
    cutter: CommitCutter,
    clock: Arc<ManualClock>,
    store: PostgresStore,
    rival: PostgresStore,
}

impl Stage {
    async fn new() -> Self {
        let (database, cutter, clock) = (migrated(&OLD).await, CommitCutter::start(OLD.address()).await, clock());
        let store = open(&cutter.url(&database), clock.clone()).await;
        let rival = open(&OLD.url(&database), clock.clone()).await;
        Self { cutter, clock, store, rival }
    }

    /// Does something whose next statement of this kind is cut; it must not be told as done, nor as not done.
    async fn cut<T: std::fmt::Debug>(
        &self,
        statement: &'static str,
        at: CutAt,
        call: impl Future<Output = Result<T, StoreError>>,
    ) {
        let before = self.cutter.cuts();
        self.cutter.cut_every(1, statement, at);
        let answer = call.await;
        self.cutter.heal();
        assert_eq!(self.cutter.cuts(), before + 1, "{statement} {at:?}: {answer:?}");
        assert!(matches!(answer, Err(StoreError::MayHaveBeenApplied(_))), "{statement} {at:?}: {answer:?}");
    }

    /// Whether the record under a claim's id is that claim's, as the other node sees it.
    async fn holds(&self, claim: &Claim) -> bool {
        let found = self.rival.read(claim.identity.id()).await.expect("a reading");
        found.is_some_and(|found| found.record.token == claim.token)
    }
}

fn claim(key: &str) -> Claim {
    samples::claim(&samples::identity("acc-1", key), samples::owner())
}

/// D2: what asking again with the same token finds is the truth, and the other node sees the same.
#[tokio::test]
async fn a_claim_that_is_cut_at_its_commit_is_settled_by_its_token() {
    let stage = Stage::new().await;
    for at in BOTH {
        let (mine, theirs) = (claim(&format!("{at:?}")), claim(&format!("{at:?}")));
        stage.cut(CLAIM, at, stage.store.claim(mine.clone())).await;
        assert_eq!(stage.holds(&mine).await, at == CutAt::AfterCommit);
        let met = stage.rival.claim(theirs.clone()).await;
        let again = stage.store.claim(mine.clone()).await;
        // One of the two has it, never both: ours if it was committed, else theirs.
        let (winner, loser) = if at == CutAt::AfterCommit { (again, met) } else { (met, again) };
        assert!(matches!(winner, Ok(Claimed::Granted { attempt: 1, .. })), "{at:?}: {winner:?}");
        assert!(matches!(loser, Ok(Claimed::Held(_))), "{at:?}: {loser:?}");
    }
}

/// The same where a claim takes the place of what it saw: two nodes saw the same failure, and one of them claims it anew.
#[tokio::test]
async fn a_claim_that_replaces_and_is_cut_is_settled_by_its_token() {
    let stage = Stage::new().await;
    for at in BOTH {
        let first = claim(&format!("{at:?}"));
        granted(&stage.store.claim(first.clone()).await);
        let (id, owner) = (first.identity.id(), samples::owner());
        written(&stage.store.record(id, first.token, samples::failed()).await);
        let seen = Replaces { token: first.token, state: State::Failed, expired: false };
        let retry = || samples::retry(&first.identity, owner, seen);
        let (mine, theirs) = (retry(), retry());
        stage.cut(REPLACE, at, stage.store.claim(mine.clone())).await;
        assert_eq!(stage.holds(&mine).await, at == CutAt::AfterCommit);
        let met = stage.rival.claim(theirs).await;
        let again = stage.store.claim(mine).await;
        let (winner, loser) = if at == CutAt::AfterCommit { (again, met) } else { (met, again) };
        assert!(matches!(winner, Ok(Claimed::Granted { attempt: 2, .. })), "{at:?}: {winner:?}");
        assert!(matches!(loser, Ok(Claimed::Held(_))), "{at:?}: {loser:?}");
    }
}

/// D3: an outcome that is written again is written once, and the first answer stays.
#[tokio::test]
async fn an_outcome_that_is_cut_at_its_commit_is_written_once() {
    let stage = Stage::new().await;
    for at in BOTH {
        let mine = claim(&format!("{at:?}"));
        let id = mine.identity.id();
        granted(&stage.store.claim(mine.clone()).await);
        stage.cut(OUTCOME, at, stage.store.record(id, mine.token, samples::completed("x"))).await;
        let stands = async || stage.rival.read(id).await.expect("a reading").expect("there").record.state;
        let expected = if at == CutAt::AfterCommit { State::Completed } else { State::Processing };
        assert_eq!(stands().await, expected, "{at:?}");
        stage.clock.advance(Duration::from_secs(1));
        let again = written(&stage.store.record(id, mine.token, samples::completed("x")).await);
        assert_eq!(again, written(&stage.store.record(id, mine.token, samples::completed("x")).await), "{at:?}");
        assert_eq!(stage.rival.read(id).await.expect("read").expect("there").response, Some(samples::response("x")));
    }
}

/// D5: a sweep that is cut anywhere is only a sweep less; the next one, here or elsewhere, does what is left.
#[tokio::test]
async fn a_sweep_that_is_cut_at_its_commit_is_made_up_for() {
    for at in BOTH {
        let stage = Stage::new().await;
        let (lapsing, expiring) = (claim("lapsing"), claim("expiring"));
        granted(&stage.store.claim(lapsing.clone()).await);
        granted(&stage.store.claim(expiring.clone()).await);
        written(&stage.store.record(expiring.identity.id(), expiring.token, samples::completed("x")).await);
        let stands = async |of: &Claim| {
            stage.rival.read(of.identity.id()).await.expect("a reading").map(|found| found.record.state)
        };

        stage.clock.advance(lapsing.lifetimes.run);
        stage.cut(MARK, at, stage.store.sweep(stage.clock.now(), 100)).await;
        let marked = if at == CutAt::AfterCommit { State::Unknown } else { State::Processing };
        assert_eq!(stands(&lapsing).await, Some(marked), "{at:?}");
        // A cut sweep's rows stay locked until the server has seen the cut, and what is locked is passed over (D5).
        let mut lapsed = stage.rival.sweep(stage.clock.now(), 100).await.expect("a sweep").lapsed;
        while stands(&lapsing).await == Some(State::Processing) {
            lapsed += stage.rival.sweep(stage.clock.now(), 100).await.expect("a sweep").lapsed;
        }
        assert_eq!(lapsed, u64::from(marked == State::Processing), "{at:?}");
        assert_eq!(stands(&lapsing).await, Some(State::Unknown));
        // The owner's outcome counts all the same, however late (E4).
        written(&stage.store.record(lapsing.identity.id(), lapsing.token, samples::completed("late")).await);

        stage.clock.advance(expiring.lifetimes.ttl);
        stage.cut(DELETE, at, stage.store.sweep(stage.clock.now(), 100)).await;
        let mut deleted = stage.rival.sweep(stage.clock.now(), 100).await.expect("a sweep").deleted;
        while stands(&expiring).await.is_some() {
            deleted += stage.rival.sweep(stage.clock.now(), 100).await.expect("a sweep").deleted;
        }
        assert_eq!(deleted > 0, at == CutAt::BeforeCommit, "{at:?}");
    }
}
