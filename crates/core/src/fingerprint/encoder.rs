//! The digest of a sequence of values, each of which says how long it is, so that no two sequences share their bytes.
//! What is encoded in which order is the fingerprint's business.

use sha2::{Digest, Sha256};

/// Takes values one after the other.
pub(super) struct Encoder(Sha256);

impl Encoder {
    /// Begins with the name of what is encoded, so that digests of different things never meet.
    pub(super) fn new(domain: &str) -> Self {
        let mut encoder = Self(Sha256::new());
        encoder.bytes(domain.as_bytes());
        encoder
    }

    /// Which of several forms follows.
    pub(super) fn tag(&mut self, tag: u8) {
        self.0.update([tag]);
    }

    /// How many values follow.
    pub(super) fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    /// A value.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    /// Any number of values.
    pub(super) fn list(&mut self, values: &[&[u8]]) {
        self.count(values.len());
        for value in values {
            self.bytes(value);
        }
    }

    /// The digest of all values.
    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
