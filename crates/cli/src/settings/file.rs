//! The configuration file: its shape (top, sections, `[defaults]`, `[[route]]`), and where in it things stand. What a
//! value may be is the table's matter.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use super::place::{Place, Remark};
use super::stated::{Layer, Stated, StatedRoute, admit};
use super::suggestion::suggest;
use super::table::{Level, SETTINGS, Setting, Since, find};
use super::written::{Written, item_span};

/// The largest file that is read, in bytes.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// The most routes of a file.
const MOST_ROUTES: usize = 1000;

/// The most errors of syntax that are told: one that is missed makes many of what follows.
const MOST_SYNTAX_ERRORS: usize = 10;

/// Reads the file's text.
pub(crate) fn read(path: &Path) -> Result<String, Remark> {
    let refuse = |text: String| Remark::new(&Place::WholeFile(path.display().to_string().into()), "", text);
    let size = std::fs::metadata(path).map_err(|error| refuse(format!("can't be read: {error}")))?.len();
    if size > LARGEST_FILE {
        return Err(refuse(format!("{size} bytes are too many; the most is {LARGEST_FILE}")));
    }
    std::fs::read_to_string(path).map_err(|error| refuse(format!("can't be read: {error}")))
}

/// Adds what a file says to `stated`. Returns everything that is wrong with it.
pub(crate) fn apply(name: &str, text: &str, stated: &mut Stated) -> Vec<Remark> {
    let mut file = File { name: name.into(), text, remarks: Vec::new() };
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        file.document(document.get_ref(), stated);
    }
    for error in errors.into_iter().take(MOST_SYNTAX_ERRORS) {
        let place = file.place(&error.span().unwrap_or(0..0));
        file.remarks.push(Remark::new(&place, "", format!("not TOML: {}", error.message())));
    }
    file.remarks.sort();
    file.remarks
}

struct File<'a> {
    name: Arc<str>,
    text: &'a str,
    remarks: Vec<Remark>,
}

/// A table of the file: what may stand in it, and what it is called.
#[derive(Clone, Copy)]
struct Section<'a> {
    levels: &'a [Level],
    /// What the settings' names begin with here: `admin.`, or nothing.
    prefix: &'a str,
    /// What errors put before that: `defaults.`, `route.`, or nothing.
    title: &'a str,
}

impl Section<'_> {
    fn setting(&self, name: &str) -> Option<&'static Setting> {
        self.levels.iter().find_map(|level| find(*level, name))
    }

    /// The settings whose names begin with `prefix`.
    fn settings<'p>(&'p self, prefix: &'p str) -> impl Iterator<Item = &'static Setting> + 'p {
        let here = move |setting: &&Setting| self.levels.contains(&setting.level) && setting.name.starts_with(prefix);
        SETTINGS.iter().filter(here)
    }

    /// The names that may stand here.
    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self
            .settings(self.prefix)
            .filter(|setting| setting.since == Since::Now)
            .filter_map(|setting| setting.name.strip_prefix(self.prefix)?.split('.').next())
            .collect();
        if self.title.is_empty() && self.prefix.is_empty() {
            names.extend(["defaults", "route"]);
        }
        names.dedup();
        names
    }
}

impl<'a> File<'a> {
    fn place(&self, span: &Range<usize>) -> Place {
        Place::in_file(&self.name, self.text, span)
    }

    fn refuse(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        let place = self.place(span);
        self.remarks.push(Remark::new(&place, key, text));
    }

