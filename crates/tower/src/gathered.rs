//! A body as it comes in, gathered in one piece of memory that is never much larger than the body.

use bytes::Bytes;

/// The bytes so far. Pieces are copied: a small piece as it was read may keep a whole read buffer alive, and many of them
/// take more than they hold.
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    most: usize,
}

impl Gathered {
    /// Nothing yet, of a body of `exact` bytes if that is known, and of `most` at most, by its reader's word.
    pub(crate) fn new(exact: Option<u64>, most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let expected = exact.and_then(|exact| usize::try_from(exact).ok()).unwrap_or(0);
        Self { bytes: Vec::with_capacity(expected.min(most)), most }
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            // Grows in steps, but never past what room was taken for.
            let grown = self.bytes.capacity().saturating_mul(2).min(self.most).max(needed);
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
    }

    pub(crate) fn into_bytes(mut self) -> Bytes {
        self.bytes.shrink_to_fit();
        Bytes::from(self.bytes)
    }
}
