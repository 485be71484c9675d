//! What `oncekey demo` shows: an orders API that knows nothing of idempotency.

pub(crate) mod orders;
