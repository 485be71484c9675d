//! What all sources together say: for each setting its value and the place that it came from, by precedence.

use std::collections::BTreeMap;

use super::kind::Wrong;
use super::place::Place;
use super::table::{Level, SETTINGS, Setting, Since};
use super::value::Value;
use super::written::Written;

/// One setting's value.
#[derive(Clone, Debug)]
pub(crate) struct Assigned {
    /// What it means.
    pub(crate) value: Value,
    /// How it was written.
    pub(crate) written: Written,
    /// Where it stands.
    pub(crate) place: Place,
}

/// Values by the name of their setting.
pub(crate) type Layer = BTreeMap<&'static str, Assigned>;

/// A configuration, with the origin of each value.
#[derive(Clone, Debug)]
pub(crate) struct Stated {
    /// The top of the file and its sections.
    pub(crate) top: Layer,
    /// What every route starts from.
    pub(crate) defaults: Layer,
    /// The routes; empty: the one route `*`.
    pub(crate) routes: Vec<StatedRoute>,
}

/// What a `[[route]]` says itself.
#[derive(Clone, Debug)]
pub(crate) struct StatedRoute {
    /// Where it begins.
    pub(crate) place: Place,
    /// Its own values.
    pub(crate) own: Layer,
}

impl Stated {
    /// The built-in values.
    pub(crate) fn built_in() -> Self {
        let layer = |level| -> Layer {
            let of_level = SETTINGS.iter().filter(|setting| setting.level == level);
            of_level.filter_map(|setting| Some((setting.name, built_in(setting)?))).collect()
        };
        let top = layer(Level::Top).into_iter().chain(layer(Level::Everywhere)).collect();
        Self { top, defaults: layer(Level::Route), routes: Vec::new() }
    }

    /// The layer that a source outside the file writes into: over all that the file says for every route.
    pub(crate) fn layer(&mut self, setting: &Setting) -> &mut Layer {
        if setting.level == Level::Top { &mut self.top } else { &mut self.defaults }
    }
}

/// The built-in value of a setting that has one.
pub(crate) fn built_in(setting: &Setting) -> Option<Assigned> {
    let written = setting.kind.written(setting.default?);
    let value = setting.kind.read(&written).expect("a test reads every default of the table");
    Some(Assigned { value, written, place: Place::Default })
}

/// Takes a written value for a setting, if it suits it and this version has it.
pub(crate) fn admit(setting: &Setting, written: Written, place: &Place) -> Result<Assigned, Wrong> {
    if setting.since == Since::Later {
        return Err(Wrong::from("not in this version".to_owned()));
    }
    let read = setting.kind.read(&written).map_err(|wrong| match setting.since {
        Since::LaterBut(stated) => Wrong { what: format!("{}; allowed: {stated}", wrong.what), ..wrong },
        _ => Wrong { what: format!("{}; allowed: {}", wrong.what, setting.kind.allowed()), ..wrong },
    })?;
    match setting.since {
        Since::LaterBut(stated) if written.to_string() != stated => {
            Err(Wrong::from(format!("{written} is not in this version; allowed: {stated}")))
        }
        _ => Ok(Assigned { value: read, written, place: place.clone() }),
    }
}
