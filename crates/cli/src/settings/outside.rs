//! The sources outside the file: environment variables and flags.

use std::collections::BTreeMap;

use super::address::SecretRef;
use super::environment::Environment;
use super::kind::Kind;
use super::place::{Place, Remark};
use super::stated::{Assigned, Stated, admit};
use super::suggestion::closest;
use super::table::{Level, SETTINGS, Setting, find};
use super::value::Value;

/// A flag that sets a setting.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    /// The flag, with its dashes.
    pub(crate) name: &'static str,
    /// The setting that it sets, one of the top level.
    pub(crate) setting: &'static str,
    /// What it was given.
    pub(crate) text: String,
}

/// Adds what the environment says. Returns what is wrong with it.
pub(crate) fn apply_environment(environment: &Environment, stated: &mut Stated) -> Vec<Remark> {
    let mut wrong = Vec::new();
    for setting in SETTINGS {
        let Some(variable) = setting.variable().filter(|variable| environment.has(variable)) else { continue };
        let place = Place::Environment(variable.clone());
        let text = environment.get(&variable).and_then(|text| reference(setting, &variable, text.unwrap_or_default()));
        match text.and_then(|text| assign(setting, &text, &place)) {
            Ok(assigned) => {
                stated.layer(setting).insert(setting.name, assigned);
            }
            Err(what) => wrong.push(Remark::new(&place, setting.name, what)),
        }
    }
    wrong
}

/// Adds what flags say. Returns what is wrong with them.
pub(crate) fn apply_flags(flags: &[Flag], stated: &mut Stated) -> Vec<Remark> {
    let mut wrong = Vec::new();
    for flag in flags {
        let setting = find(Level::Top, flag.setting).expect("a test finds the setting of every flag");
        let place = Place::Flag(flag.name);
        match assign(setting, &flag.text, &place) {
            Ok(assigned) => {
                stated.top.insert(setting.name, assigned);
            }
            Err(what) => wrong.push(Remark::new(&place, setting.name, what)),
        }
    }
    wrong
}

fn assign(setting: &Setting, text: &str, place: &Place) -> Result<Assigned, String> {
    admit(setting, setting.kind.written(text), place).map_err(|wrong| wrong.what)
}

/// A secret's own variable may hold the secret itself: the environment is a place where secrets are kept. The setting is
/// then a reference to that variable, so that nothing ever shows the secret.
fn reference(setting: &Setting, variable: &str, text: &str) -> Result<String, String> {
    if !matches!(setting.kind, Kind::Secret) || text.starts_with("file:") {
        return Ok(text.to_owned());
    }
    let itself = SecretRef::Environment(variable.to_owned()).to_string();
    match text {
        "" => Err("it is empty".to_owned()),
        _ if text == itself => Err("it names itself; put the secret here".to_owned()),
        _ if text.starts_with("env:") => Ok(text.to_owned()),
        _ => Ok(itself),
    }
}

/// Judges `ONCEKEY_…` variables that are no setting's. One that is close to a setting's name is refused: a typo that is
/// silently passed over is a setting that silently isn't there. Any other is only worth a warning, since such names also
/// come from elsewhere (Kubernetes sets `ONCEKEY_SERVICE_HOST` beside a service called `oncekey`). A variable that an
/// `env:` reference names is the user's own.
pub(crate) fn strangers(environment: &Environment, stated: &Stated) -> (Vec<Remark>, Vec<Remark>) {
    let known: Vec<String> = SETTINGS.iter().filter_map(Setting::variable).collect();
    let layers = [&stated.top, &stated.defaults].into_iter().chain(stated.routes.iter().map(|route| &route.own));
    let referred: Vec<&str> = layers.flat_map(BTreeMap::values).flat_map(referred_variables).collect();
    let (mut refused, mut warned) = (Vec::new(), Vec::new());
    for name in environment.names().filter(|name| name.starts_with("ONCEKEY_")) {
        if known.iter().any(|known| known == name) || referred.contains(&name) {
            continue;
        }
        let place = Place::Environment(name.to_owned());
        match closest(&name["ONCEKEY_".len()..], known.iter().map(|known| &known["ONCEKEY_".len()..])) {
            Some(near) => {
                refused.push(Remark::new(&place, "", format!("no such setting; did you mean `ONCEKEY_{near}`?")));
            }
            None => warned.push(Remark::new(&place, "", "sets nothing; no setting has this name")),
        }
    }
    (refused, warned)
}

fn referred_variables(assigned: &Assigned) -> Vec<&str> {
    match &assigned.value {
        Value::Secret(SecretRef::Environment(name)) => vec![name],
        Value::ProbeHeaders(headers) => headers.variables().collect(),
        _ => Vec::new(),
    }
}
