/// Nothing survives.
#[derive(Debug)]
pub struct MemoryStore;
