//! `kill -9` at any moment under load: orders = completed records = distinct answers, always.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncekey_testkit::{Client, TempDir};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::{id, kept, order, start};

const CLIENTS: u32 = 8;

/// What clients have sent, by key, and the order that each was told, if it got an answer.
#[derive(Default)]
struct Sent(BTreeMap<String, Option<String>>);

impl Sent {
    /// An answer, or none.
    fn note(&mut self, key: String, told: Option<String>) {
        let known = self.0.entry(key).or_default();
        assert!(
            known.is_none() || told.is_none() || *known == told,
            "two orders under one key: {known:?} and {told:?}"
        );
        *known = told.or(known.take());
    }

    fn unanswered(&self) -> Vec<String> {
        self.0.iter().filter(|(_, told)| told.is_none()).map(|(key, _)| key.clone()).collect()
    }

    /// How many orders clients know of; no two keys have the same.
    fn told(&self) -> i64 {
        let (told, keys): (BTreeSet<_>, Vec<_>) =
            (self.0.values().flatten().collect(), self.0.values().flatten().collect());
        assert_eq!(told.len(), keys.len(), "two keys were told the same order");
        count(told.len())
    }
}

/// One client: first what got no answer before, then new orders, until the program is gone. A token for each answer.
async fn send(
    address: SocketAddr,
    again: Vec<String>,
    number: Arc<AtomicU32>,
    answered: Arc<Semaphore>,
) -> Vec<(String, Option<String>)> {
    let client = Client::new(address);
    let mut sent = Vec::new();
    let mut again = again.into_iter();
    loop {
        let key = again.next().unwrap_or_else(|| format!("order-{}", number.fetch_add(1, Ordering::Relaxed)));
        let Ok(answer) = client.call(&order("acc-1", &key)).await else {
            sent.push((key, None));
            // What it didn't come to is still without an answer.
            return sent;
        };
        assert_eq!(answer.status, 201, "{answer:?}");
        sent.push((key, Some(id(&answer))));
        answered.add_permits(1);
    }
}

/// A round: the program runs under load until it is killed after so many answers, and a while.
async fn round(folder: &Path, rules: &str, sent: &mut Sent, number: &Arc<AtomicU32>) {
    let (mut process, address) = start(folder, rules).await;
    let [answers, pause] = random();
    let answered = Arc::new(Semaphore::new(0));
    let mut unanswered = sent.unanswered();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let again = unanswered.split_off(unanswered.len() - unanswered.len() / 2);
        clients.spawn(send(address, again, number.clone(), answered.clone()));
    }
    let enough = answered.acquire_many(1 + u32::from(answers) % 64).await.unwrap();
    // The moment of the kill is to be any, so it is no event's.
    tokio::time::sleep(Duration::from_micros(40 * u64::from(pause))).await;
    process.kill9().await.unwrap();
    drop(enough);
    for (key, told) in clients.join_all().await.into_iter().flatten() {
        sent.note(key, told);
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

fn random() -> [u8; 2] {
    let mut random = [0; 2];
    getrandom::fill(&mut random).unwrap();
    random
}

/// Kills the program so often; what doesn't fit then, if anything.
async fn kill(folder: &Path, rules: &str, kills: u32) -> Result<(), String> {
    let (mut sent, number) = (Sent::default(), Arc::new(AtomicU32::new(0)));
    for n in 0..kills {
        round(folder, rules, &mut sent, &number).await;
        let (orders, records) = kept(folder);
        let told = sent.told();
        if orders != records || told > orders {
            return Err(format!("after kill {n}: {orders} orders, {records} records, {told} told"));
        }
    }
    // Everybody asks again, and all get an order: the one that they were told, if they were.
    let (_process, address) = start(folder, rules).await;
    let client = Client::new(address);
    for key in sent.0.keys().cloned().collect::<Vec<_>>() {
        let answer = client.call(&order("acc-1", &key)).await.unwrap();
        sent.note(key, Some(id(&answer)));
    }
    let (orders, records) = kept(folder);
    let (told, keys) = (sent.told(), count(sent.0.len()));
    if [orders, records, told] == [keys; 3] {
        Ok(())
    } else {
        Err(format!("{keys} keys, {orders} orders, {records} records, {told} told"))
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a test takes is its caller's choice")]
fn kills() -> u32 {
    std::env::var("ONCEKEY_TEST_KILLS").ok().map_or(200, |kills| kills.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_records_and_answers_agree_after_every_kill() {
    let folder = TempDir::new().unwrap();
    assert_eq!(kill(folder.path(), "", kills()).await, Ok(()));
}

/// The same with the record committed apart from its order: it is caught.
#[cfg(feature = "fault-points")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_committed_apart_from_its_record_is_caught() {
    let folder = TempDir::new().unwrap();
    let caught = kill(folder.path(), "record_apart", 200).await;
    assert!(caught.is_err(), "two hundred kills, and none between the order and its record");
}
