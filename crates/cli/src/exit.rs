//! How the program ends: its exit codes, and the error that carries one to `main`.

use std::fmt;
use std::process::ExitCode;

/// The exit codes of `oncekey`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Fine = 0,
    /// It tried and failed.
    Failed = 1,
    /// Wrong usage or configuration; repeating won't help.
    Usage = 64,
    /// A needed service is not there; repeating may help.
    Unavailable = 69,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what was asked: what to tell the user, and the code to exit with.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// It was tried and it failed.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Failed, message: message.to_string() }
    }

    /// The command line or the configuration is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, message: message.to_string() }
    }

    /// A needed service, usually the store, is not there.
    pub(crate) fn unavailable(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Unavailable, message: message.to_string() }
    }

    /// The code to exit with.
    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
