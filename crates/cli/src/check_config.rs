//! `oncekey check-config`: whether `serve` would take a configuration, and what it would run on.

use std::path::PathBuf;

use crate::exit::Failure;
use crate::output;
use crate::settings::{Environment, Purpose, Sources, Unusable, load};

/// Prints the effective configuration on stdout, its warnings on stderr. A secret or a file that isn't there is a warning
/// here: a configuration is often checked where its secrets are not. A file that is there must be right.
pub(crate) fn run(file: Option<PathBuf>, environment: Environment) -> Result<(), Failure> {
    let sources = Sources { file, flags: Vec::new(), environment, purpose: Purpose::Serve };
    let mut loaded = load(&sources).map_err(Failure::usage)?;
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    let tokens = loaded.admin_tokens(&sources.environment).map(drop);
    for refused in [tokens, loaded.read_probe_fields(&sources.environment)].into_iter().filter_map(Result::err) {
        eprintln!("warning: {refused}; `serve` needs it");
    }
    let tls = loaded.tls().map(|(_, doubts)| doubts.iter().for_each(|doubt| eprintln!("warning: {doubt}")));
    for unusable in [tls, loaded.key_file()].into_iter().filter_map(Result::err) {
        match unusable {
            Unusable { refused, absent: true } => eprintln!("warning: {refused}; `serve` needs it"),
            Unusable { refused, .. } => return Err(Failure::usage(refused)),
        }
    }
    output::print(&loaded.show())
}
