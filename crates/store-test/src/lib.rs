//! The suite that every oncekey store must pass, written once.
