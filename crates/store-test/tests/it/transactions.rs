//! The suite of transactions on the scripted ones, and on broken ones, which it catches.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use oncekey_core::Key;
use oncekey_store::{
    Begun, Claim, Closed, Ending, MemoryStore, Replaces, Store, StoreError, Transaction, Transactions,
};
use oncekey_store_test::{Fixture, ScriptedTransactions, TransactionFixture, cases, samples, transaction_suite};

fn scripted() -> TransactionFixture {
    let base = Fixture::new(|clock| Arc::new(MemoryStore::new(clock)));
    let transactions = Arc::new(ScriptedTransactions::new(base.store.clone()));
    TransactionFixture { transactions: transactions.clone(), elsewhere: transactions.clone(), rows: transactions, base }
}

transaction_suite!(scripted);

/// What is wrong with the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// What is to be rolled back is committed.
    CommitsRollbacks,
    /// A commit keeps the record and loses the rows.
    LosesRows,
    /// The rows of an answer that declined are kept.
    KeepsDeclinedRows,
    /// It says that it committed, and didn't.
    SaysRecorded,
    /// Another's open transaction isn't seen.
    OpensTwice,
    /// A claim replaces a record whatever became of it.
    IgnoresTokens,
    /// A transaction that is dropped stays open.
    StaysOpen,
}

struct Broken(Arc<dyn Transactions>, Arc<dyn Store>, Defect);

#[async_trait]
impl Transactions for Broken {
    async fn begin(&self, mut claim: Claim) -> Result<Begun, StoreError> {
        if self.2 == Defect::IgnoresTokens
            && let Some(found) = self.1.read(claim.identity.id()).await?
        {
            let record = found.record;
            claim.replaces = Some(Replaces { token: record.token, state: record.state, expired: false });
        }
        let mut begun = self.0.begin(claim.clone()).await?;
        if self.2 == Defect::OpensTwice && matches!(begun, Begun::Busy) {
            let beside = format!("{}-beside", claim.identity.key.as_str());
            claim.identity.key = Key::from_decoded(&beside).expect("a key");
            begun = self.0.begin(claim).await?;
        }
        Ok(match begun {
            Begun::Open { attempt, transaction } => {
                let transaction = Box::new(BrokenTransaction(Some(transaction), self.2));
                Begun::Open { attempt, transaction }
            }
            begun => begun,
        })
    }
}

/// Empty once it has ended.
struct BrokenTransaction(Option<Box<dyn Transaction>>, Defect);

impl Drop for BrokenTransaction {
    fn drop(&mut self) {
        if self.1 == Defect::StaysOpen {
            std::mem::forget(self.0.take());
        }
    }
}

#[async_trait]
impl Transaction for BrokenTransaction {
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.as_ref().expect("it hasn't ended").handle()
    }

    async fn end(mut self: Box<Self>, ending: Ending) -> Result<Closed, StoreError> {
        let ending = match (self.1, ending) {
            (Defect::CommitsRollbacks, Ending::RollBack) => Ending::Commit(samples::completed("rolled back")),
            (Defect::LosesRows, Ending::Commit(outcome)) => Ending::CommitRecord(outcome),
            (Defect::KeepsDeclinedRows, Ending::CommitRecord(outcome)) => Ending::Commit(outcome),
            (Defect::SaysRecorded, Ending::Commit(_)) => {
                return Ok(Closed::Recorded { expires: oncekey_store_test::START, now: oncekey_store_test::START });
            }
            (_, ending) => ending,
        };
        self.0.take().expect("it hasn't ended").end(ending).await
    }
}

/// Whether the case panics when it is given the broken transactions.
async fn catches<F: Future<Output = ()>>(case: impl FnOnce(TransactionFixture) -> F, defect: Defect) -> bool {
    let fixture = scripted();
    let store = fixture.base.store.clone();
    let broken = fixture.wrapped(|inner| Arc::new(Broken(inner, store.clone(), defect)));
    AssertUnwindSafe(case(broken)).catch_unwind().await.is_err()
}

macro_rules! controls {
    ($($name:ident: $defect:ident is caught by $($group:ident::$case:ident),+;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            $(assert!(catches(cases::$group::$case, Defect::$defect).await, stringify!($case));)+
        }
    )+};
}

controls! {
    committed_rollbacks_are_caught: CommitsRollbacks is caught by
        closing::a_rollback_leaves_neither, closing::a_rollback_leaves_the_record_that_was_to_be_replaced;
    lost_rows_are_caught: LosesRows is caught by
        closing::a_commit_leaves_row_and_record, beginning::on_32_records_at_once_all_commit;
    kept_rows_are_caught: KeepsDeclinedRows is caught by closing::an_answer_that_declined_leaves_the_record_alone;
    commits_that_are_none_are_caught: SaysRecorded is caught by
        closing::a_commit_leaves_row_and_record, beginning::a_committed_record_is_in_the_way,
        closing::a_committed_record_is_its_claims, closing::an_open_transaction_holds_up_nobody,
        closing::a_large_answer_is_committed, beginning::what_is_given_up_while_it_begins_is_not_in_the_way;
    two_open_transactions_are_caught: OpensTwice is caught by
        beginning::an_open_transaction_is_in_the_way, beginning::of_two_processes_one_commits;
    ignored_tokens_are_caught: IgnoresTokens is caught by
        beginning::a_record_that_changed_since_is_in_the_way, beginning::a_committed_record_is_in_the_way,
        beginning::a_claim_in_two_commits_is_in_the_way;
    transactions_that_stay_open_are_caught: StaysOpen is caught by closing::what_is_dropped_is_rolled_back;
}
