//! The index that counting goes by: there for those who count, and for nobody else.

use oncekey_store::Store;
use oncekey_store_test::{granted, samples};

use crate::place::{Place, clock};

fn indexes(place: &Place) -> Vec<String> {
    let database = rusqlite::Connection::open(place.path()).expect("a database");
    let mut names = database
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'records' AND sql IS NOT NULL ORDER BY name")
        .expect("a statement");
    let names = names.query_map([], |row| row.get(0)).expect("rows");
    names.map(|name| name.expect("a name")).collect()
}

#[tokio::test]
async fn nobody_pays_for_counting_who_does_not_count() {
    let place = Place::migrated();
    let store = place.open(clock());
    let claim = samples::claim(&samples::identity("acc-1", "k"), samples::owner());
    granted(&store.claim(claim.clone()).await);
    assert_eq!(indexes(&place), ["records_expiry", "records_open"]);
    let count = async |limit| store.count_scope(&claim.identity.namespace, &claim.identity.scope, limit).await;
    assert_eq!(count(5).await.expect("what was there before is counted too"), 1);
    assert_eq!(indexes(&place), ["records_expiry", "records_open", "records_scope"]);
    let other = place.open(clock());
    let again = other.count_scope(&claim.identity.namespace, &claim.identity.scope, 5).await;
    assert_eq!(again.expect("another process finds the index"), 1);
}
