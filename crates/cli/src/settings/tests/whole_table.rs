//! What holds for each setting of the table, so that a new one is tested by being there.

use std::collections::BTreeSet;

use super::{of, of_file, refusal};
use crate::settings::kind::Kind;
use crate::settings::place::Place;
use crate::settings::stated::{Stated, built_in};
use crate::settings::table::{Level, SETTINGS, Setting, Since};
use crate::settings::written::Written;
use crate::settings::{Environment, Loaded, Purpose, Sources, resolve};

/// A text that suits a kind and is nobody's default.
fn sample(setting: &Setting) -> String {
    match setting.kind {
        Kind::Duration(..) => "7m".to_owned(),
        Kind::Seconds(..) => "7s".to_owned(),
        Kind::Size(..) => "77777".to_owned(),
        Kind::Count(..) => "77".to_owned(),
        Kind::Number(numbers) => numbers[1].to_string(),
        Kind::Flag => (setting.default == Some("false")).to_string(),
        Kind::Word(words) => words[1].to_owned(),
        Kind::Text | Kind::Any | Kind::Namespace => "other".to_owned(),
        Kind::Path | Kind::TypeBase => "/other".to_owned(),
        Kind::AnswerHeaders => "{ X-Other = \"other, too\", X-Another = \"other\" }".to_owned(),
        Kind::ProbeUrl => "http://other/{scope}/{key}".to_owned(),
        Kind::ProbeHeaders => "{ X-Other = \"other\", X-Another = \"env:OTHER\" }".to_owned(),
        Kind::Address => "127.0.0.1:7777".to_owned(),
        Kind::File => "other.pem".to_owned(),
        Kind::ServerName => "other.example".to_owned(),
        Kind::Upstream => "http://other:7777".to_owned(),
        Kind::Store => "sqlite:other.db".to_owned(),
        Kind::Secret => "file:other".to_owned(),
        Kind::KeyHeader => "X-Other".to_owned(),
        Kind::KeyHeaders | Kind::Headers | Kind::FingerprintHeaders => "x-other,x-another".to_owned(),
        Kind::Pointers => "/other,/another/0".to_owned(),
        Kind::Scope => "static:other,header:X-Other".to_owned(),
        Kind::Texts => "other,another".to_owned(),
        Kind::Jwks => "https://other/jwks".to_owned(),
        Kind::Statuses => "409,4xx".to_owned(),
        Kind::Methods => "PUT".to_owned(),
    }
}

/// What is stated when one setting is, whatever else it needs beside it.
fn alone(file: &str, environment: Environment) -> Result<Loaded, String> {
    let sources = Sources { environment, purpose: Purpose::Operate, ..Sources::default() };
    resolve(Some(("oncekey.toml", file)), &sources).map_err(|refused| refused.to_string())
}

/// A file in which a setting has a value, and the line and the column that the value is at.
fn file_with(setting: &Setting, level: Level, value: &str) -> (String, String) {
    let (head, name) = match level {
        Level::Top | Level::Everywhere => match setting.name.split_once('.') {
            Some((section, name)) => (format!("# a comment\n[{section}]\n"), name),
            None => ("# a comment\n\n".to_owned(), setting.name),
        },
        Level::Route => ("# a comment\n[defaults]\n".to_owned(), setting.name),
        Level::OneRoute => ("# a comment\n[[route]]\n".to_owned(), setting.name),
    };
    let line = format!("{name} = ");
    (format!("{head}{line}{value}\n"), format!("oncekey.toml:3:{}", line.len() + 1))
}

/// The levels of a file at which a setting may stand.
fn levels(setting: &Setting) -> Vec<Level> {
    match setting.level {
        Level::Route => vec![Level::Route, Level::OneRoute],
        Level::Everywhere => vec![Level::Top, Level::Route, Level::OneRoute],
        level => vec![level],
    }
}

fn shown(setting: &Setting, level: Level) -> String {
    match level {
        Level::Top | Level::Everywhere => setting.name.to_owned(),
        Level::Route => format!("defaults.{}", setting.name),
        Level::OneRoute => format!("route.{}", setting.name),
    }
}

fn of_this_version() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.since == Since::Now)
}

#[test]
fn every_default_and_every_bound_is_right() {
    for setting in SETTINGS {
        if setting.since == Since::Now {
            assert_eq!(built_in(setting).is_some(), setting.default.is_some(), "{}", setting.name);
        }
        match setting.kind {
            Kind::Duration(least, most) | Kind::Seconds(least, most) | Kind::Size(least, most) => {
                for bound in [least, most] {
                    assert!(setting.kind.read(&Written::Text(bound.to_owned())).is_ok(), "{}: {bound}", setting.name);
                }
            }
            _ => {}
        }
        if let Since::LaterBut(stated) = setting.since {
            let value = toml::de::DeValue::parse(stated).expect(stated);
            let written = Written::from_toml(value.get_ref());
            assert!(setting.kind.read(&written).is_ok(), "{}: {stated}", setting.name);
            assert_eq!(written.to_string(), stated, "{}", setting.name);
        }
    }
}

