//! `br` (RFC 7932).

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{Output, Undecoded};

/// Decoded bytes are taken out in pieces of this size.
const PIECE: usize = 32 * 1024;

/// The decoder counts its input in 32 bits.
const MOST_INPUT: usize = 1 << 30;

pub(super) fn decode(body: &[u8], max: usize) -> Result<Vec<u8>, Undecoded> {
    // Strict: the extension for windows past 16 MiB is no part of the coding.
    let mut state =
        BrotliState::new_strict(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default());
    let mut output = Output::new(max);
    let mut piece = vec![0; PIECE];
    let (mut at, mut total) = (0, 0);
    loop {
        let mut input = (body.len() - at).min(MOST_INPUT);
        let (before, mut room, mut given) = (at, piece.len(), 0);
        let result = BrotliDecompressStream(
            &mut input, &mut at, body, &mut room, &mut given, &mut piece, &mut total, &mut state,
        );
        output.push(&piece[..given])?;
        match result {
            BrotliResult::ResultSuccess if at == body.len() => return Ok(output.bytes),
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput if at > before && at < body.len() => {}
            // It wants more input than there is, leaves some over, or found it damaged.
            _ => return Err(Undecoded::Undecodable),
        }
    }
}
