//! The effective configuration as a file that says the same, each line with its value's origin.

use std::fmt::Write as _;

use super::address::StoreUrl;
use super::stated::{Assigned, Layer, Stated};
use super::table::{Level, SETTINGS, Setting, Since};
use super::value::Value;
use super::written::Written;

/// The configuration as TOML. Secrets are not in it, since settings only name where they are kept; of a store's URL, which may
/// hold a password, the place is shown.
pub(crate) fn show(stated: &Stated) -> String {
    let mut shown = String::new();
    for section in sections() {
        let of_section = |setting: &&Setting| {
            matches!(setting.level, Level::Top | Level::Everywhere) && section_of(setting) == section
        };
        head(&mut shown, section);
        lines(&mut shown, &stated.top, SETTINGS.iter().filter(of_section));
    }
    head(&mut shown, "defaults");
    lines(
        &mut shown,
        &stated.defaults,
        SETTINGS.iter().filter(|setting| {
            setting.level == Level::Route
                || (setting.level == Level::Everywhere && stated.defaults.contains_key(setting.name))
        }),
    );
    for route in &stated.routes {
        let _ = writeln!(shown, "\n[[route]]  # {}", route.place.origin());
        let own = SETTINGS.iter().filter(|setting| route.own.contains_key(setting.name));
        lines(&mut shown, &route.own, own);
    }
    if stated.routes.is_empty() {
        shown.push_str("\n# no [[route]]: POST, PUT, PATCH and DELETE are guarded on every path\n");
    }
    shown
}

/// The sections of this version in the order of the table; first that of the settings that stand in none.
fn sections() -> Vec<&'static str> {
    let mut sections = Vec::new();
    let of_top = |setting: &&Setting| setting.level == Level::Top && setting.since == Since::Now;
    for section in SETTINGS.iter().filter(of_top).map(section_of) {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    sections
}

fn section_of(setting: &Setting) -> &'static str {
    setting.name.split_once('.').map_or("", |(section, _)| section)
}

fn head(shown: &mut String, section: &str) {
    if !section.is_empty() {
        let _ = writeln!(shown, "\n[{section}]");
    }
}

/// One line a setting; where it came from stands in a column of its own, so that it can be read down.
fn lines<'a>(shown: &mut String, layer: &Layer, settings: impl Iterator<Item = &'a Setting>) {
    let lines: Vec<_> = settings.filter_map(|setting| line(setting, layer.get(setting.name))).collect();
    let width = lines.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0).min(60);
    for (text, origin) in lines {
        let _ = writeln!(shown, "{text:width$}  # {origin}");
    }
}

fn line(setting: &Setting, assigned: Option<&Assigned>) -> Option<(String, String)> {
    let name = match setting.level {
        Level::Top => setting.name.rsplit('.').next().unwrap_or(setting.name),
        Level::Route | Level::Everywhere | Level::OneRoute => setting.name,
    };
    match assigned {
        Some(Assigned { value: Value::Store(url @ StoreUrl::Postgres(_)), place, .. }) => {
            let origin = format!("{}; user, password and parameters aren't shown", place.origin());
            Some((format!("{name} = {}", Written::Text(url.to_string())), origin))
        }
        Some(assigned) => Some((format!("{name} = {}", assigned.written), assigned.place.origin())),
        None if setting.since == Since::Now => Some((format!("# {name} is not set"), "default".to_owned())),
        None => None,
    }
}
