//! What the store can promise under the server's present settings (G1, G4).
//!
//! A setting that can't be read counts as its weakest value, unless it is declared. Where both are there, the weaker counts: a
//! declaration can't make better what the server itself says.

use std::collections::{BTreeMap, HashMap};

use oncekey_core::PromiseClass;
use oncekey_store::Promise;

use crate::error::Failure;
use crate::session::Session;

/// What can be declared: names and values, the strongest value first. All but `standbys` are the server's own settings.
const DECLARABLE: [(&str, &[&str]); 4] = [
    ("fsync", &["on", "off"]),
    ("full_page_writes", &["on", "off"]),
    ("synchronous_commit", &["remote_apply", "on", "remote_write", "local", "off"]),
    ("standbys", &["none", "synchronous", "asynchronous"]),
];

/// The settings that a promise rests on, as the store's own connections have them.
const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN \
    ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'transaction_read_only')";

/// Standbys that are there, and those that have a slot and may come back. Who may not see their state sees that they are there.
const STANDBYS: &str = "SELECT \
    (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup') + \
    (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT active)";

/// What is known about a server beside what it says of itself (G4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared(BTreeMap<&'static str, &'static str>);

/// Something that can't be declared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name} = {value}` can't be declared of PostgreSQL")]
pub struct Undeclarable {
    name: String,
    value: String,
}

impl Declared {
    /// States a setting: `fsync` and `full_page_writes` (`on`, `off`), `synchronous_commit` (`remote_apply`, `on`,
    /// `remote_write`, `local`, `off`), and what a failover may go to as `standbys` (`none`, `synchronous`: each commit is on
    /// one before it is acknowledged, `asynchronous`). Stated again, the last one counts.
    pub fn state(&mut self, name: &str, value: &str) -> Result<(), Undeclarable> {
        let known = DECLARABLE.iter().find(|(known, _)| *known == name);
        let stated = known.and_then(|(known, values)| Some((*known, *values.iter().find(|known| **known == value)?)));
        let (name, value) = stated.ok_or_else(|| Undeclarable { name: name.to_owned(), value: value.to_owned() })?;
        self.0.insert(name, value);
        Ok(())
    }
}

/// What was read of the server: settings by name, `standbys` among them. What isn't there could not be read.
#[derive(Debug, Default)]
pub(crate) struct Settings(HashMap<String, String>);

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
    Ok(Settings::of(values, standbys))
}

/// What counts of a setting, and whether that was declared, also where something better was read.
struct Known<'a> {
    value: Option<&'a str>,
    is_declared: bool,
}

impl<'a> Known<'a> {
    /// The weaker of what was read and what is declared.
    fn of(read: Option<&'a str>, declared: Option<&'static str>, values: &[&str]) -> Self {
        // What nobody knows is the weakest.
        let weakness = |value: &str| values.iter().position(|known| *known == value).unwrap_or(values.len());
        match (read, declared) {
            (Some(read), Some(declared)) if weakness(read) < weakness(declared) => {
                Self { value: Some(declared), is_declared: true }
            }
            (Some(read), _) => Self { value: Some(read), is_declared: false },
            (None, declared) => Self { value: declared, is_declared: declared.is_some() },
        }
    }
}

