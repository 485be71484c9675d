//! A client that is one HTTP/2 connection: it sends the frames that the test gives, right or wrong, and reads frames as they
//! come.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::PATIENCE;

/// The kinds of frames (RFC 9113, section 6).
#[expect(missing_docs, reason = "the names are the standard's")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flags that tests set.
#[expect(missing_docs, reason = "the names are the standard's")]
pub mod flag {
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame as it stood on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// See [`kind`].
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// The stream's number; 0 is the connection.
    pub stream: u32,
    /// What it holds.
    pub payload: Vec<u8>,
}

/// What became of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered whole, with this status.
    Answered(u16),
    /// It was reset, with this error code.
    Reset(u32),
    /// The connection was ended, with the error code of its GOAWAY if it had one.
    Closed(Option<u32>),
}

/// A connection of HTTP/2. Every wait ends after [`PATIENCE`] with `TimedOut`.
#[derive(Debug)]
pub struct FrameClient {
    stream: TcpStream,
    goaway: Option<u32>,
}

/// A field line in HPACK: a literal that no table learns, uncompressed, so that it may hold any bytes.
pub fn field(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut block = vec![0];
    for text in [name.as_ref(), value.as_ref()] {
        length(&mut block, text.len());
        block.extend_from_slice(text);
    }
    block
}

/// An integer of HPACK with a prefix of 7 bits (RFC 7541, section 5.1).
fn length(block: &mut Vec<u8>, mut length: usize) {
    let byte = |value: usize| u8::try_from(value).expect("a byte");
    if length < 127 {
        block.push(byte(length));
        return;
    }
    block.push(127);
    length -= 127;
    while length >= 128 {
        block.push(byte(length % 128 + 128));
        length /= 128;
    }
    block.push(byte(length));
}

/// A header block.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

impl FrameClient {
    /// Connects and says the preface, with settings of no table and no push.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, goaway: None };
        client.write(PREFACE).await?;
        client.send(kind::SETTINGS, 0, 0, [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]).await?;
        Ok(client)
    }

    /// Sends bytes as they are.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        within(self.stream.write_all(bytes.as_ref())).await
    }

    /// Sends a frame.
    pub async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> io::Result<()> {
        self.write(encoded(kind, flags, stream, payload.as_ref())).await
    }

    /// Sends a request's head in one frame; `ended` if no body follows.
    pub async fn head(&mut self, stream: u32, block: impl AsRef<[u8]>, ended: bool) -> io::Result<()> {
        let flags = flag::END_HEADERS | if ended { flag::END_STREAM } else { 0 };
        self.send(kind::HEADERS, flags, stream, block).await
    }

    /// Sends a piece of a body; `ended` if it is the last.
    pub async fn data(&mut self, stream: u32, data: impl AsRef<[u8]>, ended: bool) -> io::Result<()> {
        self.send(kind::DATA, u8::from(ended), stream, data).await
    }

    /// Resets a stream with CANCEL.
    pub async fn reset(&mut self, stream: u32) -> io::Result<()> {
        self.send(kind::RST_STREAM, 0, stream, 8_u32.to_be_bytes()).await
    }

    /// Reads the next frame; `None` at the end of the connection, be it in order or not. Settings and pings are answered.
    pub async fn read(&mut self) -> io::Result<Option<Frame>> {
        let mut head = [0; 9];
        match within(self.stream.read_exact(&mut head)).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            Err(_) => return Ok(None),
        }
        let [a, b, c, kind, flags, s1, s2, s3, s4] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        if within(self.stream.read_exact(&mut payload)).await.is_err() {
            return Ok(None);
        }
        let frame = Frame { kind, flags, stream: u32::from_be_bytes([s1, s2, s3, s4]), payload };
        if [kind::SETTINGS, kind::PING].contains(&kind) && flags & flag::ACK == 0 {
            let echo = if kind == kind::PING { &frame.payload[..] } else { &[] };
            // It fails if the server has closed, which the next read will say.
            let _ = self.send(kind, flag::ACK, 0, echo).await;
        }
        if kind == kind::GOAWAY {
            self.goaway = Some(code(&frame.payload[4..]));
        }
        Ok(Some(frame))
    }

    /// Waits until the server has read all that was sent so far: a PING is answered in its turn.
    ///
    /// # Panics
    /// When it isn't answered.
    pub async fn heard(&mut self) {
        self.send(kind::PING, 0, 0, [7; 8]).await.expect("sent");
        loop {
            let frame = self.read().await.expect("frames").expect("no end before the answer");
            if frame.kind == kind::PING && frame.flags & flag::ACK != 0 && frame.payload == [7; 8] {
                return;
            }
        }
    }

    /// Reads until a stream is answered whole or reset, or until the connection ends. What other streams get is dropped.
    pub async fn outcome(&mut self, stream: u32) -> io::Result<Outcome> {
        let mut status = None;
        while let Some(frame) = self.read().await? {
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                kind::HEADERS if status.is_none() => status = Some(status_of(&frame.payload)?),
                kind::RST_STREAM => return Ok(Outcome::Reset(code(&frame.payload))),
                _ => {}
            }
            if let Some(status) = status
                && [kind::HEADERS, kind::DATA].contains(&frame.kind)
                && frame.flags & flag::END_STREAM != 0
            {
                return Ok(Outcome::Answered(status));
            }
        }
        Ok(Outcome::Closed(self.goaway))
    }

    /// Reads until a stream is reset; the error code, or `None` if the connection ends first.
    pub async fn reset_code(&mut self, stream: u32) -> io::Result<Option<u32>> {
        while let Some(frame) = self.read().await? {
            if frame.kind == kind::RST_STREAM && frame.stream == stream {
                return Ok(Some(code(&frame.payload)));
            }
        }
        Ok(None)
    }
}

