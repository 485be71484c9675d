//! Rights that are taken from the gateways' role and given back: what was executed meanwhile is recorded then (D3).

use futures_util::future::join_all;
use oncekey_testkit::PostgresServer;

use crate::faults::history::{History, Tally, assert_caught};
use crate::faults::site::Site;
use crate::server::{SERVER, database};

/// A role without the right to change records while eight executions end.
async fn revoked_at_the_outcome(broken: &str) -> Result<Tally, String> {
    let database = database().await;
    let role = format!("role_of_{database}");
    let sql = async |sql: String| SERVER.execute(&database, &sql).await.expect("done");
    sql(format!("CREATE ROLE {role} LOGIN; GRANT CREATE ON SCHEMA public TO {role}")).await;
    let url = PostgresServer::url_by(SERVER.address(), &database).replace("//postgres@", &format!("//{role}@"));
    let (site, history) = (Site::on_store(url).await, History::default());
    let lease = if broken.is_empty() { "1m" } else { "1s" };
    let plan = site.gateway().set("lease", lease).set("record_timeout", "300ms").breaking(broken);
    let (one, two) = (plan.start().await, plan.start().await);
    // The tables are the role's, as the gateways made them; so is what it may do with them.
    sql(format!(
        "ALTER TABLE idempotency_keys OWNER TO postgres; GRANT ALL ON idempotency_keys, idempotency_claims TO {role}"
    ))
    .await;

    let keys: Vec<_> = (0..8).map(|number| format!("key-{number}")).collect();
    let first = join_all(keys.iter().map(|key| history.send(one.front, key, &[("x-test-gate", "shut")])));
    let revoked = async {
        site.upstream.arrived(8).await;
        sql(format!("REVOKE UPDATE ON idempotency_keys FROM {role}")).await;
        site.upstream.open("shut");
    };
    let (answers, ()) = tokio::join!(first, revoked);
    assert!(answers.iter().flatten().all(|answer| answer.status == 201), "{answers:?}");
    for key in &keys {
        assert_eq!(one.records().await.state(key), "processing", "nothing was recorded yet");
    }
    sql(format!("GRANT UPDATE ON idempotency_keys TO {role}")).await;
    if !broken.is_empty() {
        // The owner's end shows that nobody would have recorded it.
        drop(one);
    }
    for key in &keys {
        history.send(two.front, key, &[]).await;
    }
    history.check(&site.upstream, &two.records().await)?.all_completed()
}

#[tokio::test]
async fn outcomes_that_may_not_be_written_for_a_moment_are_recorded_once_they_may() {
    let tally = revoked_at_the_outcome("").await.expect("nothing is wrong");
    eprintln!("a right revoked and granted: {tally}");
    assert_eq!((tally.executions, tally.completed, tally.replays), (8, 8, 8));
}

#[tokio::test]
async fn control_outcomes_that_are_given_up_when_they_may_not_be_written_are_caught() {
    assert_caught(revoked_at_the_outcome("forget_outcomes").await, "given, and then called unknown");
}
