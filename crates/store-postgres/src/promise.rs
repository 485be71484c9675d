//! What the store can promise under the server's present settings (G1, G4).

use std::collections::HashMap;

use oncekey_core::PromiseClass;
use oncekey_store::Promise;

use crate::error::Failure;
use crate::session::Session;

/// The settings that a promise rests on, as the store's own connections have them.
const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN \
    ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'transaction_read_only')";

/// Standbys that are there, and those that have a slot and may come back. Who may not see their state sees that they are there.
const STANDBYS: &str = "SELECT \
    (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup') + \
    (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT active)";

/// What was read of the server.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    values: HashMap<String, String>,
    /// `None`: may not be seen.
    standbys: Option<i64>,
}

pub(crate) async fn read(session: &Session) -> Result<Settings, Failure> {
    let mut values = HashMap::new();
    for row in session.read(SETTINGS, &[]).await? {
        values.insert(row.try_get(0)?, row.try_get(1)?);
    }
    let standbys = match session.read(STANDBYS, &[]).await {
        Ok(rows) => rows.first().map(|row| row.try_get(0)).transpose()?,
        Err(failure) if failure.refused_with().is_some() => None,
        Err(failure) => return Err(failure),
    };
    Ok(Settings { values, standbys })
}

impl Settings {
    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The class, and each setting that keeps it from being `at_most_once`. What can't be read counts as its weakest value.
    pub(crate) fn promise(&self) -> Promise {
        let mut class = PromiseClass::AtMostOnce;
        let mut shortfalls = Vec::new();
        let mut falls = |to: PromiseClass, why: String| {
            class = class.min(to);
            shortfalls.push(why);
        };
        for (name, risk) in [
            ("fsync", "a crash of the server's machine can take any record"),
            ("full_page_writes", "a crash of the server's machine can damage the tables"),
        ] {
            match self.get(name) {
                Some("on") => {}
                Some(other) => falls(PromiseClass::BestEffort, format!("`{name}` is {other}: {risk}")),
                None => falls(PromiseClass::BestEffort, format!("`{name}` can't be read")),
            }
        }
        if self.get("transaction_read_only") == Some("on") {
            falls(PromiseClass::BestEffort, "the server takes no writes (`transaction_read_only` is on)".to_owned());
        }
        let has_synchronous = self.get("synchronous_standby_names").is_some_and(|names| !names.trim().is_empty());
        let has_standbys = self.standbys.is_none_or(|standbys| standbys > 0);
        match self.get("synchronous_commit") {
            Some("on" | "remote_apply") => {}
            Some("remote_write") if has_synchronous => falls(
                PromiseClass::AtMostOnceUntilFailover,
                "`synchronous_commit` is remote_write: a standby's machine that crashes can lose what a failover then lacks"
                    .to_owned(),
            ),
            // Without synchronous standbys all of these wait for the server's own disk.
            Some("remote_write" | "local") if !has_synchronous => {}
            Some("local") => falls(
                PromiseClass::AtMostOnceUntilFailover,
                "`synchronous_commit` is local: commits don't wait for the synchronous standbys".to_owned(),
            ),
            Some(other) => falls(
                PromiseClass::BestEffort,
                format!("`synchronous_commit` is {other}: a crash of the server takes the last commits"),
            ),
            None => falls(PromiseClass::BestEffort, "`synchronous_commit` can't be read".to_owned()),
        }
        if has_standbys && !has_synchronous {
            let standbys = match self.standbys {
                Some(_) => "the server has standbys and none is synchronous (`synchronous_standby_names` is empty)",
                None => "it can't be read whether the server has standbys (grant pg_monitor), and none is synchronous",
            };
            falls(PromiseClass::AtMostOnceUntilFailover, format!("{standbys}: a failover can lose the last commits"));
        }
        Promise { class, shortfalls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFE: [(&str, &str); 5] = [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("synchronous_standby_names", ""),
        ("transaction_read_only", "off"),
    ];

    fn promise(change: &[(&str, &str)], standbys: Option<i64>) -> Promise {
        let values = SAFE.iter().chain(change).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings { values, standbys }.promise()
    }

    #[test]
    fn each_weak_setting_lowers_the_class_and_is_named() {
        use PromiseClass::{AtMostOnce, AtMostOnceUntilFailover, BestEffort};
        let synchronous = ("synchronous_standby_names", "FIRST 1 (a)");
        let cases: [(&[_], Option<i64>, _, &str); 13] = [
            (&[], Some(0), AtMostOnce, ""),
            (&[synchronous], Some(2), AtMostOnce, ""),
            (&[synchronous], None, AtMostOnce, ""),
            (&[synchronous, ("synchronous_commit", "remote_apply")], Some(1), AtMostOnce, ""),
            (&[("synchronous_commit", "local")], Some(0), AtMostOnce, ""),
            (&[("synchronous_commit", "remote_write")], Some(0), AtMostOnce, ""),
            (&[], Some(1), AtMostOnceUntilFailover, "synchronous_standby_names"),
            (&[], None, AtMostOnceUntilFailover, "pg_monitor"),
            (&[synchronous, ("synchronous_commit", "local")], Some(1), AtMostOnceUntilFailover, "local"),
            (&[synchronous, ("synchronous_commit", "remote_write")], Some(1), AtMostOnceUntilFailover, "remote_write"),
            (&[("synchronous_commit", "off")], Some(0), BestEffort, "synchronous_commit"),
            (&[("fsync", "off")], Some(0), BestEffort, "fsync"),
            (&[("full_page_writes", "off")], Some(0), BestEffort, "full_page_writes"),
        ];
        for (change, standbys, class, named) in cases {
            let promise = promise(change, standbys);
            assert_eq!(promise.class, class, "{change:?} {standbys:?}");
            assert_eq!(promise.shortfalls.is_empty(), class == AtMostOnce, "{promise:?}");
            assert!(promise.shortfalls.iter().all(|why| why.contains(named)), "{promise:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_counts_as_its_weakest() {
        assert_eq!(Settings::default().promise().class, PromiseClass::BestEffort);
    }
}
