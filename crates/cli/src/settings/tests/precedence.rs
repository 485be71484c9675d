//! Flags beat the environment, the environment beats the file, the file beats what is built in.

use super::{of, of_file};
use crate::settings::{Environment, Flag, Loaded};

fn lines_about<'a>(shown: &'a str, name: &str) -> Vec<&'a str> {
    shown.lines().filter(|line| line.starts_with(&format!("{name} = "))).collect()
}

fn only_line(loaded: &Loaded, name: &str) -> String {
    let shown = loaded.show();
    let lines = lines_about(&shown, name);
    assert_eq!(lines.len(), 1, "{shown}");
    lines[0].split_whitespace().collect::<Vec<_>>().join(" ")
}

fn flag(name: &'static str, setting: &'static str, text: &str) -> Vec<Flag> {
    vec![Flag { name, setting, text: text.to_owned() }]
}

#[test]
fn each_source_beats_the_one_before_and_is_named_as_the_origin() {
    let file = "\nupstream = \"http://file\"\n";
    let environment = || Environment::from([("ONCEKEY_UPSTREAM", "http://environment")]);
    let built_in = of_file("").expect("right");
    assert_eq!(only_line(&built_in, "upstream"), "upstream = \"http://127.0.0.1:3000\" # default");
    let from_file = of_file(file).expect("right");
    assert_eq!(only_line(&from_file, "upstream"), "upstream = \"http://file\" # file oncekey.toml:2");
    let from_environment = of(file, environment(), Vec::new()).expect("right");
    assert_eq!(
        only_line(&from_environment, "upstream"),
        "upstream = \"http://environment\" # environment ONCEKEY_UPSTREAM"
    );
    let from_flag = of(file, environment(), flag("--upstream", "upstream", "http://flag")).expect("right");
    assert_eq!(only_line(&from_flag, "upstream"), "upstream = \"http://flag\" # flag --upstream");
    assert_eq!(from_flag.config.upstream.url.to_string(), "http://flag");
}

#[test]
fn the_environment_sets_what_routes_start_from_and_not_what_a_route_says_itself() {
    let file = "[defaults]\nwait = \"2s\"\n[[route]]\npath = \"/a\"\n[[route]]\npath = \"/b\"\nwait = \"3s\"\n";
    let loaded = of(file, Environment::from([("ONCEKEY_WAIT", "4s")]), Vec::new()).expect("right");
    let waits: Vec<_> = loaded.config.routes.iter().map(|guarded| guarded.route.policy.timing.wait.as_secs()).collect();
    assert_eq!(waits, [4, 3]);
}

#[test]
fn a_wrong_flag_is_refused_by_its_name() {
    let refused = of("", Environment::default(), flag("--listen", "listen", "8080")).expect_err("wrong");
    assert_eq!(
        refused,
        "flag --listen: listen: `8080` is no address with a port; allowed: IP:PORT, like 127.0.0.1:8080 or [::1]:8080"
    );
}

#[test]
fn lists_in_the_environment_stand_between_commas_or_in_brackets() {
    let environment = Environment::from([
        ("ONCEKEY_SCOPE", "header:X-Merchant, static:all"),
        ("ONCEKEY_RETRY_STATUS", "[429, \"5xx\"]"),
        ("ONCEKEY_UNKNOWN_STATUS", ""),
    ]);
    let loaded = of("", environment, Vec::new()).expect("right");
    assert_eq!(
        only_line(&loaded, "scope"),
        "scope = [\"header:X-Merchant\", \"static:all\"] # environment ONCEKEY_SCOPE"
    );
    let recording = &loaded.config.routes[0].route.policy.recording;
    assert!(recording.retry_status.contains(429) && recording.retry_status.contains(599));
    assert_eq!(recording.unknown_status.codes().count(), 0);
}

#[test]
fn a_variable_that_is_nearly_a_settings_is_refused_and_a_stranger_warned_about() {
    let refused = of("", Environment::from([("ONCEKEY_LISTN", "127.0.0.1:1")]), Vec::new()).expect_err("a typo");
    assert_eq!(refused, "environment ONCEKEY_LISTN: no such setting; did you mean `ONCEKEY_LISTEN`?");
    let environment = Environment::from([("ONCEKEY_SERVICE_HOST", "10.0.0.1"), ("ONCEKEY_PORT", "tcp://10.0.0.1:80")]);
    let warnings = of("", environment, Vec::new()).expect("strangers are let be").warnings;
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "environment ONCEKEY_PORT: sets nothing; no setting has this name",
            "environment ONCEKEY_SERVICE_HOST: sets nothing; no setting has this name"
        ]
    );
}

#[test]
fn a_variable_that_a_reference_names_is_the_users_own() {
    let file = "[admin]\ntoken = \"env:ONCEKEY_ADMIN_TOKE\"\n";
    let loaded = of(file, Environment::from([("ONCEKEY_ADMIN_TOKE", "s3cret")]), Vec::new()).expect("right");
    assert!(loaded.warnings.is_empty());
}

#[test]
fn the_tokens_own_variable_may_hold_the_token_and_it_is_never_shown() {
    for file in ["", "[admin]\ntoken = \"env:ONCEKEY_ADMIN_TOKEN\"\n", "[admin]\ntoken = \"file:/nowhere\"\n"] {
        let environment = Environment::from([("ONCEKEY_ADMIN_TOKEN", "s3cret")]);
        let loaded = of(file, environment.clone(), Vec::new()).expect("right");
        assert!(loaded.admin_tokens(&environment).expect("it is there").act.is_some());
        assert_eq!(
            only_line(&loaded, "token"),
            "token = \"env:ONCEKEY_ADMIN_TOKEN\" # environment ONCEKEY_ADMIN_TOKEN"
        );
        assert!(!format!("{loaded:?}").contains("s3cret"));
    }
}

#[test]
fn a_token_that_is_named_and_not_there_is_refused() {
    let file = "[admin]\ntoken = \"env:TOKEN\"\n";
    let token = |environment: Environment| {
        let loaded = of(file, environment.clone(), Vec::new()).expect("right");
        loaded.admin_tokens(&environment).map(drop).map_err(|refused| refused.to_string())
    };
    let place = "oncekey.toml:2:9: admin.token: ";
    assert_eq!(token(Environment::default()), Err(format!("{place}TOKEN is not set")));
    assert_eq!(token(Environment::from([("TOKEN", "")])), Err(format!("{place}env:TOKEN is empty")));
    let unfit = token(Environment::from([("TOKEN", "two words")]));
    assert_eq!(unfit, Err(format!("{place}env:TOKEN must hold 1 to 4096 visible ASCII characters")));
    assert!(token(Environment::from([("TOKEN", "s3cret")])).is_ok());
}

#[test]
fn a_token_can_be_kept_in_a_file() {
    let kept = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(kept.path(), "s3cret\n").expect("written");
    let file = format!("[admin]\ntoken = \"file:{}\"\n", kept.path().display());
    let loaded = of_file(&file).expect("right");
    let tokens = loaded.admin_tokens(&Environment::default()).expect("it is there");
    assert!(tokens.act.is_some() && tokens.read.is_none());
}
