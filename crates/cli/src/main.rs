//! The program `oncekey`.
fn main() {}
