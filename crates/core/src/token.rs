//! The two identities a claim carries: its own token, and the process that owns it.

use std::fmt;

/// The 128 random bits of one claim (E4). Chosen by the claimant before the claim is written, so that a claim whose
/// acknowledgement was lost can be recognised; every later write to the record compares it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; 16]);

impl Token {
    /// A token from random bytes; the caller provides the randomness.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, as stores keep them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

/// One run of one oncekey process: random, so that a restarted process is a new owner and its predecessor's claims are
/// seen to have no living owner (E4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId([u8; 16]);

impl OwnerId {
    /// An owner id from random bytes; the caller provides the randomness.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, as stores keep them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerId({self})")
    }
}
