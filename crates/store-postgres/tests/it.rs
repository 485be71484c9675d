//! The store against real servers: the shared suite on the oldest and the newest release, directly and through PgBouncer, and
//! what only this store can show.

#[path = "it/batching.rs"]
mod batching;
#[path = "it/cuts.rs"]
mod cuts;
#[path = "it/faults.rs"]
mod faults;
#[path = "it/place.rs"]
mod place;
#[path = "it/plans.rs"]
mod plans;
#[path = "it/prepared.rs"]
mod prepared;
#[path = "it/schema.rs"]
mod schema;
#[path = "it/scopes.rs"]
mod scopes;
#[path = "it/seed.rs"]
mod seed;
#[path = "it/standbys.rs"]
mod standbys;
#[cfg(feature = "tower")]
#[path = "it/steps.rs"]
mod steps;
#[path = "it/tls.rs"]
mod tls;
#[cfg(feature = "sqlx")]
#[path = "it/transactions.rs"]
mod transactions;
#[path = "it/transitions.rs"]
mod transitions;

mod postgres_15 {
    use crate::place::direct_15;
    oncekey_store_test::suite!(direct_15);
}

mod postgres_18 {
    use crate::place::direct_18;
    oncekey_store_test::suite!(direct_18);
}

mod pgbouncer {
    use crate::place::pooled;
    oncekey_store_test::suite!(pooled);
}
