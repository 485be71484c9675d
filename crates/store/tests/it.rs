//! The memory store against the suite of all stores.

use std::sync::Arc;

use oncekey_core::PromiseClass;
use oncekey_store::MemoryStore;
use oncekey_store_test::{Fixture, suite};

fn memory() -> Fixture {
    Fixture::new(|clock| Arc::new(MemoryStore::new(clock)))
}

suite!(memory);

#[tokio::test]
async fn memory_promises_best_effort_and_says_why() {
    let promise = memory().store.promise().await.expect("a promise");
    assert_eq!(promise.class, PromiseClass::BestEffort);
    assert!(promise.shortfalls[0].contains("`memory:`"), "{promise:?}");
}
