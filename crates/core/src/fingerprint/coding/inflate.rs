//! `gzip` (RFC 1952) and `deflate` (RFC 1950).

use std::io::Read;

use flate2::bufread::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

use super::{Output, Undecoded};

/// Decoded bytes are taken out in pieces of this size.
const PIECE: usize = 32 * 1024;

/// One member and nothing after it: some decoders pass over further ones.
pub(super) fn gzip(body: &[u8], max: usize) -> Result<Vec<u8>, Undecoded> {
    let mut reader = GzDecoder::new(body);
    let mut output = Output::new(max);
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece) {
            Ok(0) if reader.get_ref().is_empty() => return Ok(output.bytes),
            Ok(0) | Err(_) => return Err(Undecoded::Undecodable),
            Ok(length) => output.push(&piece[..length])?,
        }
    }
}

/// The zlib format, as the coding is defined, or bare deflate, as some clients understand it. Which one it is is never in
/// doubt: zlib begins with a check of its own and ends with a checksum.
pub(super) fn deflate(body: &[u8], max: usize) -> Result<Vec<u8>, Undecoded> {
    match inflate(body, true, max) {
        Err(Undecoded::Undecodable) => inflate(body, false, max),
        decided => decided,
    }
}

fn inflate(body: &[u8], zlib: bool, max: usize) -> Result<Vec<u8>, Undecoded> {
    let mut inflater = Decompress::new(zlib);
    let mut output = Output::new(max);
    let mut piece = vec![0; PIECE];
    let mut rest = body;
    loop {
        let (taken, given) = (inflater.total_in(), inflater.total_out());
        let status = inflater.decompress(rest, &mut piece, FlushDecompress::None);
        let status = status.map_err(|_| Undecoded::Undecodable)?;
        let (taken, given) = (step(taken, inflater.total_in()), step(given, inflater.total_out()));
        rest = &rest[taken..];
        output.push(&piece[..given])?;
        match status {
            Status::StreamEnd if rest.is_empty() => return Ok(output.bytes),
            Status::Ok | Status::BufError if taken > 0 || given > 0 => {}
            // It wants more input than there is, or leaves some over.
            _ => return Err(Undecoded::Undecodable),
        }
    }
}

fn step(before: u64, after: u64) -> usize {
    usize::try_from(after - before).expect("a step stays within slices")
}
