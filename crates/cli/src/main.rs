//! The program `oncekey`.

#[allow(dead_code, reason = "wired by serve")]
mod drain;
#[allow(dead_code, reason = "wired by serve")]
mod fields;
#[allow(dead_code, reason = "wired by serve")]
mod front;
#[cfg(test)]
mod scripted;
#[allow(dead_code, reason = "wired by serve")]
mod upstream;

fn main() {}
