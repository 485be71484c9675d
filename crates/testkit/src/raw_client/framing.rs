//! How an answer's head reads, and where its body ends. Strict: what two readers could read in two ways is an error.

use std::io;

/// The status and the field lines of an answer.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

/// Where a body ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
    Close,
}

impl Head {
    /// Reads a head that ends with an empty line.
    pub(super) fn parse(bytes: &[u8]) -> io::Result<Self> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| *line != b"\r\n");
        let status_line = lines.next().ok_or_else(|| invalid("no status line"))?;
        let status = status_line.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let status = status.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| digits.parse().ok());
        let status = status.ok_or_else(|| invalid("no HTTP/1.1 status line"))?;
        Ok(Self { status, headers: lines.map(field_line).collect::<io::Result<_>>()? })
    }
}

impl Framing {
    /// The framing of an answer to anything but a HEAD.
    pub(super) fn of(status: u16, headers: &[(String, String)]) -> io::Result<Self> {
        let values = |name: &str| -> Vec<&str> {
            let named = headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.as_str()).collect()
        };
        if status < 200 || status == 204 || status == 304 {
            return Ok(Self::Length(0));
        }
        match (values("content-length")[..].as_ref(), values("transfer-encoding")[..].as_ref()) {
            ([], []) => Ok(Self::Close),
            ([length], []) => length.parse().map(Self::Length).map_err(|_| invalid("Content-Length is no number")),
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Self::Chunked),
            _ => Err(invalid("the framing fields contradict each other")),
        }
    }
}

/// A `NAME: VALUE` line, its end included. Bytes that are no UTF-8 are replaced; compare bodies for those.
pub(super) fn field_line(line: &[u8]) -> io::Result<(String, String)> {
    let text = String::from_utf8_lossy(line);
    let content = text.strip_suffix("\r\n").ok_or_else(|| invalid("a line doesn't end with CR LF"))?;
    let (name, value) = content.split_once(':').ok_or_else(|| invalid("a field line without a colon"))?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// The length in a chunk's first line; extensions are ignored.
pub(super) fn chunk_length(line: &[u8]) -> io::Result<usize> {
    let text = String::from_utf8_lossy(line);
    let digits = text.trim_end().split(';').next().unwrap_or_default();
    usize::from_str_radix(digits, 16).map_err(|_| invalid("a chunk without a length"))
}

pub(super) fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
