//! What watches oncekey: the real `/metrics`, the rules and alerts of `deploy/prometheus`, their runbooks, the dashboard. Each name in one is
//! a name in the others, and promtool has the last word on what Prometheus would say.

mod exposition;
mod promtool;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use exposition::{Exposition, names_in};
use promtool::{check_metrics, check_rules, rule_file, test_rules};

/// A path in the repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What follows `before` up to the end of its line, for each line that begins so.
fn after<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(before)).collect()
}

/// The names of the alerts.
fn alerts() -> Vec<String> {
    after(&text("deploy/prometheus/rules.yml"), "- alert: ").into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_real_output_has_every_metric_of_the_surface_and_promtool_has_nothing_to_say() {
    let (exposition, text) = Exposition::of_a_run().await;
    exposition.assert_has_the_surface();
    check_metrics(&text).unwrap_or_else(|said| panic!("{said}"));
    assert!(check_metrics("# TYPE requests counter\nrequests 1\n").is_err(), "promtool objects to a bad name");
}

#[test]
fn promtool_finds_the_rules_right_and_their_tests_pass() {
    check_rules(&[file("deploy/prometheus/parameters.yml"), file("deploy/prometheus/rules.yml")])
        .unwrap_or_else(|said| panic!("{said}"));
    let tests = std::fs::read_dir(file("deploy/prometheus/tests")).expect("tests");
    let tests: Vec<_> = tests.map(|test| test.expect("a file").path()).collect();
    test_rules(&tests).unwrap_or_else(|said| panic!("{said}"));
}

/// With a threshold that nothing reaches, the tests of an alert fail.
#[test]
fn a_parameter_that_silences_an_alert_fails_its_test() {
    let folder = oncekey_testkit::scratch_dir().expect("a directory");
    let copy = |path: &str, text: &str| {
        let to = folder.path().join(path);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        std::fs::write(&to, text).expect("written");
        to
    };
    copy("rules.yml", &text("deploy/prometheus/rules.yml"));
    let test = copy("tests/a.yml", &text("deploy/prometheus/tests/OncekeyProcessingTooOld.yml"));
    let parameters = text("deploy/prometheus/parameters.yml");
    copy("parameters.yml", &parameters);
    test_rules(&[&test]).expect("as they are");
    let before = "labels: {name: processing_seconds}\n        expr: 300";
    assert!(parameters.contains(before));
    copy("parameters.yml", &parameters.replace(before, "labels: {name: processing_seconds}\n        expr: 90000"));
    assert!(test_rules(&[&test]).is_err());
}

#[test]
fn each_alert_has_a_page_a_test_that_fires_it_and_tests_in_which_it_is_silent() {
    let (rules, healthy, pages) = (
        text("deploy/prometheus/rules.yml"),
        text("deploy/prometheus/tests/healthy.yml"),
        text("docs/runbooks/README.md"),
    );
    let alerts = alerts();
    assert_eq!(alerts.len(), 13);
    for alert in &alerts {
        let page = text(&format!("docs/runbooks/{alert}.md"));
        assert!(page.starts_with(&format!("# `{alert}`: ")), "{alert}");
        for part in ["## Whose trouble it is\n", "## What to do\n"] {
            assert!(page.contains(part), "{alert}: {part}");
        }
        assert!(pages.contains(&format!("[`{alert}`]({alert}.md)")), "{alert} is listed");
        assert!(rules.contains(&format!("runbook: docs/runbooks/{alert}.md")), "{alert} names its page");
        let tests = text(&format!("deploy/prometheus/tests/{alert}.yml"));
        let expected =
            |text: &str, what: &str| text.contains(&format!("alertname: {alert}\n        exp_alerts:{what}"));
        assert!(expected(&tests, "\n          - exp_labels:"), "{alert} fires");
        assert!(expected(&healthy, " []"), "{alert} is silent when all is well");
    }
    let runbooks = std::fs::read_dir(file("docs/runbooks")).expect("pages").count();
    assert_eq!(runbooks, alerts.len() + 1, "no page without an alert");
    let tests = std::fs::read_dir(file("deploy/prometheus/tests")).expect("tests").count();
    assert_eq!(tests, alerts.len() + 1, "no test without an alert");
}

#[test]
fn each_class_has_its_rank() {
    let rules = text("deploy/prometheus/rules.yml");
    for class in oncekey_core::PromiseClass::ALL {
        assert!(rules.contains(&format!("oncekey_promise_class{{class=\"{class}\"}}")), "{class}");
    }
}

#[test]
fn each_parameter_is_defined_once_and_used() {
    let (parameters, rules) = (text("deploy/prometheus/parameters.yml"), text("deploy/prometheus/rules.yml"));
    let defined = after(&parameters, "labels: {name: ");
    let defined: Vec<_> = defined.iter().map(|name| name.trim_end_matches('}')).collect();
    let used: BTreeSet<_> =
        rules.split("alert_parameter{name=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(defined.iter().copied().collect::<BTreeSet<_>>(), used);
    assert_eq!(defined.len(), used.len(), "one place each");
}

#[tokio::test]
async fn rules_and_dashboard_name_only_what_is_there() {
    let (exposition, _) = Exposition::of_a_run().await;
    let rules = text("deploy/prometheus/rules.yml") + &text("deploy/prometheus/parameters.yml");
    let recorded: BTreeSet<_> = after(&rules, "- record: ").into_iter().collect();
    let is_there = |name: &str| exposition.has(name) || recorded.contains(name);
    let unknown = |text: &str| -> Vec<String> {
        names_in(text).into_iter().filter(|name| !is_there(name)).map(str::to_owned).collect()
    };
    // What a group is called is no metric.
    let rules: Vec<_> = rules.lines().filter(|line| !line.trim_start().starts_with("- name:")).collect();
    assert_eq!(unknown(&rules.join("\n")), [""; 0]);
    for expression in dashboard_expressions() {
        assert_eq!(unknown(&expression), [""; 0], "{expression}");
    }
    assert_eq!(unknown("rate(oncekey_request_total[5m])"), ["oncekey_request_total"], "a slip is found");
    assert_eq!(unknown("oncekey:repeat:ratio5m"), ["oncekey:repeat:ratio5m"], "a slip is found");
}

fn dashboard() -> serde_json::Value {
    serde_json::from_str(&text("deploy/grafana/oncekey.json")).expect("JSON")
}

fn panels(dashboard: &serde_json::Value) -> &Vec<serde_json::Value> {
    dashboard["panels"].as_array().expect("panels")
}

/// Its expressions with values in place of its variables.
fn dashboard_expressions() -> Vec<String> {
    let dashboard = dashboard();
    let targets = panels(&dashboard).iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions = targets.map(|target| target["expr"].as_str().expect("an expression"));
    let given = |expression: &str| {
        let with = [("$job", ".*"), ("$route", ".*"), ("$__rate_interval", "5m")];
        with.iter().fold(expression.to_owned(), |text, (variable, value)| text.replace(variable, value))
    };
    expressions.map(given).collect()
}

#[test]
fn the_dashboard_can_be_imported_as_it_is_and_its_expressions_parse() {
    let dashboard = dashboard();
    assert!(
        dashboard["id"].is_null() && dashboard.get("uid").is_none(),
        "nothing that another Grafana would have to know"
    );
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let source = variables.iter().find(|variable| variable["type"] == "datasource").expect("a data source to choose");
    assert_eq!((source["name"].as_str(), source["query"].as_str()), (Some("datasource"), Some("prometheus")));
    let mut ids = BTreeSet::new();
    for panel in panels(&dashboard) {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
            assert!(panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{panel}");
        }
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().zip(place["w"].as_u64()).is_some_and(|(x, width)| x + width <= 24), "{panel}");
    }
    let rows: Vec<_> = panels(&dashboard).iter().filter(|panel| panel["type"] == "row").collect();
    assert_eq!(rows.len(), 5);
    let expressions = dashboard_expressions();
    assert!(expressions.len() > 30 && expressions.iter().all(|expression| !expression.contains('$')));
    let folder = oncekey_testkit::scratch_dir().expect("a directory");
    let check = |expressions: &[String]| check_rules(&[rule_file(folder.path(), expressions)]);
    check(&expressions).unwrap_or_else(|said| panic!("{said}"));
    assert!(check(&["sum(rate(oncekey_swept_total[5m])".to_owned()]).is_err(), "what doesn't parse is found");
}