    fn document(&mut self, table: &DeTable<'a>, stated: &mut Stated) {
        let top = Section { levels: &[Level::Top, Level::Everywhere], prefix: "", title: "" };
        let defaults = Section { levels: &[Level::Route, Level::Everywhere], prefix: "", title: "defaults." };
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("defaults", DeValue::Table(inner)) => self.table(defaults, inner, &mut stated.defaults),
                ("defaults", _) => self.refuse(&value.span(), "defaults", "it must be a table: [defaults]"),
                ("route", DeValue::Array(routes)) => stated.routes = self.routes(routes),
                ("route", _) => self.refuse(&key.span(), "route", "each route is a table of its own: [[route]]"),
                _ => self.setting(top, key, value, &mut stated.top),
            }
        }
    }

    fn routes(&mut self, routes: &DeArray<'a>) -> Vec<StatedRoute> {
        let section =
            Section { levels: &[Level::OneRoute, Level::Route, Level::Everywhere], prefix: "", title: "route." };
        let mut read = Vec::new();
        for (index, route) in routes.iter().enumerate() {
            let Some(table) = route.get_ref().as_table() else {
                self.refuse(&route.span(), "route", "it must be a table: [[route]]");
                continue;
            };
            if index == MOST_ROUTES {
                self.refuse(&route.span(), "route", format!("more than {MOST_ROUTES} routes"));
                break;
            }
            let mut own = Layer::new();
            self.table(section, table, &mut own);
            read.push(StatedRoute { place: self.place(&route.span()), own });
        }
        read
    }

    fn table(&mut self, section: Section<'_>, table: &DeTable<'a>, layer: &mut Layer) {
        for (key, value) in table {
            self.setting(section, key, value, layer);
        }
    }

    fn setting(
        &mut self,
        section: Section<'_>,
        key: &Spanned<DeString<'a>>,
        value: &Spanned<DeValue<'a>>,
        layer: &mut Layer,
    ) {
        let name = format!("{}{}", section.prefix, key.get_ref());
        let shown = format!("{}{name}", section.title);
        if let Some(setting) = section.setting(&name) {
            self.assign(setting, &shown, value, layer);
            return;
        }
        let prefix = format!("{name}.");
        match (section.settings(&prefix).next(), value.get_ref()) {
            (None, _) => self.unknown(section, key, &name, &shown),
            _ if section.settings(&prefix).all(|setting| setting.since == Since::Later) => {
                self.refuse(&key.span(), &shown, "not in this version");
            }
            (_, DeValue::Table(inner)) => self.table(Section { prefix: &prefix, ..section }, inner, layer),
            (_, other) => {
                let what = Written::from_toml(other).what();
                self.refuse(&value.span(), &shown, format!("it must be a table, not {what}"));
            }
        }
    }

    fn assign(&mut self, setting: &'static Setting, shown: &str, value: &Spanned<DeValue<'a>>, layer: &mut Layer) {
        let place = self.place(&value.span());
        match admit(setting, Written::from_toml(value.get_ref()), &place) {
            Ok(assigned) => {
                layer.insert(setting.name, assigned);
            }
            Err(wrong) => {
                let item = wrong.item.and_then(|index| item_span(value.get_ref(), index));
                self.refuse(&item.unwrap_or_else(|| value.span()), shown, wrong.what);
            }
        }
    }

    fn unknown(&mut self, section: Section<'_>, key: &Spanned<DeString<'a>>, name: &str, shown: &str) {
        let names = section.names();
        let mut hint = suggest(key.get_ref(), names.iter().copied());
        if hint.is_empty() {
            hint = elsewhere(key.get_ref())
                .or_else(|| elsewhere(name))
                .unwrap_or_else(|| format!("; allowed here: {}", names.join(", ")));
        }
        self.refuse(&key.span(), shown, format!("no such setting{hint}"));
    }
}

/// Where a setting belongs that stands in the wrong table.
fn elsewhere(name: &str) -> Option<String> {
    let setting = SETTINGS.iter().find(|setting| setting.name == name)?;
    Some(match setting.level {
        Level::Top => format!(" here; `{name}` belongs at the top of the file, before any [section]"),
        Level::Route => format!(" here; `{name}` belongs in [defaults] or a [[route]]"),
        Level::Everywhere => format!(" here; `{name}` belongs at the top of the file, in [defaults] or in a [[route]]"),
        Level::OneRoute => format!(" here; `{name}` belongs in a [[route]]"),
    })
}