impl Settings {
    /// `standbys` is how many there are; `None`: may not be seen.
    fn of(mut values: HashMap<String, String>, standbys: Option<i64>) -> Self {
        let names = values.get("synchronous_standby_names").map(|names| !names.trim().is_empty());
        let kind = match (names, standbys) {
            (Some(true), _) => Some("synchronous"),
            (_, Some(0)) => Some("none"),
            (_, Some(_)) => Some("asynchronous"),
            (_, None) => None,
        };
        if let Some(kind) = kind {
            values.insert("standbys".to_owned(), kind.to_owned());
        }
        Self(values)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The class, each setting that keeps it from being `at_most_once`, and each that it rests on by declaration.
    pub(crate) fn promise(&self, declared: &Declared) -> Promise {
        let known: HashMap<_, _> = DECLARABLE
            .iter()
            .map(|(name, values)| (*name, Known::of(self.get(name), declared.0.get(name).copied(), values)))
            .collect();
        let value = |name: &str| known.get(name).and_then(|known| known.value);
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
            match value(name) {
                Some("on") => {}
                Some(other) => falls(PromiseClass::BestEffort, format!("`{name}` is {other}: {risk}")),
                None => falls(PromiseClass::BestEffort, unread(name)),
            }
        }
        if self.get("transaction_read_only") == Some("on") {
            falls(PromiseClass::BestEffort, "the server takes no writes (`transaction_read_only` is on)".to_owned());
        }
        let has_synchronous = value("standbys") == Some("synchronous");
        match value("synchronous_commit") {
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
            None => falls(PromiseClass::BestEffort, unread("synchronous_commit")),
        }
        let risk = match known.get("standbys").map(|known| (known.value, known.is_declared)) {
            Some((Some("asynchronous"), false)) => {
                Some("the server has standbys and none is synchronous (`synchronous_standby_names` is empty)")
            }
            Some((Some("asynchronous"), true)) => Some("`standbys` is declared asynchronous"),
            Some((Some(_), _)) => None,
            Some((None, _)) | None => Some(
                "it can't be read whether the server has standbys (grant pg_monitor, or declare `standbys`), and none is synchronous",
            ),
        };
        if let Some(risk) = risk {
            falls(PromiseClass::AtMostOnceUntilFailover, format!("{risk}: a failover can lose the last commits"));
        }
        let rests_on = |name: &str| known.get(name).is_some_and(|known| known.is_declared);
        let declared = declared.0.iter().filter(|(name, _)| rests_on(name)).map(|(name, value)| (*name, *value));
        Promise { class, shortfalls, declared: declared.collect() }
    }
}

fn unread(name: &str) -> String {
    format!("`{name}` can't be read, and isn't declared")
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
        Settings::of(values, standbys).promise(&Declared::default())
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
        let promise = Settings::default().promise(&Declared::default());
        assert_eq!((promise.class, promise.shortfalls.len()), (PromiseClass::BestEffort, 4));
    }

    fn declared(stated: &[(&str, &str)]) -> Declared {
        let mut declared = Declared::default();
        for (name, value) in stated {
            declared.state(name, value).expect("it can be declared");
        }
        declared
    }

    #[test]
    fn a_declaration_stands_for_what_cannot_be_read() {
        let stated = [("fsync", "on"), ("full_page_writes", "on"), ("synchronous_commit", "on"), ("standbys", "none")];
        let promise = Settings::default().promise(&declared(&stated));
        assert_eq!((promise.class, promise.shortfalls.len()), (PromiseClass::AtMostOnce, 0));
        assert_eq!(promise.declared, BTreeMap::from(stated));
        for missing in 0..stated.len() {
            let mut rest = stated.to_vec();
            rest.remove(missing);
            let promise = Settings::default().promise(&declared(&rest));
            assert!(promise.class < PromiseClass::AtMostOnce, "{promise:?}");
        }
    }

    #[test]
    fn of_what_was_read_and_what_is_declared_the_weaker_counts() {
        use PromiseClass::{AtMostOnce, AtMostOnceUntilFailover, BestEffort};
        let synchronous = ("synchronous_standby_names", "FIRST 1 (a)");
        let cases: [(&[_], Option<i64>, _, _, bool); 9] = [
            (&[("fsync", "off")], Some(0), ("fsync", "on"), BestEffort, false),
            (&[("synchronous_commit", "off")], Some(0), ("synchronous_commit", "on"), BestEffort, false),
            (&[("synchronous_commit", "on")], Some(0), ("synchronous_commit", "remote_apply"), AtMostOnce, false),
            (&[("synchronous_commit", "of a later release")], Some(0), ("synchronous_commit", "on"), BestEffort, false),
            (&[], Some(1), ("standbys", "none"), AtMostOnceUntilFailover, false),
            (&[], Some(1), ("standbys", "synchronous"), AtMostOnceUntilFailover, false),
            (&[], Some(0), ("standbys", "asynchronous"), AtMostOnceUntilFailover, true),
            (&[synchronous], None, ("standbys", "asynchronous"), AtMostOnceUntilFailover, true),
            (&[], Some(0), ("fsync", "off"), BestEffort, true),
        ];
        for (change, standbys, stated, class, rests_on_it) in cases {
            let values = SAFE.iter().chain(change).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let promise = Settings::of(values.collect(), standbys).promise(&declared(&[stated]));
            assert_eq!(promise.class, class, "{change:?} {standbys:?} {stated:?}");
            assert_eq!(!promise.declared.is_empty(), rests_on_it, "{promise:?}");
        }
    }

    #[test]
    fn nothing_else_can_be_declared() {
        for (name, value) in [("fsync", "yes"), ("appendfsync", "always"), ("standbys", "")] {
            assert!(Declared::default().state(name, value).is_err(), "{name} {value}");
        }
    }
}
