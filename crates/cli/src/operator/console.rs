//! Where a command's words go: data to stdout, talk to stderr, answers from a terminal.

use std::io::{BufRead, ErrorKind, Write};

use serde::Serialize;

use crate::exit::Failure;

/// The ends of a command.
pub(crate) struct Console<'a> {
    /// stdout: data only.
    pub(crate) out: &'a mut dyn Write,
    /// stderr: everything else.
    pub(crate) talk: &'a mut dyn Write,
    /// stdin, if somebody sits at it who can be asked.
    pub(crate) answers: Option<&'a mut dyn BufRead>,
    /// Whether data is printed as JSON.
    pub(crate) json: bool,
}

impl Console<'_> {
    /// Writes data; false if the reader has gone (`| head`), which is no failure: it has seen what it wanted.
    pub(crate) fn print(&mut self, data: &str) -> Result<bool, Failure> {
        match self.out.write_all(data.as_bytes()).and_then(|()| self.out.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::failed(format_args!("stdout can't be written: {error}"))),
        }
    }

    /// Writes one line of JSON.
    pub(crate) fn print_json<T: Serialize>(&mut self, value: &T) -> Result<bool, Failure> {
        let mut text = serde_json::to_string(value).map_err(Failure::failed)?;
        text.push('\n');
        self.print(&text)
    }

    /// Says a line. With nobody to hear it, the command still does its work.
    pub(crate) fn say(&mut self, line: &str) {
        let _ = writeln!(self.talk, "{line}");
    }

    /// Asks a yes-or-no question; anything but yes is no. Without a terminal it can't be asked, which is wrong usage: a
    /// script says `--yes`.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<bool, Failure> {
        let Some(answers) = self.answers.as_mut() else {
            return Err(Failure::usage(format_args!(
                "{question} There is no terminal to ask on; say --yes or --dry-run."
            )));
        };
        let _ = write!(self.talk, "{question} [y/N] ");
        let _ = self.talk.flush();
        let mut answer = String::new();
        answers.read_line(&mut answer).map_err(|error| Failure::failed(format_args!("no answer: {error}")))?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}
