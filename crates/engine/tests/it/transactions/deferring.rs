//! Work that is left to the end of its transaction.

use oncekey_core::Standing;
use oncekey_core::policy::Verdict;
use oncekey_store_test::EndFault;

use super::Stage;
use crate::upstream::Run;
use crate::world::say;

#[tokio::test(start_paused = true)]
async fn its_answer_decides_how_the_transaction_ends() {
    for (verdict, rows, retry) in [
        (Verdict::Completed, 1, "replay run 1"),
        (Verdict::Declined, 0, "replay run 1"),
        (Verdict::Failed, 0, "first 2"),
        (Verdict::Unknown, 0, "first 2"),
    ] {
        let stage = Stage::new().await;
        stage.upstream.next(Run::Defer(verdict));
        assert_eq!((stage.run().await, stage.rows().len()), ("first 1".to_owned(), rows));
        assert_eq!(stage.run().await, retry);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_it_rolls_back() {
    let stage = Stage::new().await;
    stage.upstream.next(Run::DeferPanic);
    assert_eq!(stage.run().await, "not executed");
    assert_eq!((stage.world.stands("k").await, stage.rows().len()), (Standing::Absent, 0));
    assert_eq!(stage.run().await, "first 2");
}

#[tokio::test(start_paused = true)]
async fn its_answer_is_given_only_if_the_transaction_ended_as_it_says() {
    for (fault, answer) in [
        (EndFault::Again, "first 2"),
        (EndFault::RolledBack, "not executed"),
        (EndFault::NotApplied, "store unavailable"),
        (EndFault::ReplyLost, "unknown for now"),
        (EndFault::RequestLost, "unknown for now"),
    ] {
        let stage = Stage::new().await;
        stage.upstream.next(Run::Defer(Verdict::Completed));
        stage.transactions.fail_end(fault.clone());
        assert_eq!(stage.run().await, answer, "{fault:?}");
    }
}

/// Nobody is there to do it, and what was done before nobody knows.
#[tokio::test(start_paused = true)]
async fn outside_of_a_transaction_it_leaves_the_outcome_unknown() {
    let stage = Stage::new().await;
    stage.upstream.next(Run::Defer(Verdict::Completed));
    assert_eq!(say(&stage.engine.run(stage.upstream.call("k")).await), "unknown");
    assert_eq!((stage.world.stands("k").await, stage.rows().len()), (Standing::Unknown, 0));
}
