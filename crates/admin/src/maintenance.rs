//! `/api/sweep` and `/api/stats`.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::StatusCode;
use oncekey_core::Timestamp;
use oncekey_store::{Filter, Store, StoreError, Swept};
use serde::Serialize;

use crate::access::Caller;
use crate::answer::{Refused, json};
use crate::options::Admin;
use crate::records::{only_reason, operator};
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

    /// The counts, for the trail.
    pub fn swept(&self) -> Swept {
        Swept { deleted: self.deleted, lapsed: self.lapsed, more: false }
    }
}

/// A reading of the store's clock, taken from a listing; `None` if the store has no records, and so nothing to sweep.
pub async fn store_now(store: &dyn Store) -> Result<Option<Timestamp>, StoreError> {
    let page = store.list(&Filter::default(), None, 1).await?;
    Ok(page.records.first().map(|listed| listed.now))
}

/// `POST /api/sweep`: sweeps until nothing is left, and notes it, also when it was broken off.
pub(crate) async fn sweep(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let operator = operator(&caller, only_reason(body)?)?;
    let mut done = SweepView::default();
    let swept = sweep_all(&admin, &mut done).await;
    let noted = admin.ask(admin.store().note_sweep(done.swept(), &operator)).await;
    swept.and(noted)?;
    Ok(json(&done))
}

async fn sweep_all(admin: &Admin, done: &mut SweepView) -> Result<(), Refused> {
    if let Some(now) = admin.ask(store_now(admin.store())).await? {
        if !admin.believes(now) {
            return Err(Refused::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "The store's clock ran ahead of this node's; until it is believed again, nothing counts as expired.",
            ));
        }
        while admin.ask(done.step(admin.store(), now)).await? {}
    }
    Ok(())
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
