//! What oncekey-core promises its callers, through its public API only.

mod fingerprint;
mod key;
mod problem;
mod response;
mod scope;
mod standing;
mod transition;
mod vectors;
