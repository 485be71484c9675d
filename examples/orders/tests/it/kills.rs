//! `kill -9` at any moment under load, of two programs on one database, and at each place where one may be; and PostgreSQL crashes
//! in between. Orders = completed records = distinct answers, always.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncekey_testkit::{Client, PATIENCE, PostgresServer, Release};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, block_in_place};

use crate::site::{Place, Site};
use crate::{id, order, settled};

/// Of each of the two programs.
const CLIENTS: usize = 4;

/// Every how many rounds PostgreSQL crashes, too.
const CRASHES: u32 = 8;

/// Where a program dies by itself, in turn; none: it is killed from outside.
type Places = &'static [Option<&'static str>];

/// All that there are. The last is PostgreSQL's alone.
const PLACES: Places = if cfg!(feature = "fault-points") {
    &[None, Some("before_claim"), Some("after_claim"), Some("before_record"), Some("before_reply"), Some("commit_sent")]
} else {
    &[None]
};

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

/// One client: first what got no answer before, then new orders, until the program is gone. A token for each answer. Each new key is
/// sent twice, most often by another client, and to the other program as often as not.
async fn send(
    address: SocketAddr,
    again: Vec<String>,
    number: Arc<AtomicU32>,
    answered: Arc<Semaphore>,
    fails: bool,
) -> Vec<(String, Option<String>)> {
    let client = Client::new(address);
    let mut sent = Vec::new();
    let mut again = again.into_iter();
    loop {
        let key = again.next().unwrap_or_else(|| format!("order-{}", number.fetch_add(1, Ordering::Relaxed) / 2));
        let Ok(answer) = client.call(&order("acc-1", &key)).await else {
            sent.push((key, None));
            // What it didn't come to is still without an answer.
            return sent;
        };
        // 202: another executes it still.
        let expected = [201, 202].contains(&answer.status.as_u16()) || (fails && answer.status.is_server_error());
        assert!(expected, "{answer:?}");
        sent.push((key, (answer.status == 201).then(|| id(&answer))));
        answered.add_permits(1);
    }
}

/// What is killed, and how.
struct Loop {
    site: Site,
    server: Option<PostgresServer>,
    rules: &'static str,
    places: Places,
    sent: Sent,
    number: Arc<AtomicU32>,
}

impl Loop {
    async fn new(place: Place, rules: &'static str, places: Places) -> Self {
        let release = match place {
            Place::Sqlite => None,
            Place::Postgres15 => Some(Release::V15),
            Place::Postgres18 => Some(Release::V18),
        };
        let server = release.map(|release| block_in_place(|| PostgresServer::start(release)).unwrap());
        let site = match &server {
            None => Site::new(place).await,
            Some(server) => Site::on(server).await,
        };
        Self { site, server, rules, places, sent: Sent::default(), number: Arc::default() }
    }

    /// Kills two programs so often; what doesn't fit then, if anything.
    async fn run(&mut self, kills: u32) -> Result<(), String> {
        for n in 0..kills.div_ceil(2) {
            self.round(n).await;
            let (orders, records) = self.site.kept().await;
            let told = self.sent.told();
            if orders != records || told > orders {
                return Err(format!("after round {n}: {orders} orders, {records} records, {told} told"));
            }
        }
        // Everybody asks again, and all get an order: the one that they were told, if they were.
        let (_process, address) = self.site.start().await;
        let client = Client::new(address);
        for key in self.sent.0.keys().cloned().collect::<Vec<_>>() {
            let answer = settled(&client, &order("acc-1", &key)).await;
            self.sent.note(key, Some(id(&answer)));
        }
        let (orders, records) = self.site.kept().await;
        let (told, keys) = (self.sent.told(), count(self.sent.0.len()));
        if [orders, records, told] == [keys; 3] {
            Ok(())
        } else {
            Err(format!("{keys} keys, {orders} orders, {records} records, {told} told"))
        }
    }

    /// The programs run under load until both are killed: the first where it is, or where it is to be; the second a while later.
    async fn round(&mut self, n: u32) {
        let [answers, arrival, pause] = random();
        let place = self.places[n as usize % self.places.len()];
        let fault = place.map_or_else(String::new, |place| format!("{place}@{}=kill", 1 + arrival % 16));
        let mut variables = vec![("ONCEKEYTEST_BREAK", self.rules)];
        variables.extend(place.map(|_| ("ONCEKEYTEST_FAULT", &*fault)));
        let ((mut first, one), (mut second, two)) =
            tokio::join!(self.site.start_with(&variables), self.site.start_with(&variables[..1]));

        let crashed = self.server.as_ref().filter(|_| n % CRASHES == CRASHES - 1);
        let answered = Arc::new(Semaphore::new(0));
        let unanswered = self.sent.unanswered();
        // A server that crashes refuses, and so does a store that is broken on purpose: what it begins twice, another may be in the way of.
        let fails = crashed.is_some() || !self.rules.is_empty();
        let mut clients = JoinSet::new();
        for client in 0..2 * CLIENTS {
            // Each is sent to both.
            let again = unanswered.iter().skip(client / 2).step_by(CLIENTS).cloned().collect();
            let address = [one, two][client % 2];
            clients.spawn(send(address, again, self.number.clone(), answered.clone(), fails));
        }
        drop(answered.acquire_many(1 + u32::from(answers) % 64).await.unwrap());
        // The moment of a kill is to be any, so it is no event's.
        let moment = Duration::from_micros(40 * u64::from(pause));
        tokio::time::sleep(moment).await;
        if let Some(server) = crashed {
            block_in_place(|| server.crash()).unwrap();
        }
        match place {
            None => drop(first.kill9().await.unwrap()),
            Some(place) => {
                let ended = first.exited(PATIENCE).await.unwrap_or_else(|error| panic!("{place}: {error}"));
                assert!(!ended.success());
            }
        }
        tokio::time::sleep(moment).await;
        second.kill9().await.unwrap();
        for (key, told) in clients.join_all().await.into_iter().flatten() {
            self.sent.note(key, told);
        }
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

fn random() -> [u8; 3] {
    let mut random = [0; 3];
    getrandom::fill(&mut random).unwrap();
    random
}

/// How often programs are killed: enough for a round at each place, unless more is asked for.
#[expect(clippy::disallowed_methods, reason = "how long a test takes is its caller's choice")]
fn kills() -> u32 {
    std::env::var("ONCEKEY_TEST_KILLS").ok().map_or(32, |kills| kills.parse().unwrap())
}

crate::site::everywhere! {
    orders_records_and_answers_agree_after_every_kill
}

async fn orders_records_and_answers_agree_after_every_kill(place: Place) {
    let places = if place == Place::Sqlite { &PLACES[..PLACES.len().min(5)] } else { PLACES };
    assert_eq!(Loop::new(place, "", places).await.run(kills()).await, Ok(()));
}

/// The same with the record committed apart from its order: it is caught.
#[cfg(feature = "fault-points")]
mod control {
    use super::{Loop, Place, Places};

    async fn an_order_committed_apart_from_its_record_is_caught(place: Place, places: Places) {
        let caught = Loop::new(place, "record_apart", places).await.run(400).await;
        assert!(caught.is_err(), "four hundred kills, and none between the order and its record");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlite() {
        an_order_committed_apart_from_its_record_is_caught(Place::Sqlite, &[None]).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres() {
        an_order_committed_apart_from_its_record_is_caught(Place::Postgres15, &[None, Some("commit_sent")]).await;
    }
}
