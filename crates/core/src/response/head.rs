//! The bytes in which stores keep the head of a recorded response.
//!
//! Version 1 is text: a line `1 STATUS stored` or `1 STATUS not-stored`, a line `name:value` for each header line, and an
//! empty line. No field value can hold a line feed, and no name a colon, so nothing has to be escaped; the empty line shows
//! that nothing was cut off. Whatever else is to be kept later is a new version.
//!
//! Version 2 is for responses with trailers (R6), and only for them: after the empty line a line `name:value` for each
//! trailer, at least one, and another empty line. Programs that know version 1 only go on reading all other records, and
//! report these as unreadable; they never take them for responses without trailers.
//!
//! Version 3 is for responses of executions that were traced, and only for them: as version 2, but there may be no trailers, and
//! the status line ends with a space and the span, `TRACE-SPAN`.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::{RecordedBody, RecordedResponse};
use crate::TraceContext;

/// Kept bytes that are no recorded response. A store is not trusted to return what was put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a later version, or damaged.
    #[error("the recorded response is of a version that this one can't read")]
    Version,
    /// The end is missing, or something follows it.
    #[error("the recorded response is cut off or too long")]
    Length,
    /// The first line doesn't say what it should.
    #[error("the recorded response has no valid status line")]
    Status,
    /// A header line or trailer that HTTP doesn't allow, or too many of them.
    #[error("the recorded response has a header line that can't be sent")]
    Header,
    /// A body where the head says that there is none, or none where it says that there is one.
    #[error("the recorded response's head and body don't belong together")]
    Body,
}

const VERSION_1: &[u8] = b"1 ";
const VERSION_2: &[u8] = b"2 ";
const VERSION_3: &[u8] = b"3 ";
const STORED: &[u8] = b"stored";
const NOT_STORED: &[u8] = b"not-stored";

impl RecordedResponse {
    /// The head as stores keep it: status, header lines, trailers, and whether there is a body. The body is kept beside it.
    pub fn encode_head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(512);
        head.extend(match (self.trace, self.trailers.is_empty()) {
            (Some(_), _) => VERSION_3,
            (None, false) => VERSION_2,
            (None, true) => VERSION_1,
        });
        head.extend(self.status.as_str().as_bytes());
        head.push(b' ');
        head.extend(match self.body {
            RecordedBody::Stored(_) => STORED,
            RecordedBody::NotStored => NOT_STORED,
        });
        if let Some(trace) = self.trace {
            head.extend(format!(" {trace}").into_bytes());
        }
        head.push(b'\n');
        encode_lines(&self.headers, &mut head);
        if self.trace.is_some() || !self.trailers.is_empty() {
            encode_lines(&self.trailers, &mut head);
        }
        head
    }

    /// The response that was kept as `head` and `body`; `None` is no body, which an empty one is not.
    pub fn decode(head: &[u8], body: Option<Bytes>) -> Result<Self, DecodeError> {
        let (version, lines) = head.split_at_checked(VERSION_1.len()).ok_or(DecodeError::Version)?;
        let (has_second_part, is_traced) = match version {
            VERSION_1 => (false, false),
            VERSION_2 => (true, false),
            VERSION_3 => (true, true),
            _ => return Err(DecodeError::Version),
        };
        let lines = lines.strip_suffix(b"\n\n").ok_or(DecodeError::Length)?;
        let mut lines = lines.split(|byte| *byte == b'\n');
        let first = lines.next().ok_or(DecodeError::Status)?;
        let (first, trace) = if is_traced { traced_line(first).ok_or(DecodeError::Status)? } else { (first, None) };
        let (status, is_stored) = status_line(first).ok_or(DecodeError::Status)?;
        let body = match (is_stored, body) {
            (true, Some(bytes)) => RecordedBody::Stored(bytes),
            (false, None) => RecordedBody::NotStored,
            (true, None) | (false, Some(_)) => return Err(DecodeError::Body),
        };
        let (mut headers, mut trailers) = (HeaderMap::new(), HeaderMap::new());
        if has_second_part {
            let mut is_whole = false;
            let first_part = lines.by_ref().take_while(|line| {
                is_whole = line.is_empty();
                !is_whole
            });
            decode_lines(first_part, &mut headers)?;
            decode_lines(lines, &mut trailers)?;
            // Either the end came before the trailers did, or they were none and this is no head of version 2.
            if !is_whole || (trailers.is_empty() && !is_traced) {
                return Err(DecodeError::Length);
            }
        } else {
            decode_lines(lines, &mut headers)?;
        }
        Ok(Self { status, headers, body, trailers, trace })
    }
}

/// A line `name:value` each, and an empty line.
fn encode_lines(lines: &HeaderMap, head: &mut Vec<u8>) {
    for (name, value) in lines {
        head.extend(name.as_str().as_bytes());
        head.push(b':');
        head.extend(value.as_bytes());
        head.push(b'\n');
    }
    head.push(b'\n');
}

fn decode_lines<'a>(lines: impl Iterator<Item = &'a [u8]>, fields: &mut HeaderMap) -> Result<(), DecodeError> {
    for line in lines {
        // The end came before the end: what follows an empty line is no part of the head.
        let (name, value) = if line.is_empty() { Err(DecodeError::Length) } else { header_line(line) }?;
        fields.try_append(name, value).map_err(|_| DecodeError::Header)?;
    }
    Ok(())
}

/// A status line of version 3, and the span at its end.
fn traced_line(line: &[u8]) -> Option<(&[u8], Option<TraceContext>)> {
    let space = line.iter().rposition(|byte| *byte == b' ')?;
    let trace = std::str::from_utf8(&line[space + 1..]).ok()?;
    Some((&line[..space], Some(trace.parse().ok()?)))
}

/// `STATUS stored` or `STATUS not-stored`.
fn status_line(line: &[u8]) -> Option<(StatusCode, bool)> {
    let (status, rest) = line.split_at_checked(3)?;
    let is_stored = match rest.strip_prefix(b" ")? {
        STORED => true,
        NOT_STORED => false,
        _ => return None,
    };
    Some((StatusCode::from_bytes(status).ok()?, is_stored))
}

fn header_line(line: &[u8]) -> Result<(HeaderName, HeaderValue), DecodeError> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(DecodeError::Header)?;
    let name = HeaderName::from_lowercase(&line[..colon]).map_err(|_| DecodeError::Header)?;
    let value = HeaderValue::from_bytes(&line[colon + 1..]).map_err(|_| DecodeError::Header)?;
    Ok((name, value))
}
