//! Many clients ask for one operation at the same moment: one execution, one answer (E1, W1).

use std::sync::Arc;

use futures_util::future::join_all;
use oncekey_testkit::{Answer, Client};
use tokio::sync::Barrier;

use super::history::{History, Tally, assert_caught};
use super::site::{Gateway, Site};

/// Clients that stay connected and start each round together.
struct Crowd {
    clients: Vec<Client>,
    history: History,
}

impl Crowd {
    /// Clients of these gateways, in turn.
    fn of(gateways: &[Gateway], clients: usize) -> Self {
        let fronts = gateways.iter().map(|gateway| gateway.front).cycle();
        Self { clients: fronts.map(Client::new).take(clients).collect(), history: History::default() }
    }

    /// One round on one key. All must get the answer: no problem, no waiter turned away.
    async fn round(&self, key: &str, delay: &str) -> Result<(), String> {
        let barrier = Arc::new(Barrier::new(self.clients.len()));
        let asking = self.clients.iter().map(|client| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                self.history.send_on(client, key, &[("x-test-delay-ms", delay)]).await
            }
        });
        for answer in join_all(asking).await {
            all_right(answer.as_ref()).map_err(|why| format!("{key}: {why}"))?;
        }
        self.history.send_on(&self.clients[0], key, &[]).await;
        Ok(())
    }
}

fn all_right(answer: Option<&Answer>) -> Result<(), String> {
    match answer {
        Some(answer) if answer.status == 201 => Ok(()),
        other => Err(format!("not everyone got the answer: {other:?}")),
    }
}

/// Rounds of a crowd on so many gateways that share a file.
async fn rounds(gateways: usize, clients: usize, rounds: usize, broken: &str) -> Result<Tally, String> {
    rounds_at(&Site::new().await, gateways, clients, rounds, broken).await
}

/// Rounds of a crowd on so many gateways of a site.
pub(super) async fn rounds_at(
    site: &Site,
    gateways: usize,
    clients: usize,
    rounds: usize,
    broken: &str,
) -> Result<Tally, String> {
    // These fast rounds are no test of how long a claim lives.
    let plan = site.gateway().breaking(broken).set("lease", "30s");
    let gateways = join_all((0..gateways).map(|_| plan.start())).await;
    let crowd = Crowd::of(&gateways, clients);
    for number in 0..rounds {
        // Answered at once, the first may be done before the last is heard; delayed, they all wait.
        let delay = if number % 2 == 0 { "0" } else { "10" };
        if let Err(why) = crowd.round(&format!("round-{number}"), delay).await {
            // Too many executions say more than a missing answer.
            crowd.history.check(&site.upstream, &site.records())?;
            return Err(why);
        }
    }
    let tally = crowd.history.check(&site.upstream, &site.records())?;
    eprintln!("{rounds} rounds of {clients} clients on {} gateways: {tally}", gateways.len());
    assert_eq!(tally.executions as usize, rounds);
    tally.all_completed()
}

#[tokio::test]
async fn sixty_four_clients_at_once_are_one_execution_three_hundred_times() {
    let tally = rounds(1, 64, 300, "").await.expect("nothing is wrong");
    assert_eq!((tally.completed, tally.replays), (300, 300 * 64));
}

#[tokio::test]
async fn sixty_four_clients_on_two_gateways_are_one_execution() {
    let tally = rounds(2, 64, 60, "").await.expect("nothing is wrong");
    assert_eq!((tally.completed, tally.replays), (60, 60 * 64));
}

#[tokio::test]
async fn the_store_alone_keeps_executions_apart() {
    // Without the gathering of a process's calls, each of them asks the store.
    let tally = rounds(1, 16, 20, "no_flights").await.expect("the store decides");
    assert_eq!((tally.completed, tally.replays), (20, 20 * 16));
}

#[tokio::test]
async fn control_claims_that_are_granted_to_everyone_are_caught() {
    assert_caught(rounds(1, 64, 10, "no_flights,grant_every_claim").await, "executed ");
    assert_caught(rounds(2, 64, 10, "grant_every_claim").await, "executed ");
}
