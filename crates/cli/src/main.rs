//! The program `oncekey`.

#[cfg_attr(not(test), expect(dead_code, reason = "for the commands"))]
mod exit;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "for the commands"))]
mod operator;

fn main() {}
