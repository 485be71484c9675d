//! `br` (RFC 7932).

use brotli_decompressor::{
    Allocator, BrotliDecoderErrorCode, BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc,
};

use super::{Output, Undecoded};

/// Decoded bytes are taken out in pieces of this size.
const PIECE: usize = 32 * 1024;

/// The decoder counts its input in 32 bits.
const MOST_INPUT: usize = 1 << 30;

/// What the decoder's tables may take in one piece, and its window beyond the decoded bytes.
const TABLES: usize = 64 * 1024;

pub(super) fn decode(body: &[u8], max: usize) -> Result<Vec<u8>, Undecoded> {
    let bytes = Bounded { inner: StandardAlloc::default(), most: max.saturating_mul(2).saturating_add(TABLES) };
    // Strict: the extension for windows past 16 MiB is no part of the coding.
    let mut state = BrotliState::new_strict(bytes, StandardAlloc::default(), StandardAlloc::default());
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
            BrotliResult::ResultFailure if wants_a_larger_window(state.error_code) => return Err(Undecoded::TooLarge),
            // It wants more input than there is, leaves some over, or found it damaged.
            _ => return Err(Undecoded::Undecodable),
        }
    }
}

/// Gives the decoder its window only as far as the result may need it. The decoder doubles its window until what it has
/// decoded and the piece that it begins fit in: one of more than twice `max` means that the two are more than `max`.
struct Bounded {
    inner: StandardAlloc,
    most: usize,
}

impl Allocator<u8> for Bounded {
    type AllocatedMemory = <StandardAlloc as Allocator<u8>>::AllocatedMemory;

    /// Nothing stands for an allocation that failed.
    fn alloc_cell(&mut self, length: usize) -> Self::AllocatedMemory {
        if length > self.most { Self::AllocatedMemory::default() } else { self.inner.alloc_cell(length) }
    }

    fn free_cell(&mut self, data: Self::AllocatedMemory) {
        self.inner.free_cell(data);
    }
}

fn wants_a_larger_window(error: BrotliDecoderErrorCode) -> bool {
    matches!(
        error,
        BrotliDecoderErrorCode::BROTLI_DECODER_ERROR_ALLOC_RING_BUFFER_1
            | BrotliDecoderErrorCode::BROTLI_DECODER_ERROR_ALLOC_RING_BUFFER_2
    )
}
