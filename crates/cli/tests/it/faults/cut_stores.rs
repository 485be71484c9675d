//! The way to the store is cut, again and again, while requests run: what a claim or an outcome came to is found out by its
//! token, and nothing is executed twice (D1–D3).

use futures_util::future::join_all;
use oncekey_testkit::{Cut, Direction, FaultProxy};

use super::history::{History, Tally, assert_caught};
use super::site::Site;
use crate::server::SERVER;

/// Operations; each is asked for twice at the same time, on two gateways.
const KEYS: usize = 60;

/// How often the way is cut, each time after so many bytes have come from the store: in the middle of answers to claims, to
/// outcomes and to readings.
const CUTS: u64 = 12;
const BYTES: u64 = 2_500;

async fn cut_again_and_again(broken: &str) -> Result<Tally, String> {
    let proxy = FaultProxy::start(SERVER.address()).await;
    let (site, history) = (Site::on_server(proxy.address()).await, History::default());
    let one = site.gateway().breaking(broken).start().await;
    let two = site.gateway().breaking(broken).start().await;
    let keys: Vec<_> = (0..KEYS).map(|key| format!("key-{key}")).collect();
    let start = proxy.bytes(Direction::Down);
    let script: &[_] = &[("x-test-delay-ms", "5")];
    let asking = join_all(
        keys.iter().flat_map(|key| [history.send(one.front, key, script), history.send(two.front, key, script)]),
    );
    let cutting = async {
        for cut in 1..=CUTS {
            proxy.passed(Direction::Down, start + cut * BYTES).await;
            proxy.cut(if cut % 2 == 0 { Cut::Rst } else { Cut::Fin });
        }
    };
    tokio::join!(asking, cutting);
    for _ in 0..2 {
        join_all(keys.iter().map(|key| history.send(two.front, key, &[]))).await;
    }
    history.check(&site.upstream, &two.records().await)
}

#[tokio::test]
async fn cuts_between_gateways_and_their_store_execute_nothing_twice() {
    let tally = cut_again_and_again("").await.expect("nothing is wrong");
    eprintln!("{CUTS} cuts between two gateways and their store: {tally}");
    assert_eq!(tally.keys, KEYS);
    assert_eq!(tally.completed + tally.unknown, KEYS, "{tally:?}");
}

#[tokio::test]
async fn control_a_gateway_that_executes_what_it_could_not_claim_is_caught() {
    assert_caught(cut_again_and_again("execute_unclaimed").await, "executed 2 times");
}
