//! The reference in the documentation is what the table says.

use std::fmt::Write as _;

use crate::settings::table::{Level, SETTINGS, Setting, Since};

const REFERENCE: &str = include_str!("../../../../../docs/configuration.md");

/// The rows of the reference for one level, as the documentation has them.
fn rows(level: Level) -> String {
    let mut rows = String::from("| setting | allowed | default | environment | what it is |\n|---|---|---|---|---|\n");
    for setting in SETTINGS.iter().filter(|setting| setting.level == level && setting.since == Since::Now) {
        let Setting { name, kind, about, .. } = setting;
        let default = setting.default.map_or("–".to_owned(), |default| match default {
            "" => "`[]`".to_owned(),
            _ => format!("`{}`", kind.written(default)),
        });
        let variable = setting.variable().map_or("–".to_owned(), |variable| format!("`{variable}`"));
        let allowed = kind.allowed();
        let _ = writeln!(rows, "| `{name}` | {allowed} | {default} | {variable} | {about} |");
    }
    rows
}

/// The list of what this version does not have.
fn later() -> String {
    let mut later = String::new();
    for setting in SETTINGS {
        let _ = match setting.since {
            Since::Now => Ok(()),
            Since::Later => writeln!(later, "- `{}`", setting.name),
            Since::LaterBut(stated) => writeln!(later, "- `{}`; only `{stated}` is accepted", setting.name),
        };
    }
    later
}

#[test]
fn the_reference_has_every_setting_with_its_values_its_default_and_its_variable() {
    for part in [rows(Level::Top), rows(Level::Everywhere), rows(Level::Route), rows(Level::OneRoute), later()] {
        assert!(REFERENCE.contains(&part), "docs/configuration.md must hold:\n\n{part}");
    }
}
