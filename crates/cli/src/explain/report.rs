//! What `explain` prints: for people, and with `--json` for scripts.

use std::fmt::Write as _;

use oncekey_core::fingerprint::{Canonical, Difference};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Explained;
use crate::operator::screen::{visible, visible_lines};

/// How many characters of a differing value are shown to people.
const MOST_SHOWN: usize = 200;

/// All that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    requests: Vec<One>,
    /// Whether the second is a retry of the first, which takes a record; with one request, or one that can't be read, null.
    same: Option<bool>,
    differences: Option<Vec<Differing>>,
}

/// One request.
#[derive(Debug, Serialize)]
struct One {
    /// The route that guards it, as it is configured; null: none does.
    route: Option<String>,
    key: Option<String>,
    scope: Option<String>,
    scope_source: Option<String>,
    operation_id: Option<String>,
    /// How the fingerprint is made; null where there is none.
    recipe: Option<String>,
    fingerprint: Option<String>,
    /// As what the body is read.
    read_as: Option<&'static str>,
    canonical: Option<String>,
    /// The problem that the gateway would answer with; null: it takes the request.
    problem: Option<Refusal>,
    /// Whether it would pass without being looked at: unguarded, or without a key.
    passes: bool,
}

/// A problem as the gateway gives it.
#[derive(Debug, Serialize)]
struct Refusal {
    status: u16,
    code: &'static str,
    detail: String,
    body: Box<RawValue>,
}

/// A difference.
#[derive(Debug, Serialize)]
struct Differing {
    part: &'static str,
    name: String,
    values: [Option<String>; 2],
}

impl Report {
    pub(super) fn new(
        requests: &[Explained<'_>],
        forms: &[Option<Canonical<'_>>],
        differences: Option<Vec<Difference>>,
    ) -> Self {
        let differing = |Difference { part, name, values }| Differing { part, name, values };
        Self {
            requests: requests.iter().zip(forms).map(|(request, form)| One::of(request, form.as_ref())).collect(),
            same: differences.as_ref().map(|found| found.is_empty() && requests.iter().all(Explained::has_record)),
            differences: differences.map(|differences| differences.into_iter().map(differing).collect()),
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (index, request) in self.requests.iter().enumerate() {
            if self.requests.len() > 1 {
                let _ = writeln!(text, "{}# request {}", if index > 0 { "\n" } else { "" }, index + 1);
            }
            request.write(&mut text);
        }
        match &self.differences {
            None => {}
            Some(differences) if differences.is_empty() => text.push_str(match self.same {
                Some(true) => "\nthe second is a retry of the first\n",
                _ => "\nnothing differs, but only a request with a record (a guarded route, a key, a scope) has retries\n",
            }),
            Some(differences) => {
                text.push_str("\nthe second is no retry of the first:\n");
                for difference in differences {
                    difference.write(&mut text);
                }
            }
        }
        text
    }
}

impl One {
    fn of(request: &Explained<'_>, form: Option<&Canonical<'_>>) -> Self {
        let identity = request.identity.as_ref();
        let fingerprint = form.map(Canonical::fingerprint);
        Self {
            route: request.route.map(|route| route.policy.route.clone()),
            key: identity.map(|of| of.key.as_str().to_owned()).or_else(|| request.sent_key.clone()),
            scope: identity.map(|of| of.scope.value().to_owned()),
            scope_source: identity.map(|of| of.scope.source().to_owned()),
            operation_id: identity.map(|of| of.id().to_string()),
            recipe: fingerprint.as_ref().map(|fingerprint| fingerprint.recipe().to_string()),
            fingerprint: fingerprint.as_ref().map(ToString::to_string),
            read_as: form.map(Canonical::kind),
            canonical: form.map(ToString::to_string),
            problem: request.problem.as_ref().map(|problem| {
                let style = request.style();
                let body = String::from_utf8(problem.body(&style)).expect("a problem is JSON");
                Refusal {
                    status: style.status(problem.code).as_u16(),
                    code: problem.code.as_str(),
                    detail: problem.detail.clone(),
                    body: RawValue::from_string(body).expect("a problem is JSON"),
                }
            }),
            passes: identity.is_none() && request.problem.is_none(),
        }
    }

    fn write(&self, text: &mut String) {
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<11}  {}", visible(value));
        };
        line("route", self.route.as_deref().unwrap_or("none guards it: it passes untouched"));
        if let Some(Refusal { status, code, detail, .. }) = &self.problem {
            line("refused", &format!("{status} {code}: {detail}"));
        }
        match &self.key {
            Some(key) => line("key", key),
            None if self.passes && self.route.is_some() => line("key", "none: it passes untouched"),
            None => {}
        }
        if let (Some(scope), Some(source)) = (&self.scope, &self.scope_source) {
            line("scope", &format!("{scope} ({source})"));
        }
        for (name, value) in
            [("operation", &self.operation_id), ("recipe", &self.recipe), ("fingerprint", &self.fingerprint)]
        {
            if let Some(value) = value {
                line(name, value);
            }
        }
        if let Some(canonical) = &self.canonical {
            let _ = write!(text, "\n{}", visible_lines(canonical));
        }
    }
}

impl Differing {
    fn write(&self, text: &mut String) {
        let part = if self.part == "json" { "JSON" } else { self.part }.replace('_', " ");
        let name = if self.name.is_empty() { String::new() } else { format!(" {}", visible(&self.name)) };
        let _ = writeln!(text, "  {part}{name}");
        for (sign, value) in ["-", "+"].into_iter().zip(&self.values) {
            let _ = match value {
                Some(value) => writeln!(text, "    {sign} {}", visible(&shortened(value))),
                None => writeln!(text, "    {sign} (nothing)"),
            };
        }
    }
}

fn shortened(value: &str) -> String {
    match value.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}
