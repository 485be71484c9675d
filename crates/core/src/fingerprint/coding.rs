//! Content codings of requests (F6): what a body says once they are taken off, in bounded memory and time.
//!
//! Decoding is strict: a body that is cut short, damaged or followed by anything doesn't decode, and counts as the bytes
//! that were sent. The size is bounded after each coding, so that nothing that grows on the way to a small result costs
//! more than a large result does. Beside the result, a decoder takes its window: 32 KiB, for `br`
//! and `zstd` up to about twice what the result may be.

mod brotli;
mod inflate;
mod zstd;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// How many codings may lie over each other; each costs as much as the body may be large.
const MOST_CODINGS: usize = 4;

/// A request's body.
#[derive(Debug)]
pub struct Body<'a> {
    sent: &'a [u8],
    plain: Plain,
}

#[derive(Debug)]
enum Plain {
    /// It travels under no coding.
    AsSent,
    /// It decoded to this.
    Decoded(Vec<u8>),
    /// It says that it is encoded, and isn't, or by a coding that nobody here knows.
    Undecodable,
}

/// The decoded body is larger than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the decoded body is too large")]
pub struct TooLarge;

/// Why a body has no decoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undecoded {
    TooLarge,
    Undecodable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
    Unknown,
}

impl<'a> Body<'a> {
    /// A body as sent, decoded by what `Content-Encoding` says if that gives no more than `max` bytes. Takes time linear in
    /// `sent` and `max`.
    pub fn decode(headers: &HeaderMap, sent: &'a [u8], max: u64) -> Result<Self, TooLarge> {
        let codings = codings(headers);
        let plain = match decode_all(&codings, sent, usize::try_from(max).unwrap_or(usize::MAX)) {
            _ if codings.is_empty() => Plain::AsSent,
            Ok(decoded) => Plain::Decoded(decoded),
            Err(Undecoded::Undecodable) => Plain::Undecodable,
            Err(Undecoded::TooLarge) => return Err(TooLarge),
        };
        Ok(Self { sent, plain })
    }

    /// A body that travels under no coding.
    pub const fn under_no_coding(sent: &'a [u8]) -> Self {
        Self { sent, plain: Plain::AsSent }
    }

    /// The bytes that were sent.
    pub(super) const fn sent(&self) -> &'a [u8] {
        self.sent
    }

    /// Whether it says that it travels under a coding other than `identity`.
    pub(super) const fn is_encoded(&self) -> bool {
        !matches!(self.plain, Plain::AsSent)
    }

    /// What its media type speaks of, if it can be read.
    pub(super) fn plain(&self) -> Option<&[u8]> {
        match &self.plain {
            Plain::AsSent => Some(self.sent),
            Plain::Decoded(decoded) => Some(decoded),
            Plain::Undecodable => None,
        }
    }
}

/// The most bytes of decoded bodies that [`Body::decode`] holds beside the body as sent, if that may decode to `max`; 0 if
/// there is nothing to decode. Windows are not in it.
pub fn decoding_room(headers: &HeaderMap, max: u64) -> u64 {
    match codings(headers).as_slice() {
        [] => 0,
        [Coding::Gzip | Coding::Deflate | Coding::Brotli] => max,
        // One coding's result is the next one's source, and `zstd` keeps what it has decoded beside what it gives.
        _ => max.saturating_mul(2),
    }
}

/// The codings in the order in which they were applied, without `identity`, which is none.
fn codings(headers: &HeaderMap) -> Vec<Coding> {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let names = names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"));
    names.map(|name| coding(&name.to_ascii_lowercase())).collect()
}

fn coding(name: &[u8]) -> Coding {
    match name {
        b"gzip" | b"x-gzip" => Coding::Gzip,
        b"deflate" => Coding::Deflate,
        b"br" => Coding::Brotli,
        b"zstd" => Coding::Zstd,
        _ => Coding::Unknown,
    }
}

fn decode_all(codings: &[Coding], sent: &[u8], max: usize) -> Result<Vec<u8>, Undecoded> {
    // Before any work: the codings below an unknown one are out of reach.
    if codings.len() > MOST_CODINGS || codings.contains(&Coding::Unknown) {
        return Err(Undecoded::Undecodable);
    }
    let mut decoded: Option<Vec<u8>> = None;
    for coding in codings.iter().rev() {
        decoded = Some(decode_one(*coding, decoded.as_deref().unwrap_or(sent), max)?);
    }
    decoded.ok_or(Undecoded::Undecodable)
}

fn decode_one(coding: Coding, body: &[u8], max: usize) -> Result<Vec<u8>, Undecoded> {
    match coding {
        Coding::Gzip => inflate::gzip(body, max),
        Coding::Deflate => inflate::deflate(body, max),
        Coding::Brotli => brotli::decode(body, max),
        Coding::Zstd => zstd::decode(body, max),
        Coding::Unknown => Err(Undecoded::Undecodable),
    }
}

/// Decoded bytes as they come, up to a size.
struct Output {
    bytes: Vec<u8>,
    max: usize,
}

impl Output {
    const fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max }
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), Undecoded> {
        if piece.len() > self.room() {
            return Err(Undecoded::TooLarge);
        }
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            // Grows in steps, but never past what it may hold.
            let grown = self.bytes.capacity().saturating_mul(2).min(self.max).max(needed);
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    const fn room(&self) -> usize {
        self.max - self.bytes.len()
    }
}
