//! Settings: from the file, the environment and flags to a [`Config`], with the origin of every value. Flags beat the
//! environment, the environment beats the file, the file beats what is built in.
//!
//! Owns: which settings exist ([`table`]), what they take ([`kind`]), what is refused and how that reads. Everything that
//! is wrong is reported at once. Leaves to others: what a setting does.

mod address;
mod checks;
mod environment;
mod file;
mod kind;
mod outside;
mod place;
mod probe_headers;
mod probe_url;
mod quantity;
mod reload;
mod show;
mod stated;
mod suggestion;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod values;
mod written;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use address::{PostgresUrl, SecretRef, StoreUrl, Upstream};
pub(crate) use environment::Environment;
pub(crate) use outside::Flag;
pub(crate) use place::{Refused, Remark};
pub(crate) use probe_headers::ProbeHeaders;
pub(crate) use probe_url::ProbeUrl;
pub(crate) use quantity::duration as parse_duration;
pub(crate) use reload::{Reloaded, reload};
pub(crate) use stated::{Layer, Stated, StatedRoute};
pub(crate) use value::Value;
pub(crate) use values::Values;

use oncekey_admin::{AdminToken, Tokens};

use crate::config::Config;
use crate::jwt::JwtConfig;
use crate::tls::{Finding, ListenerTls, Tls, UpstreamTls};

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The configuration file; none is looked for if none is named.
    pub(crate) file: Option<PathBuf>,
    /// Flags that set settings.
    pub(crate) flags: Vec<Flag>,
    /// The environment.
    pub(crate) environment: Environment,
    /// What the configuration is for.
    pub(crate) purpose: Purpose,
}

/// What a configuration is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve: combinations that can't be served are refused.
    #[default]
    Serve,
    /// To work on the store by hand: only that each value is right counts.
    Operate,
}

/// A configuration that is right.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// What the program runs on.
    pub(crate) config: Config,
    /// What is doubtful about it.
    pub(crate) warnings: Vec<Remark>,
    stated: Stated,
    /// Whether there is a file and nothing in it, not even a comment.
    blank: bool,
}

impl Loaded {
    /// The effective configuration as TOML, each line with its value's origin. Holds no secret.
    pub(crate) fn show(&self) -> String {
        show::show(&self.stated)
    }

    /// Reads the files that TLS needs, blocking, and what is doubtful about them.
    pub(crate) fn tls(&self) -> Result<(Tls, Vec<Remark>), Unusable> {
        let (mut doubts, mut wrong) = (Vec::new(), Vec::new());
        let listener = self.config.tls.as_ref().map(ListenerTls::load);
        let upstream = self.config.upstream.tls.as_ref().map(UpstreamTls::load);
        let listener = listener.and_then(|loaded| sorted(loaded, &mut doubts, &mut wrong));
        let upstream = upstream.and_then(|loaded| sorted(loaded, &mut doubts, &mut wrong));
        let top = Values::new([&self.stated.top]);
        let remark = |finding: &Finding| Remark::new(top.place(finding.setting), finding.setting, finding.text.clone());
        if wrong.is_empty() {
            return Ok((Tls { listener, upstream }, doubts.iter().map(remark).collect()));
        }
        let refused = Refused(wrong.iter().map(remark).collect());
        Err(Unusable { refused, absent: wrong.iter().all(|finding| finding.absent) })
    }

    /// Reads the file with the keys of `[jwt]`, blocking, if they are in a file.
    pub(crate) fn key_file(&self) -> Result<(), Unusable> {
        let Some(Err(Finding { setting, text, absent })) = self.config.jwt.as_ref().map(JwtConfig::check_file) else {
            return Ok(());
        };
        let place = Values::new([&self.stated.top]).place(setting).clone();
        Err(Unusable { refused: Refused(vec![Remark::new(&place, setting, text)]), absent })
    }

