//! Which outcomes are written over which states: the statements against the core's one transition function.

use oncekey_core::{Event, State, Timestamp, transition};
use oncekey_store::{Claim, Outcome, Recorded, Store};
use oncekey_store_postgres::PostgresStore;
use oncekey_store_test::{granted, samples};

use crate::place::{OLD, clock, migrated, open};

/// Puts a record into a state, as if by hand, so that no code of the store decides how it got there.
async fn put(store: &PostgresStore, database: &str, key: &str, state: State) -> Claim {
    let claim = samples::claim(&samples::identity("acc-1", key), samples::owner());
    granted(&store.claim(claim.clone()).await);
    if state != State::Processing {
        let unknown = if state == State::Unknown { "started_at" } else { "NULL" };
        let sql = format!(
            "UPDATE idempotency_keys SET status = '{state}', completed_at = started_at, unknown_since = {unknown}, \
             expires_at = started_at + interval '1 hour' WHERE idempotency_key = '{key}'"
        );
        OLD.execute(database, &sql).await.expect("put by hand");
    }
    claim
}

/// Every state × every event that ends a claim × the claim's token or another: written exactly where the core allows it, with
/// the state that it says, and told as written where it was already.
#[tokio::test]
async fn the_statements_agree_with_the_core_over_the_whole_table() {
    let database = migrated(&OLD).await;
    let store = open(&OLD.url(&database), clock()).await;
    let mut cases = 0;
    for state in State::ALL {
        for event in [Event::Complete, Event::Fail, Event::WriteOff] {
            for matches in [true, false] {
                let key = format!("{state}-{event:?}-{matches}");
                let claim = put(&store, &database, &key, state).await;
                let before = store.read(claim.identity.id()).await.expect("read").expect("there").record;
                let token = if matches { claim.token } else { samples::token() };
                let outcome = Outcome { event, response: None };
                let recorded = store.record(claim.identity.id(), token, outcome).await.expect("recorded");
                let after = store.read(claim.identity.id()).await.expect("read").expect("there").record;
                match transition(Some(state), event, matches) {
                    Ok(made) => {
                        assert_eq!(after.state, made, "{key}");
                        assert!(matches!(recorded, Recorded::Written { .. }), "{key}: {recorded:?}");
                    }
                    Err(refusal) => {
                        assert_eq!(after, before, "{key}");
                        let is_written = matches!(recorded, Recorded::Written { .. });
                        assert_eq!(is_written, refusal == oncekey_core::Refusal::AlreadyWritten, "{key}: {recorded:?}");
                    }
                }
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 24);
}

/// The server's own time, and not the node's, is what a record bears.
#[tokio::test]
async fn times_are_the_servers() {
    let database = migrated(&OLD).await;
    let options = crate::place::options(&OLD.url(&database));
    let store = PostgresStore::open(options).await.expect("opens");
    let now = |found: &oncekey_store::Found| found.now;
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    let beaten: Timestamp = store.heartbeat(claim.owner, samples::LIFETIMES.ttl).await.expect("a heartbeat");
    granted(&store.claim(claim.clone()).await);
    let found = store.read(claim.identity.id()).await.expect("read").expect("there");
    assert!(beaten <= found.record.times.started && found.record.times.started <= now(&found));
    assert!(found.owner_alive);
    assert_eq!(found.record.times.deadline, found.record.times.started.after(claim.lifetimes.run));
}
