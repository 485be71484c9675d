//! Data on stdout. Everything else that the program says goes to stderr.

use std::io::{ErrorKind, Write as _};

use crate::exit::Failure;

/// Writes data to stdout. A reader that has gone (`| head`) is no failure: it has seen what it wanted.
pub(crate) fn print(data: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(data.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format_args!("stdout can't be written: {error}")))
        }
        _ => Ok(()),
    }
}