/// A frame as bytes.
///
/// # Panics
/// When the payload is longer than a frame can be.
pub fn encoded(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length has 24 bits").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn code(bytes: &[u8]) -> u32 {
    bytes.get(..4).map_or(u32::MAX, |code| u32::from_be_bytes(code.try_into().expect("four bytes")))
}

/// The status of an answer, which is its first field: from the static table, or three digits, plain or by Huffman's code.
fn status_of(block: &[u8]) -> io::Result<u16> {
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, format!("no status in {block:02x?}"));
    // A change of the table's size may stand before it.
    let at = block.iter().position(|byte| byte & 0xe0 != 0x20).ok_or_else(unreadable)?;
    let block = &block[at..];
    let first = *block.first().ok_or_else(unreadable)?;
    if first & 0x80 != 0 {
        let known = [200, 204, 206, 304, 400, 404, 500];
        return known.get(usize::from(first & 0x7f).wrapping_sub(8)).copied().ok_or_else(unreadable);
    }
    let text = block.get(1).ok_or_else(unreadable)?;
    let bytes = block.get(2..2 + usize::from(text & 0x7f)).ok_or_else(unreadable)?;
    let digits = if text & 0x80 == 0 { bytes.to_vec() } else { huffman_digits(bytes) };
    String::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(unreadable)
}

/// Digits out of Huffman's code (RFC 7541, appendix B): 0 to 2 have five bits, the others six.
fn huffman_digits(bytes: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let (mut rest, mut digits) = (&bits[..], Vec::new());
    let number = |bits: &[u8]| bits.iter().fold(0, |number, bit| number << 1 | bit);
    while rest.len() >= 5 && digits.len() < 3 {
        let five = number(&rest[..5]);
        if five < 3 {
            digits.push(b'0' + five);
            rest = &rest[5..];
        } else if rest.len() >= 6 {
            digits.push(number(&rest[..6]).wrapping_sub(0x19).wrapping_add(b'3'));
            rest = &rest[6..];
        } else {
            break;
        }
    }
    digits
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_in_each_of_its_spellings() {
        assert_eq!(status_of(&[0x88]).unwrap(), 200);
        assert_eq!(status_of(&[0x20, 0x8c]).unwrap(), 400);
        assert_eq!(status_of(&[0x48, 3, b'4', b'3', b'1']).unwrap(), 431);
        // RFC 7541, C.6.1: 302.
        assert_eq!(status_of(&[0x48, 0x82, 0x64, 0x02]).unwrap(), 302);
        assert!(status_of(&[0x41, 0]).is_err());
    }

    #[test]
    fn long_texts_have_long_lengths() {
        assert_eq!(field("a", vec![b'x'; 1337 + 127 - 31])[3..6], [127, 0x9a, 0x0a]);
    }
}
