//! Tests of the settings as a whole, through what the rest of the program calls.

mod combinations;
mod precedence;
mod reference;
mod refusals;
mod round_trip;
mod whole_table;

use super::{Environment, Flag, Loaded, Purpose, Sources, resolve};

/// What a file of this text says, alone.
fn of_file(text: &str) -> Result<Loaded, String> {
    of(text, Environment::default(), Vec::new())
}

/// What a file, an environment and flags say together.
fn of(text: &str, environment: Environment, flags: Vec<Flag>) -> Result<Loaded, String> {
    let sources = Sources { file: None, flags, environment, purpose: Purpose::Serve };
    resolve(Some(("oncekey.toml", text)), &sources).map_err(|refused| refused.to_string())
}

/// Why a file of this text is refused.
fn refusal(text: &str) -> String {
    of_file(text).expect_err(text)
}

/// The warnings about a file of this text, one a line.
fn warnings(text: &str) -> String {
    let loaded = of_file(text).expect(text);
    loaded.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
