//! The suite that every oncekey store must pass, written once, and a store that fails on command.
//!
//! A store runs the whole suite by one line in its tests, with a function that makes a [`Fixture`]:
//!
//! ```
//! # use std::sync::Arc;
//! # use oncekey_store::MemoryStore;
//! # use oncekey_store_test::{Fixture, START};
//! fn memory() -> Fixture {
//!     Fixture::new(|clock| Arc::new(MemoryStore::new(clock)))
//! }
//! # #[cfg(test)]
//! oncekey_store_test::suite!(memory);
//! # let _ = memory();
//! ```
//!
//! Where a store has transactions in which handlers work (G3), [`transaction_suite!`] runs the cases about those, with a function
//! that makes a [`TransactionFixture`].
//!
//! Each case is an `async fn(Fixture)` in [`cases`] that panics when the store is wrong, so that a test of the suite
//! itself can hand it a broken store and demand the panic. The macros hold the one list of them; a test compares it
//! with the sources. What a store alone can show (files, settings, its own faults) is left to its own tests.

#![expect(clippy::missing_panics_doc, reason = "panicking is how a test reports; each doc says what is demanded")]

pub mod cases;
pub mod samples;

mod expect;
mod faulty;
mod fixture;
mod gate;
mod scripted;
mod suite;
mod transacting;

pub use expect::{fenced, granted, held, written};
pub use faulty::{Fault, FaultyStore, Op};
pub use fixture::{Fixture, LEASE, START};
pub use gate::Gate;
pub use scripted::{BeginFault, Buffer, EndFault, ScriptedTransactions};
pub use transacting::{Rows, TransactionFixture, opened};
