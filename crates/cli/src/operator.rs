//! An operator's hands on records, straight on the store: list, show, resolve, purge, audit, sweep, stats.
//!
//! Functions on any `Store`; reading the command line and opening the store is left to the commands, the shapes of
//! `--json` are the admin API's ([`oncekey_admin::view`]). A running gateway needs no telling: what is changed here is seen
//! by every node within `cache_for` (R8).

mod audit;
mod change;
mod console;
mod list;
mod maintain;
pub(crate) mod screen;
mod show;
mod user;

pub(crate) use audit::audit;
pub(crate) use change::{Change, Selection, purge, resolve};
pub(crate) use console::Console;
pub(crate) use list::list;
pub(crate) use maintain::{stats, sweep};
pub(crate) use show::{Detail, One, show};
pub(crate) use user::user;

use crate::opening::failure as store_failure;

#[cfg(test)]
mod tests;
