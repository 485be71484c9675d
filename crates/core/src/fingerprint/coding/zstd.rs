//! `zstd` (RFC 8878).

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::Undecoded;

/// One frame and nothing before or after it: some decoders pass over further ones.
///
/// It is decoded until it ends or is larger than there is room for, by at most one block of 128 KiB.
pub(super) fn decode(body: &[u8], max: usize) -> Result<Vec<u8>, Undecoded> {
    let mut rest = body;
    let mut frame = FrameDecoder::new();
    frame.set_max_window_size(u64::MAX);
    frame.init(&mut rest).map_err(|_| Undecoded::Undecodable)?;
    let upto = BlockDecodingStrategy::UptoBytes(max.saturating_add(1));
    let ended = frame.decode_blocks(&mut rest, upto).map_err(|_| Undecoded::Undecodable)?;
    if !ended {
        return Err(Undecoded::TooLarge);
    }
    let length = frame.can_collect();
    if length > max {
        return Err(Undecoded::TooLarge);
    }
    let mut decoded = Vec::with_capacity(length);
    frame.collect_to_writer(&mut decoded).map_err(|_| Undecoded::Undecodable)?;
    let sum_is_wrong = frame.get_checksum_from_data().is_some_and(|sum| frame.get_calculated_checksum() != Some(sum));
    let size = frame.content_size();
    let size_is_wrong = size != 0 && size != length as u64;
    let right = rest.is_empty() && !sum_is_wrong && !size_is_wrong;
    right.then_some(decoded).ok_or(Undecoded::Undecodable)
}
