//! The admin listener of oncekey: health, metrics, records.
