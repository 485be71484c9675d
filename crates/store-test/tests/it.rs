//! The suite against itself: its list is complete, broken stores are caught, and the faulty store fails as told.

#[path = "it/broken.rs"]
mod broken;
#[path = "it/controls.rs"]
mod controls;
#[path = "it/faulty.rs"]
mod faulty;
#[path = "it/listed.rs"]
mod listed;
#[path = "it/transactions.rs"]
mod transactions;
