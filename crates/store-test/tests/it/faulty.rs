//! The faulty store fails as told, and only then.

use std::sync::Arc;

use oncekey_store::{Claim, MemoryStore, Store, StoreError};
use oncekey_store_test::{Fault, FaultyStore, Fixture, Op, granted, samples, suite};
use tokio::task::JoinSet;

fn untold() -> Fixture {
    Fixture::new(|clock| Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock)))))
}

mod without_a_command_it_is_its_inner_store {
    use super::*;
    suite!(untold);
}

fn faulty() -> (Arc<FaultyStore>, Arc<MemoryStore>, Claim) {
    let clock = Arc::new(oncekey_store::ManualClock::at(oncekey_store_test::START));
    let inner = Arc::new(MemoryStore::new(clock));
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    (Arc::new(FaultyStore::new(inner.clone())), inner, claim)
}

async fn is_there(store: &MemoryStore, claim: &Claim) -> bool {
    store.read(claim.identity.id()).await.expect("read").is_some()
}

#[tokio::test]
async fn each_fault_is_what_it_says() {
    let (store, inner, claim) = faulty();
    store.fail_next(Op::Claim, Fault::NotApplied);
    store.fail_next(Op::Claim, Fault::RequestLost);
    store.fail_next(Op::Claim, Fault::ReplyLost);
    assert!(matches!(store.claim(claim.clone()).await, Err(StoreError::NotApplied(_))));
    assert!(matches!(store.claim(claim.clone()).await, Err(StoreError::MayHaveBeenApplied(_))));
    assert!(!is_there(&inner, &claim).await);
    assert!(matches!(store.claim(claim.clone()).await, Err(StoreError::MayHaveBeenApplied(_))));
    assert!(is_there(&inner, &claim).await);
    assert_eq!(granted(&store.claim(claim.clone()).await), 1);
    assert_eq!((store.calls(Op::Claim), store.calls(Op::Read)), (4, 0));
}

#[tokio::test]
async fn a_lasting_fault_lasts_until_healed() {
    let (store, _, claim) = faulty();
    store.fail_always(Op::Read, Fault::Corrupt);
    for _ in 0..3 {
        assert!(matches!(store.read(claim.identity.id()).await, Err(StoreError::Corrupt(_))));
    }
    store.heal(Op::Read);
    assert!(store.read(claim.identity.id()).await.expect("healed").is_none());
}

#[tokio::test]
async fn a_gate_holds_a_call_before_or_after_it_is_applied() {
    let (store, inner, claim) = faulty();
    for (gate, applied) in [(store.hold_before(Op::Claim), false), (store.hold_after(Op::Claim), true)] {
        let mut tasks = JoinSet::new();
        let (holding, held) = (store.clone(), claim.clone());
        tasks.spawn(async move { holding.claim(held).await });
        gate.reached().await;
        assert_eq!(is_there(&inner, &claim).await, applied);
        gate.open();
        assert!(tasks.join_all().await.iter().all(|answer| granted(answer) == 1));
    }
}
