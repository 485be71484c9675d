//! `oncekey completions` and `oncekey man`: what shells and `man` know about the command line, made from its definition.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::exit::Failure;
use crate::output;

/// What the main page says beyond the options, in roff.
const MORE: &str = r#".SH "EXIT STATUS"
.TP
0
fine
.TP
1
failed
.TP
64
wrong usage or configuration
.TP
69
a needed service is not there
.SH ENVIRONMENT
Each setting has a variable: ONCEKEY_ and its name in upper case, with _ for a dot. Flags beat the environment, the environment
beats the file, the file beats what is built in. RUST_LOG says what is logged.
.SH SIGNALS
\fBoncekey serve\fR finishes what runs and ends on SIGTERM and SIGINT; a second one ends it at once. On SIGHUP it reads its
configuration again.
"#;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "oncekey", &mut script);
    print(script)
}

/// Prints the main page, or writes one page for each command into a folder.
pub(crate) fn pages(folder: Option<&Path>) -> Result<(), Failure> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let Some(folder) = folder else {
        return print(page(&program).map_err(Failure::failed)?.1);
    };
    let wrong = |error: io::Error| Failure::failed(format_args!("{} can't be written: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let mut commands = vec![&program];
    while let Some(command) = commands.pop() {
        let (name, page) = page(command).map_err(wrong)?;
        std::fs::write(folder.join(name), page).map_err(wrong)?;
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
    }
    Ok(())
}

/// The page of a command, and the name of its file.
fn page(command: &Command) -> io::Result<(String, Vec<u8>)> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    if command.get_name() == "oncekey" {
        page.extend(MORE.as_bytes());
    }
    Ok((man.get_filename(), page))
}

fn print(text: Vec<u8>) -> Result<(), Failure> {
    output::print(&String::from_utf8(text).map_err(Failure::failed)?)
}
