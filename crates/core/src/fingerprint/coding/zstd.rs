//! `zstd` (RFC 8878).

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{Output, Undecoded};

/// All frames, one after the other; frames to be skipped hold nothing.
pub(super) fn decode(body: &[u8], max: usize) -> Result<Vec<u8>, Undecoded> {
    let mut output = Output::new(max);
    let mut rest = body;
    if rest.is_empty() {
        return Err(Undecoded::Undecodable);
    }
    while !rest.is_empty() {
        // A new decoder for each frame: it holds what it has decoded. One that is used again would hold the window that the
        // frame asks for, however little is in it.
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(u64::MAX);
        match decoder.init(&mut rest) {
            Ok(()) => frame(&mut decoder, &mut rest, &mut output)?,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let length = usize::try_from(length).map_err(|_| Undecoded::Undecodable)?;
                rest = rest.get(length..).ok_or(Undecoded::Undecodable)?;
            }
            Err(_) => return Err(Undecoded::Undecodable),
        }
    }
    Ok(output.bytes)
}

/// One frame. It is decoded until it ends or is larger than there is room for, by at most one block of 128 KiB.
fn frame(decoder: &mut FrameDecoder, rest: &mut &[u8], output: &mut Output) -> Result<(), Undecoded> {
    let upto = BlockDecodingStrategy::UptoBytes(output.room().saturating_add(1));
    let ended = decoder.decode_blocks(rest, upto).map_err(|_| Undecoded::Undecodable)?;
    if !ended {
        return Err(Undecoded::TooLarge);
    }
    let length = decoder.can_collect();
    if length > output.room() {
        return Err(Undecoded::TooLarge);
    }
    output.bytes.reserve_exact(length);
    decoder.collect_to_writer(&mut output.bytes).map_err(|_| Undecoded::Undecodable)?;
    let sum_is_wrong =
        decoder.get_checksum_from_data().is_some_and(|sum| decoder.get_calculated_checksum() != Some(sum));
    let size = decoder.content_size();
    let size_is_wrong = size != 0 && size != length as u64;
    if sum_is_wrong || size_is_wrong { Err(Undecoded::Undecodable) } else { Ok(()) }
}
