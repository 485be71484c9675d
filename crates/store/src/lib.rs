//! The seam between oncekey and whatever keeps its records.
//!
//! A [`Store`] inserts, compares tokens and reports. It judges nothing: fingerprints, states and expiry are judged by
//! `oncekey-core` on what the store reported, by the store's own time. That keeps a store small enough to be exactly
//! right, and lets one suite (`oncekey-store-test`) prove all of them alike.
//!
//! Also here: [`MemoryStore`], which forgets everything at exit and serves tests and trials, and [`Clock`], the one home
//! of "now".

pub mod change;
pub mod fault;
pub mod kept;

mod clock;
mod error;
mod fence;
mod memory;
mod operating;
mod store;
mod transaction;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::StoreError;
pub use fence::Fence;
pub use memory::MemoryStore;
pub use operating::{
    AUDIT_AGE, AUDIT_LINES, Acted, AuditFilter, AuditLine, AuditPage, Change, Deed, Operator, Order, Purged,
    Resolution, Resolved, Subject, TOGETHER,
};
pub use store::{
    Claim, Claimed, Cursor, Filter, Found, Gauges, Listed, Outcome, Page, Promise, Recorded, Replaces, Stats, Store,
    Swept,
};
pub use transaction::{Answering, Begun, Closed, Deferred, Ending, Last, Transaction, TransactionHandle, Transactions};
