//! What the README shows, and promises.

use oncekey_testkit::{Call, Client};
use tokio::task::JoinSet;

use crate::site::{Place, Site, everywhere};
use crate::{TEA, id, order, settled};

everywhere! {
    an_order_is_placed_once_and_found_by_its_account
    what_is_no_order_is_refused_again
    twenty_duplicates_at_once_are_one_order
    duplicates_at_two_processes_are_one_order
}

async fn an_order_is_placed_once_and_found_by_its_account(at: Place) {
    let site = Site::new(at).await;
    let (mut process, address) = site.start().await;
    let client = Client::new(address);

    let first = settled(&client, &order("acc-1", "order-7")).await;
    assert_eq!((first.status.as_u16(), first.is_replay()), (201, false));
    let order_id = id(&first);
    let body =
        format!(r#"{{"order_id":"{order_id}","account_id":"acc-1",{},"status":"created"}}"#, &TEA[1..TEA.len() - 1]);
    assert_eq!(String::from_utf8_lossy(&first.body), body, "the amount as it came");
    assert_eq!(first.header("location"), Some(&*format!("/orders/{order_id}")));

    let again = settled(&client, &order("acc-1", "order-7")).await;
    assert_eq!((again.status, again.is_replay(), &again.body), (first.status, true, &first.body));
    let other = Call::post("/orders").scope("acc-1").key("order-7").json(TEA.replace('2', "3"));
    let other = client.call(&other).await.unwrap();
    assert_eq!((other.status.as_u16(), other.problem()), (409, Some("key-reused")));
    let keyless = client.call(&Call::post("/orders").scope("acc-1").json(TEA)).await.unwrap();
    assert_eq!((keyless.status.as_u16(), keyless.problem()), (400, Some("key-missing")));
    let elsewhere = settled(&client, &order("acc-2", "order-7")).await;
    assert_eq!((elsewhere.status.as_u16(), elsewhere.is_replay()), (201, false), "a key is an account's own");

    let path = format!("/orders/{order_id}");
    let found = client.call(&Call::get(&path).scope("acc-1")).await.unwrap();
    assert_eq!((found.status.as_u16(), &found.body), (200, &first.body));
    for call in [Call::get(&path).scope("acc-2"), Call::get(&path), Call::get("/orders/none").scope("acc-1")] {
        assert_eq!(client.call(&call).await.unwrap().status, 404, "{call:?}");
    }

    process.kill9().await.unwrap();
    let (mut process, address) = site.start().await;
    let client = Client::new(address);
    let later = settled(&client, &order("acc-1", "order-7")).await;
    assert_eq!((later.is_replay(), &later.body), (true, &first.body));
    assert_eq!(site.kept().await, (2, 2));
    process.terminate().unwrap();
    assert!(process.exited(oncekey_testkit::PATIENCE).await.unwrap().success());
}

/// What is no order is refused, and that is the recorded answer.
async fn what_is_no_order_is_refused_again(at: Place) {
    let site = Site::new(at).await;
    let (_process, address) = site.start().await;
    let client = Client::new(address);
    let orders = [
        (201, r#"{"items":[{"sku":"tea","qty":2}],"amount":"0.01","currency":"EUR"}"#),
        (201, r#"{"items":[{"sku":"tea","qty":2}],"amount":123456789012345.67,"currency":"EUR"}"#),
        (422, r#"{"items":[],"amount":12.50,"currency":"EUR"}"#),
        (422, r#"{"items":[{"sku":"tea","qty":0}],"amount":12.50,"currency":"EUR"}"#),
        (422, r#"{"items":[{"sku":"tea","qty":-1}],"amount":12.50,"currency":"EUR"}"#),
        (422, r#"{"items":[{"sku":"tea","qty":2}],"amount":-1,"currency":"EUR"}"#),
        (422, r#"{"items":[{"sku":"tea","qty":2}],"amount":0.00,"currency":"EUR"}"#),
        (422, r#"{"items":[{"sku":"tea","qty":2}],"amount":1e3,"currency":"EUR"}"#),
        (422, r#"{"items":[{"sku":"tea","qty":2}],"amount":[1],"currency":"EUR"}"#),
        (422, r#"{"items":[{"sku":"tea","qty":2}],"amount":"","currency":"EUR"}"#),
        (422, r#"{"items":[{"sku":"tea","qty":2}],"amount":12.50,"currency":"euro"}"#),
        (422, r#"{"amount":12.50,"currency":"EUR"}"#),
        (400, r#"{"items":"#),
    ];
    for (n, (status, order)) in orders.into_iter().enumerate() {
        let call = Call::post("/orders").scope("acc-1").key(&format!("order-{n}")).json(order);
        let first = client.call(&call).await.unwrap();
        assert_eq!((first.status.as_u16(), first.is_replay()), (status, false), "{order}");
        let again = client.call(&call).await.unwrap();
        assert_eq!((again.status, again.is_replay(), again.body), (first.status, true, first.body), "{order}");
    }
    assert_eq!(site.kept().await, (2, 2));
}

async fn twenty_duplicates_at_once_are_one_order(at: Place) {
    let site = Site::new(at).await;
    let (_process, address) = site.start().await;
    let mut sending = JoinSet::new();
    for _ in 0..20 {
        sending.spawn(async move { settled(&Client::new(address), &order("acc-1", "order-7")).await });
    }
    let answers = sending.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.body == answers[0].body), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    assert_eq!(site.kept().await, (1, 1));
}

/// Two processes that start at once on a new database: an order is placed by one of them, and answered by both.
async fn duplicates_at_two_processes_are_one_order(at: Place) {
    let site = Site::new(at).await;
    let ((_first, one), (_second, two)) = tokio::join!(site.start(), site.start());
    let mut sending = JoinSet::new();
    for n in 0..40 {
        for address in [one, two] {
            let call = order("acc-1", &format!("order-{n}"));
            sending.spawn(async move { (n, settled(&Client::new(address), &call).await) });
        }
    }
    let mut answers = vec![Vec::new(); 40];
    for (n, answer) in sending.join_all().await {
        assert_eq!(answer.status, 201, "{answer:?}");
        answers[n].push(id(&answer));
    }
    assert!(answers.iter().all(|ids| ids.len() == 2 && ids[0] == ids[1]), "{answers:?}");
    assert_eq!(site.kept().await, (40, 40));
}
