//! The oncekey protocol as values and pure functions.
//!
//! This crate decides; it does nothing. It has no runtime, no I/O, no clock and no randomness: time is passed in as a
//! [`Timestamp`], tokens are made by the caller. What it decides:
//!
//! - what a valid [`Key`] and [`Scope`] are (rules K, S), and which record they name ([`Identity`], [`RecordId`]);
//! - when two requests are the same operation ([`fingerprint`], rules F);
//! - which state a [`Record`] is in and what may happen to it next ([`standing`], [`transition()`], rules E);
//! - which upstream answers are recorded, and what of them ([`policy`], [`response`], rules E7, E8, R3);
//! - which [`Problem`] a client sees (rules P).
//!
//! The one decision: stores only insert, compare tokens and report. Every judgement about a record is made here, on the
//! record as the store reported it and on the store's own time. The price is a second round trip to the store when a
//! `failed` or expired record is claimed again; that is rare, and in return no store can judge differently from another.
//!
//! ```
//! use oncekey_core::{Key, KeyFormat};
//! let quoted = Key::parse(b"\"abc\"", KeyFormat::Any)?;
//! let bare = Key::parse(b"abc", KeyFormat::Any)?;
//! assert_eq!(quoted, bare);
//! # Ok::<(), oncekey_core::KeyError>(())
//! ```

pub mod fingerprint;
pub mod policy;
pub mod problem;
pub mod response;

mod class;
mod field_name;
mod identity;
mod json_text;
mod key;
pub mod record;
mod scope;
mod timestamp;
mod token;
mod trace_context;
mod transition;

pub use class::PromiseClass;
pub use fingerprint::{Fingerprint, Recipe};
pub use identity::{Identity, InvalidNamespace, InvalidRecordId, Namespace, RecordId};
pub use key::{Key, KeyError, KeyFormat};
pub use problem::Problem;
pub use record::{Record, Standing, State, standing};
pub use response::RecordedResponse;
pub use scope::{Scope, ScopeError, ScopeSource, ScopeSourceError};
pub use timestamp::Timestamp;
pub use token::{OwnerId, Token};
pub use trace_context::{InvalidTraceContext, TraceContext};
pub use transition::{Event, Refusal, transition};