#[test]
fn no_two_settings_share_a_name_or_a_variable() {
    let mut names = BTreeSet::new();
    let mut variables = BTreeSet::new();
    for setting in SETTINGS {
        assert!(names.insert(setting.name), "{}", setting.name);
        if let Some(variable) = setting.variable() {
            assert!(variables.insert(variable.clone()), "{variable}");
        }
    }
}

#[test]
fn every_setting_is_reached_by_its_variable() {
    for setting in of_this_version() {
        let Some(variable) = setting.variable() else { continue };
        let text = sample(setting);
        let environment = Environment::from([(variable.as_str(), text.as_str())]);
        let mut loaded = alone("", environment).expect(setting.name);
        let assigned = &loaded.stated.layer(setting)[setting.name];
        let expected = setting.kind.read(&setting.kind.written(&text)).expect(setting.name);
        assert_eq!(assigned.value, expected, "{}", setting.name);
        assert_ne!(
            Some(&assigned.value),
            built_in(setting).map(|built_in| built_in.value).as_ref(),
            "{}",
            setting.name
        );
        assert_eq!(assigned.place, Place::Environment(variable), "{}", setting.name);
    }
}

#[test]
fn every_setting_is_reached_by_the_file() {
    for setting in of_this_version() {
        for level in levels(setting) {
            let written = setting.kind.written(&sample(setting));
            let (text, place) = file_with(setting, level, &written.to_string());
            let loaded = alone(&text, Environment::default()).expect(&text);
            let Stated { top, defaults, routes } = &loaded.stated;
            let layer = match level {
                Level::Top | Level::Everywhere => top,
                Level::Route => defaults,
                Level::OneRoute => &routes[0].own,
            };
            assert_eq!(layer[setting.name].written, written, "{text}");
            assert_eq!(layer[setting.name].place.to_string(), place, "{text}");
        }
    }
}

#[test]
fn a_wrong_value_of_any_setting_is_refused_with_its_place_its_key_and_what_is_allowed() {
    for setting in of_this_version() {
        for level in levels(setting) {
            let (text, place) = file_with(setting, level, "1.5");
            let refusal = refusal(&text);
            assert!(refusal.starts_with(&format!("{place}: {}: ", shown(setting, level))), "{refusal}");
            assert!(refusal.ends_with(&format!("; allowed: {}", setting.kind.allowed())), "{refusal}");
        }
        if let Some(variable) = setting.variable() {
            // Any text is a text, or names a namespace, a file or a secret's place, so an empty one has to be the wrong one.
            let of_any_text =
                matches!(setting.kind, Kind::File | Kind::Namespace | Kind::Secret | Kind::Text | Kind::Texts);
            let wrong = if of_any_text { "" } else { "b{d" };
            let refusal = of("", Environment::from([(variable.as_str(), wrong)]), Vec::new()).expect_err(setting.name);
            assert!(refusal.starts_with(&format!("environment {variable}: {}: ", setting.name)), "{refusal}");
            assert!(refusal.contains("; allowed: ") || matches!(setting.kind, Kind::Secret), "{refusal}");
        }
    }
}

#[test]
fn a_number_out_of_bounds_is_refused_at_both_ends() {
    for setting in of_this_version() {
        let wrong: &[&str] = match setting.kind {
            Kind::Duration("0s", _) | Kind::Seconds(..) => &["\"9999d\""],
            Kind::Duration(..) => &["\"0s\"", "\"9999d\""],
            Kind::Size("0B", _) => &["-1", "\"9999GiB\""],
            Kind::Size(..) => &["0", "\"9999GiB\""],
            Kind::Count(0, _) => &["-1", "999_999_999"],
            Kind::Count(..) => &["0", "999_999_999"],
            _ => continue,
        };
        for value in wrong {
            let (text, _) = file_with(setting, setting.level, value);
            assert!(refusal(&text).contains(" is out of range; allowed: "), "{text}");
        }
    }
}

#[test]
fn what_is_not_in_this_version_is_refused_wherever_it_stands() {
    for setting in SETTINGS.iter().filter(|setting| setting.since == Since::Later) {
        for level in levels(setting) {
            let (text, _) = file_with(setting, level, "\"anything\"");
            let refusal = refusal(&text);
            assert!(refusal.starts_with("oncekey.toml:"), "{refusal}");
            assert!(refusal.ends_with(": not in this version"), "{refusal}");
        }
        let variable = setting.variable().expect("none of them belongs to one route alone");
        let refusal = of("", Environment::from([(variable.as_str(), "anything")]), Vec::new()).expect_err(setting.name);
        assert_eq!(refusal, format!("environment {variable}: {}: not in this version", setting.name));
    }
}

#[test]
fn a_later_setting_may_state_what_this_version_does_and_nothing_else() {
    for setting in SETTINGS {
        let Since::LaterBut(stated) = setting.since else { continue };
        let other = match setting.kind {
            Kind::Flag => "true".to_owned(),
            kind => kind.written(&sample(setting)).to_string(),
        };
        for level in levels(setting) {
            let (text, _) = file_with(setting, level, stated);
            assert!(of_file(&text).is_ok(), "{text}");
            let (text, place) = file_with(setting, level, &other);
            let expected =
                format!("{place}: {}: {other} is not in this version; allowed: {stated}", shown(setting, level));
            assert_eq!(refusal(&text), expected);
        }
    }
}
