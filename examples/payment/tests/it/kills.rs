//! `kill -9` at any moment under load: charges = payments = completed records, always.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncekey_testkit::{Client, PostgresServer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::{NEW, OLD, Stage, pay, payment};

/// Clients; every other one begins with what got no answer before.
const CLIENTS: usize = 8;

/// Who is silent for so long counts as dead. A busy machine may be, and then one that lives is taken over: that is fine too.
const LEASE: Duration = Duration::from_millis(300);

/// The card whose charges take some time, so that many a kill comes between a charge and its answer.
const CARD: &str = "brisk";

/// What clients have sent, by key, and what each was told, if it got an answer.
type Sent = BTreeMap<String, Option<String>>;

fn note(sent: &mut Sent, key: String, told: Option<String>) {
    let known = sent.entry(key).or_default();
    assert!(known.is_none() || told.is_none() || *known == told, "two answers under one key: {known:?}, {told:?}");
    *known = told.or(known.take());
}

/// One client: its keys one after another, then new ones, until the program is gone. A token for each payment.
async fn send(
    address: SocketAddr,
    again: Vec<String>,
    number: Arc<AtomicU32>,
    paid: Arc<Semaphore>,
) -> Vec<(String, Option<String>)> {
    let client = Client::new(address);
    let (mut sent, mut again) = (Vec::new(), again.into_iter());
    loop {
        let key = again.next().unwrap_or_else(|| format!("pay-{}", number.fetch_add(1, Ordering::Relaxed)));
        let told = loop {
            match client.call(&payment(&key, CARD)).await {
                Ok(answer) if answer.status == 201 => break answer.body,
                // Under way still, or unknown for a while.
                Ok(answer) => assert!(matches!(answer.status.as_u16(), 202 | 502 | 503 | 504), "{answer:?}"),
                Err(_) => {
                    sent.push((key, None));
                    return sent;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        sent.push((key, Some(String::from_utf8_lossy(&told).into_owned())));
        paid.add_permits(1);
    }
}

/// A round: the program runs under load until it is killed after so many payments, and a while.
async fn round(stage: &Stage, sent: &mut Sent, number: &Arc<AtomicU32>) {
    let (mut process, address) = stage.start(LEASE).await;
    let mut random = [0; 2];
    getrandom::fill(&mut random).unwrap();
    let paid = Arc::new(Semaphore::new(0));
    let unanswered: Vec<_> = sent.iter().filter(|(_, told)| told.is_none()).map(|(key, _)| key.clone()).collect();
    let mut clients = JoinSet::new();
    for n in 0..CLIENTS {
        let again = unanswered.iter().skip(n / 2).step_by(CLIENTS / 2).filter(|_| n % 2 == 0).cloned().collect();
        clients.spawn(send(address, again, number.clone(), paid.clone()));
    }
    let enough = paid.acquire_many(u32::from(random[0]) % 8).await.unwrap();
    // The moment of the kill is to be any, so it is no event's.
    tokio::time::sleep(Duration::from_micros(250 * u64::from(random[1]))).await;
    process.kill9().await.unwrap();
    drop(enough);
    for (key, told) in clients.join_all().await.into_iter().flatten() {
        note(sent, key, told);
    }
}

/// Kills the program so often; what doesn't fit then, if anything.
async fn kill(stage: &Stage, kills: u32) -> Result<(), String> {
    let (mut sent, number) = (Sent::new(), Arc::new(AtomicU32::new(0)));
    for n in 0..kills {
        round(stage, &mut sent, &number).await;
        if let Some(payment) = stage.charged_twice().await {
            return Err(format!("after kill {n}: payment {payment} was charged twice"));
        }
    }
    let (_process, address) = stage.start(LEASE).await;
    for key in sent.keys().cloned().collect::<Vec<_>>() {
        let answer = pay(address, &key, CARD).await;
        note(&mut sent, key, Some(String::from_utf8_lossy(&answer.body).into_owned()));
    }
    let (counts, keys) = (stage.counts().await, sent.len());
    if counts == [keys; 4] && stage.charged_twice().await.is_none() {
        Ok(())
    } else {
        Err(format!("{keys} keys, and {counts:?} charges, payments, settled ones, records"))
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a test takes is its caller's choice")]
fn kills() -> u32 {
    std::env::var("ONCEKEY_TEST_KILLS").ok().map_or(60, |kills| kills.parse().unwrap())
}

async fn agree(server: &PostgresServer, kills: u32) {
    let stage = Stage::new(server, false).await;
    assert_eq!(kill(&stage, kills).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charges_payments_and_records_agree_after_every_kill() {
    agree(&NEW, kills()).await;
    agree(&OLD, kills() / 4).await;
}

/// The same with a provider that doesn't know its keys, as if each call had one of its own: it is caught.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_without_a_lasting_key_is_caught() {
    let stage = Stage::new(&NEW, true).await;
    let caught = kill(&stage, 60).await;
    assert!(caught.is_err(), "sixty kills, and none between a charge and its step");
}
