//! The recorded response: what of an upstream answer is kept (R1–R5), and the bytes in which stores keep its head.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// A response as it is recorded and replayed: status, end-to-end header lines in their order, body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedResponse {
    /// Status of the upstream's answer.
    pub status: StatusCode,
    /// The header lines that rule R3 lets through; the lines of one name keep their order.
    pub headers: HeaderMap,
    /// The body, or that it wasn't kept.
    pub body: RecordedBody,
}

/// The body of a recorded response.
#[derive(Clone, PartialEq, Eq)]
pub enum RecordedBody {
    /// The bytes as the upstream sent them.
    Stored(Bytes),
    /// Streamed to the first client and not kept (R5, R7); a retry gets `response-not-stored`.
    NotStored,
}

impl std::fmt::Debug for RecordedBody {
    /// The length only; no log line holds a body (P2).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stored(bytes) => write!(f, "Stored({} bytes)", bytes.len()),
            Self::NotStored => f.write_str("NotStored"),
        }
    }
}
