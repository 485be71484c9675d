//! What an execution is told apart by from the one that takes it over (E4).

use oncekey_core::{RecordId, Token};

/// What a write beside the record is compared with it by: one whose token isn't the record's any more was taken over, and
/// writes nothing (E4). The HTTP layer puts it into the extensions of a request that is executed under a claim; a request in
/// transactional mode has none, for it has its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The operation id.
    pub id: RecordId,
    /// The claim's.
    pub token: Token,
}
