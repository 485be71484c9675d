//! The engine on the memory store: what it executes, what it answers, and what it leaves in the records.

#[path = "it/broken_store.rs"]
mod broken_store;
#[path = "it/upstream.rs"]
mod upstream;
#[path = "it/world.rs"]
mod world;

#[path = "it/expiry.rs"]
mod expiry;
#[path = "it/failing.rs"]
mod failing;
#[path = "it/lapsing.rs"]
mod lapsing;
#[path = "it/logs.rs"]
mod logs;
#[path = "it/mismatch.rs"]
mod mismatch;
#[path = "it/nodes.rs"]
mod nodes;
#[path = "it/once.rs"]
mod once;
#[path = "it/one_execution.rs"]
mod one_execution;
#[path = "it/owning.rs"]
mod owning;
#[path = "it/probing.rs"]
mod probing;
#[path = "it/quota.rs"]
mod quota;
#[path = "it/replaying.rs"]
mod replaying;
#[path = "it/retrying.rs"]
mod retrying;
#[path = "it/shutdown.rs"]
mod shutdown;
#[path = "it/store_faults.rs"]
mod store_faults;
#[path = "it/streaming.rs"]
mod streaming;
#[path = "it/transactions.rs"]
mod transactions;
#[path = "it/unguarded.rs"]
mod unguarded;
#[path = "it/unrecorded.rs"]
mod unrecorded;
#[path = "it/waiting.rs"]
mod waiting;
