//! `oncekey sweep` and `oncekey stats`.

use oncekey_admin::view::StatsView;
use oncekey_admin::{SweepView, store_now};
use oncekey_store::{Operator, Store, StoreError};

use crate::config::GuardedRoute;
use crate::exit::Failure;
use crate::gateway::classes_of;
use crate::operator::console::Console;
use crate::operator::screen::{table, visible};
use crate::operator::store_failure;

/// Sweeps until nothing is left: deletes what has expired, marks lapsed claims `unknown` (D5). The store's clock is
/// believed; a running gateway, which knows more about it, may not (E9). It is noted, also when it was broken off.
pub(crate) async fn sweep(store: &dyn Store, operator: &Operator, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut done = SweepView::default();
    let swept = sweep_all(store, &mut done).await;
    let noted = store.note_sweep(done.swept(), operator).await;
    swept.and(noted).map_err(|error| store_failure(&error))?;
    if console.json {
        console.print_json(&done)?;
    } else {
        let rows = [("deleted", done.deleted), ("lapsed", done.lapsed)];
        console.print(&table(&rows.map(|(name, number)| [name.to_owned(), number.to_string()])))?;
    }
    Ok(())
}

async fn sweep_all(store: &dyn Store, done: &mut SweepView) -> Result<(), StoreError> {
    if let Some(now) = store_now(store).await? {
        while done.step(store, now).await? {}
    }
    Ok(())
}

/// Prints counts, sizes and what is promised: by the routes, where a configuration tells them, else by the store.
pub(crate) async fn stats(
    store: &dyn Store,
    routes: &[GuardedRoute],
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let stats = store.stats().await.map_err(|error| store_failure(&error))?;
    let promise = store.promise().await.map_err(|error| store_failure(&error))?;
    let classes = classes_of(routes, &promise);
    let view = StatsView::of(stats, &classes, store.describe(), env!("CARGO_PKG_VERSION"));
    if console.json { console.print_json(&view) } else { console.print(&rows(&view)) }.map(drop)
}

fn rows(view: &StatsView) -> String {
    let states = view.records.iter().map(|(state, number)| [(*state).to_owned(), number.to_string()]);
    let rest = [
        ("bytes", view.bytes.to_string()),
        ("class", view.class.to_owned()),
        ("store", visible(&view.store)),
        ("version", view.version.clone()),
    ];
    let rest = rest.map(|(name, value)| [name.to_owned(), value]);
    let classes =
        view.classes.iter().map(|(route, class)| [format!("class of {}", visible(route)), (*class).to_owned()]);
    let declared = view.declared.iter().map(|(setting, value)| [format!("declared {setting}"), (*value).to_owned()]);
    table(&states.chain(rest).chain(classes).chain(declared).collect::<Vec<_>>())
}
