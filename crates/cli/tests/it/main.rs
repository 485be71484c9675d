//! Tests of the program `oncekey` from outside: exit codes, what is on stdout and what on stderr.

mod configuration;
