//! `/api/sweep` and `/api/stats`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use oncekey_core::Timestamp;
use oncekey_store::{Filter, Store, StoreError};
use serde::Serialize;

use crate::answer::{Refused, json};
use crate::options::Admin;
use crate::view::StatsView;

/// Records that one step of sweeping may mark and delete: few enough not to hold up claims (D5).
const SWEEP_BATCH: u32 = 1000;

/// What a whole sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepView {
    /// Expired records deleted.
    pub deleted: u64,
    /// Lapsed claims marked `unknown`.
    pub lapsed: u64,
}

impl SweepView {
    /// Makes one step of sweeping (D5) and adds to the counts; false when nothing is left to do. `now` is a reading of the
    /// store's clock, see [`store_now`]. Dropping the future leaves a step that was begun to the store.
    pub async fn step(&mut self, store: &dyn Store, now: Timestamp) -> Result<bool, StoreError> {
        let swept = store.sweep(now, SWEEP_BATCH).await?;
        self.deleted += swept.deleted;
        self.lapsed += swept.lapsed;
        Ok(swept.more)
    }
}

/// A reading of the store's clock, taken from a listing; `None` if the store has no records, and so nothing to sweep.
pub async fn store_now(store: &dyn Store) -> Result<Option<Timestamp>, StoreError> {
    let page = store.list(&Filter::default(), None, 1).await?;
    Ok(page.records.first().map(|listed| listed.now))
}

/// `POST /api/sweep`: sweeps until nothing is left.
pub(crate) async fn sweep(State(admin): State<Arc<Admin>>) -> Result<Response, Refused> {
    let mut done = SweepView::default();
    if let Some(now) = admin.ask(store_now(admin.store())).await? {
        if !admin.believes(now) {
            return Err(Refused::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "The store's clock ran ahead of this node's; until it is believed again, nothing counts as expired.",
            ));
        }
        while admin.ask(done.step(admin.store(), now)).await? {}
    }
    Ok(json(&done))
}

/// `GET /api/stats`.
pub(crate) async fn stats(State(admin): State<Arc<Admin>>) -> Result<Response, Refused> {
    let stats = admin.ask(admin.store().stats()).await?;
    let view = {
        let classes = admin.options.classes.borrow();
        StatsView::of(stats, &classes, admin.store().describe(), &admin.options.version)
    };
    Ok(json(&view))
}