    /// Reads the admin API's tokens from where they are kept; those that are configured.
    pub(crate) fn admin_tokens(&self, environment: &Environment) -> Result<Tokens, Refused> {
        let admin = &self.config.admin;
        let read = |setting: &'static str, kept: &Option<SecretRef>| {
            let Some(kept) = kept else { return Ok(None) };
            let place = Values::new([&self.stated.top]).place(setting);
            let refused = |what: String| Refused(vec![Remark::new(place, setting, what)]);
            let secret = kept.read(environment).map_err(refused)?;
            AdminToken::new(secret.expose()).map(Some).map_err(|error| refused(error.to_string()))
        };
        Ok(Tokens { act: read("admin.token", &admin.token)?, read: read("admin.read_token", &admin.read_token)? })
    }

    /// Reads the fields that each route's probes are sent with, secrets included.
    pub(crate) fn read_probe_fields(&mut self, environment: &Environment) -> Result<(), Refused> {
        let none = Layer::new();
        for (number, guarded) in self.config.routes.iter_mut().enumerate() {
            let Some(probe) = &mut guarded.probe else { continue };
            let own = self.stated.routes.get(number).map_or(&none, |route| &route.own);
            probe.fields = probe.headers.read(environment).map_err(|what| {
                let values = Values::new([own, &self.stated.defaults]);
                Refused(vec![Remark::new(values.place("probe_headers"), values.titled("probe_headers"), what)])
            })?;
        }
        Ok(())
    }
}

/// Files that can't be used.
#[derive(Debug)]
pub(crate) struct Unusable {
    /// What is wrong with them.
    pub(crate) refused: Refused,
    /// Whether none of them could be read at all.
    pub(crate) absent: bool,
}

/// Reads all sources. Reads the file, blocking; safe to repeat.
pub(crate) fn load(sources: &Sources) -> Result<Loaded, Refused> {
    let Some(path) = &sources.file else { return resolve(None, sources) };
    let text = file::read(path).map_err(|remark| Refused(vec![remark]))?;
    resolve(Some((&path.display().to_string(), &text)), sources)
}

/// Puts the sources on top of each other. `file` is the file's name and text.
fn resolve(file: Option<(&str, &str)>, sources: &Sources) -> Result<Loaded, Refused> {
    let mut stated = Stated::built_in();
    let mut refused = file.map(|(name, text)| file::apply(name, text, &mut stated)).unwrap_or_default();
    refused.extend(outside::apply_environment(&sources.environment, &mut stated));
    refused.extend(outside::apply_flags(&sources.flags, &mut stated));
    let (strangers, mut warnings) = outside::strangers(&sources.environment, &stated);
    refused.extend(strangers);
    accept(refused)?;
    let config = Config::build(&stated).map_err(|remark| Refused(vec![remark]))?;
    if sources.purpose == Purpose::Serve {
        let findings = checks::check(&config, &stated, &sources.environment);
        accept(findings.refused)?;
        warnings.extend(findings.warned);
    }
    Ok(Loaded { config, warnings, stated, blank: file.is_some_and(|(_, text)| text.trim().is_empty()) })
}

/// Puts what came of loading something where it belongs.
fn sorted<T>(
    loaded: Result<(T, Vec<Finding>), Finding>,
    doubts: &mut Vec<Finding>,
    wrong: &mut Vec<Finding>,
) -> Option<Arc<T>> {
    match loaded {
        Ok((loaded, found)) => {
            doubts.extend(found);
            Some(Arc::new(loaded))
        }
        Err(finding) => {
            wrong.push(finding);
            None
        }
    }
}

fn accept(refused: Vec<Remark>) -> Result<(), Refused> {
    if refused.is_empty() { Ok(()) } else { Err(Refused(refused)) }
}

/// What a route has that says nothing itself, beside the defaults: the settings that only routes have.
pub(crate) fn built_in_route() -> Layer {
    let of_route = table::SETTINGS.iter().filter(|setting| setting.level == table::Level::OneRoute);
    of_route.filter_map(|setting| Some((setting.name, stated::built_in(setting)?))).collect()
}

/// Each setting of `[declare]` with each of its values.
#[cfg(test)]
pub(crate) fn declarable() -> impl Iterator<Item = (&'static str, &'static str)> {
    let settings =
        table::SETTINGS.iter().filter_map(|setting| Some((setting.name.strip_prefix(table::DECLARE)?, setting.kind)));
    settings.flat_map(|(name, kind)| match kind {
        kind::Kind::Word(words) => words.iter().map(|word| (name, *word)).collect(),
        _ => Vec::new(),
    })
}
