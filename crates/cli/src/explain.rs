//! `oncekey explain`: what the gateway would make of a request, and what makes two requests differ.
//!
//! Nothing is sent and no store is opened. Reading the files is [`file`]'s, showing the result is [`report`]'s.

mod file;
mod report;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use bytes::Bytes;
use http::request;
use oncekey_core::fingerprint::{Body, Canonical, Difference, Operation};
use oncekey_core::problem::{Code, Problem, Style};
use oncekey_core::{Identity, Namespace, Recipe};
use oncekey_tower::{Guard, Inspection, Route, Routes};

use crate::config::{Config, GuardedRoute};
use crate::exit::Failure;
use crate::operator::Console;
use file::Written;

/// Explains one request, or two and what makes them differ. Fails (exit 1) if the gateway would refuse one, or if the second
/// is no retry of the first.
pub(crate) async fn run(files: &[PathBuf], config: &Config, console: &mut Console<'_>) -> Result<(), Failure> {
    let routes = config.routes.iter().map(GuardedRoute::unverified).collect();
    let routes = Routes::new(routes).map_err(Failure::usage)?;
    let mut requests = Vec::new();
    for path in files {
        let request = file::read(path).await?;
        for note in &request.notes {
            console.say(&format!("{}: {note}", path.display()));
        }
        let explained = Explained::of(request, &routes, &config.store.namespace);
        if explained.needs_verifying() {
            console.say(&format!("{}: a scope that the gateway verifies can't be read from a file", path.display()));
        }
        requests.push(explained);
    }
    explain(&requests, console)
}

/// Shows the requests, the second under the recipe of the first: that is how the gateway compares a retry (F9).
fn explain(requests: &[Explained<'_>], console: &mut Console<'_>) -> Result<(), Failure> {
    let bodies: Vec<_> = requests.iter().map(Explained::body).collect();
    let recipe = requests.first().map(Explained::recipe).unwrap_or_default();
    let forms: Vec<_> =
        requests.iter().zip(&bodies).map(|(request, body)| request.canonical(body.as_ref(), &recipe)).collect();
    let differences = match (requests, forms.as_slice()) {
        ([one, other], [Some(ours), Some(theirs)]) => {
            Some(one.differences(other).into_iter().chain(Difference::between(ours, theirs)).collect())
        }
        _ => None,
    };
    let verdict = verdict(requests, differences.as_deref());
    let report = report::Report::new(requests, &forms, differences);
    if console.json {
        console.print_json(&report)?
    } else {
        console.print(&report.text())?
    };
    verdict.map_err(Failure::failed)
}

fn verdict(requests: &[Explained<'_>], differences: Option<&[Difference]>) -> Result<(), &'static str> {
    if requests.iter().any(|request| request.problem.is_some()) {
        return Err(if requests.len() == 1 { "the gateway would refuse it" } else { "the gateway would refuse one" });
    }
    match differences {
        None => Ok(()),
        Some([]) if requests.iter().all(Explained::has_record) => Ok(()),
        Some([]) => Err("they pass untouched, and each is executed"),
        Some(_) => Err("they are two operations"),
    }
}

/// A request, and what the gateway would do with it.
struct Explained<'a> {
    head: request::Parts,
    /// `None`: it isn't whole.
    body: Option<Bytes>,
    /// The route that guards it.
    route: Option<&'a Route>,
    /// The record that it names.
    identity: Option<Identity>,
    /// Its key as sent, where the gateway knows no more.
    sent_key: Option<String>,
    /// With what it would be refused.
    problem: Option<Problem>,
}

impl<'a> Explained<'a> {
    fn of(request: Written, routes: &'a Routes, namespace: &Namespace) -> Self {
        let Written { head, body, refused, .. } = request;
        let mut explained = Self { head, body, route: None, identity: None, sent_key: None, problem: None };
        match routes.inspect(&explained.head, namespace) {
            Inspection::Unguarded => {}
            Inspection::NoKey(route) => explained.route = Some(route),
            Inspection::Refused(route, problem, key) => {
                explained.route = Some(route);
                explained.problem = Some(problem);
                explained.sent_key = key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
            }
            Inspection::Keyed(route, identity) => {
                explained.route = Some(route);
                explained.problem = explained.wrong_body(route.guard.max_request);
                explained.identity = Some(identity);
            }
        }
        // What is wrong with it as HTTP is found before all else.
        explained.problem = refused.map(|what| Problem::because(Code::RequestInvalid, what)).or(explained.problem);
        explained
    }

    /// What is wrong with the body of a keyed request.
    fn wrong_body(&self, max: u64) -> Option<Problem> {
        let Some(body) = &self.body else {
            return Some(Problem::body_incomplete("the body was cut short or is framed wrongly"));
        };
        if body.len() as u64 > max {
            return Some(Problem::body_too_large(max));
        }
        Body::decode(&self.head.headers, body, max).is_err().then(|| Problem::decoded_too_large(max))
    }

    /// Whether there would be a record of it, without which nothing is a retry.
    const fn has_record(&self) -> bool {
        self.identity.is_some()
    }

    /// Whether no scope was found, and one could come out of what only the gateway sees: a verified token or certificate.
    fn needs_verifying(&self) -> bool {
        let verified = |source: &str| source.starts_with("jwt:") || source == "client-cert";
        self.problem.as_ref().is_some_and(|problem| problem.code == Code::ScopeMissing)
            && self.route.is_some_and(|route| route.guard.scope.iter().any(|reader| verified(reader.source())))
    }

    fn recipe(&self) -> Recipe {
        self.route.map(|route| route.guard.recipe.clone()).unwrap_or_default()
    }

    fn style(&self) -> Style {
        self.route.map(|route| route.own_answers.style.clone()).unwrap_or_default()
    }

    /// Its body, unless it isn't whole, or larger than it may be once it is decoded.
    fn body(&self) -> Option<Body<'_>> {
        let max = self.route.map_or(Guard::default().max_request, |route| route.guard.max_request);
        Body::decode(&self.head.headers, self.body.as_ref()?, max).ok()
    }

    fn canonical<'b>(&'b self, body: Option<&'b Body<'b>>, recipe: &'b Recipe) -> Option<Canonical<'b>> {
        let operation = Operation {
            method: &self.head.method,
            path: self.head.uri.path(),
            query: self.head.uri.query(),
            headers: &self.head.headers,
            body: body?,
        };
        Some(Canonical::of(&operation, recipe))
    }

    /// What makes the records differ that two requests name; with the same fingerprint they are still two operations.
    fn differences(&self, other: &Self) -> Vec<Difference> {
        let key = |of: &Self| {
            of.identity.as_ref().map(|identity| identity.key.as_str().to_owned()).or_else(|| of.sent_key.clone())
        };
        let scope = |of: &Self| {
            of.identity.as_ref().map(|Identity { scope, .. }| format!("{} ({})", scope.value(), scope.source()))
        };
        let compared = [("key", [key(self), key(other)]), ("scope", [scope(self), scope(other)])];
        let differing = compared.into_iter().filter(|(_, values)| values[0] != values[1]);
        differing.map(|(part, values)| Difference { part, name: String::new(), values }).collect()
    }
}
