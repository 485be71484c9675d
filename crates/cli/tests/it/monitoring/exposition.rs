//! The `/metrics` of a real gateway, taken apart.

use std::collections::{BTreeMap, BTreeSet};

use oncekey_testkit::{Call, CountingUpstream};

use crate::gateway::stand::{Gateway, order};

/// Every metric of the surface, and what belongs to it besides: kind and labels.
const SURFACE: [(&str, &str, &[&str]); 23] = [
    ("oncekey_requests_total", "counter", &["route", "outcome"]),
    ("oncekey_problems_total", "counter", &["route", "code"]),
    ("oncekey_build_info", "gauge", &["version"]),
    ("oncekey_store_up", "gauge", &[]),
    ("oncekey_promise_class", "gauge", &["class"]),
    ("oncekey_config_last_reload_successful", "gauge", &[]),
    ("oncekey_wait_seconds", "histogram", &["route"]),
    ("oncekey_execution_seconds", "histogram", &["route"]),
    ("oncekey_overhead_seconds", "histogram", &["route"]),
    ("oncekey_store_seconds", "histogram", &["op"]),
    ("oncekey_records", "gauge", &["state"]),
    ("oncekey_store_bytes", "gauge", &[]),
    ("oncekey_processing_oldest_seconds", "gauge", &[]),
    ("oncekey_async_backlog", "gauge", &[]),
    ("oncekey_inflight", "gauge", &[]),
    ("oncekey_waiters", "gauge", &[]),
    ("oncekey_swept_total", "counter", &[]),
    ("oncekey_fenced_writes_total", "counter", &[]),
    ("oncekey_takeovers_total", "counter", &[]),
    ("oncekey_store_errors_total", "counter", &[]),
    ("oncekey_sweep_lag_seconds", "gauge", &[]),
    ("oncekey_lapsed_total", "counter", &[]),
    ("oncekey_store_clock_ahead", "gauge", &[]),
];

/// A text in Prometheus' format.
pub(super) struct Exposition {
    kinds: BTreeMap<String, String>,
    labels: BTreeMap<String, BTreeSet<String>>,
}

impl Exposition {
    /// Of a gateway that has done a little of everything; and the text itself.
    pub(super) async fn of_a_run() -> (Self, String) {
        let upstream = CountingUpstream::start().await;
        let gateway = Gateway::start(&upstream.url(), "[[route]]\npath = \"/orders\"\n").await;
        for call in [order("a"), order("a"), order("b").header("x-test-cut", "rst"), Call::get("/orders")] {
            gateway.send(&call).await;
        }
        let text = String::from_utf8(gateway.ask("/metrics").await.body.to_vec()).expect("UTF-8");
        gateway.end().await;
        (Self::parse(&text), text)
    }

    fn parse(text: &str) -> Self {
        let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let kinds: BTreeMap<_, _> = kinds.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
        let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let end = line.find(['{', ' ']).expect("a name");
            let of = labels.entry(base(&kinds, &line[..end]).to_owned()).or_default();
            let inside =
                line[end..].strip_prefix('{').and_then(|rest| rest.split_once("} ")).map_or("", |(inside, _)| inside);
            let names = inside.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name);
            of.extend(names.filter(|name| *name != "le").map(str::to_owned));
        }
        Self { kinds, labels }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.kinds.contains_key(base(&self.kinds, name))
    }

    /// Exactly those names, kinds and labels.
    pub(super) fn assert_has_the_surface(&self) {
        let found: BTreeMap<_, _> = self
            .kinds
            .iter()
            .map(|(name, kind)| {
                let labels: BTreeSet<_> = self.labels.get(name).into_iter().flatten().map(String::as_str).collect();
                (name.as_str(), (kind.as_str(), labels))
            })
            .collect();
        let wanted =
            SURFACE.map(|(name, kind, labels)| (name, (kind, labels.iter().copied().collect::<BTreeSet<_>>())));
        assert_eq!(found, wanted.into());
    }
}

/// The histogram that a series belongs to, or its own name.
fn base<'a>(kinds: &BTreeMap<String, String>, series: &'a str) -> &'a str {
    let of = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| series.strip_suffix(suffix));
    of.filter(|name| kinds.get(*name).is_some_and(|kind| kind == "histogram")).unwrap_or(series)
}

/// The metrics of oncekey, and what rules make of them, that a text names.
pub(super) fn names_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || "_:".contains(character)));
    let words = words.map(|word| word.trim_end_matches(':'));
    words.filter(|word| word.starts_with("oncekey_") || word.starts_with("oncekey:")).collect()
}
