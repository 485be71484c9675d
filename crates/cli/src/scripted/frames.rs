//! A raw peer that speaks HTTP/2 frame by frame, so that a test decides which frame comes when, or doesn't.

use super::Peer;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// `SETTINGS_MAX_CONCURRENT_STREAMS`.
pub(crate) const MAX_STREAMS: u16 = 3;
/// `SETTINGS_INITIAL_WINDOW_SIZE`.
pub(crate) const WINDOW: u16 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The upstream's end of an HTTP/2 connection.
pub(crate) struct Frames {
    peer: Peer,
    /// Whether PINGs are answered.
    pub(crate) answers_pings: bool,
    /// PINGs that have come.
    pub(crate) pings: usize,
}

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// Whether the client's side of the stream ends with it.
    pub(crate) fn ends(&self) -> bool {
        [DATA, HEADERS].contains(&self.kind) && self.flags & END_STREAM != 0
    }

    /// The code of a RST_STREAM.
    pub(crate) fn code(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }
}

impl Frames {
    /// Takes the client's preface and sends settings.
    pub(crate) async fn begin(mut peer: Peer, settings: &[(u16, u32)]) -> Self {
        assert_eq!(peer.bytes(PREFACE.len()).await, PREFACE);
        let mut frames = Self { peer, answers_pings: true, pings: 0 };
        let payload =
            settings.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
        frames.send(SETTINGS, 0, 0, &payload.collect::<Vec<_>>()).await;
        frames
    }

    /// The next frame that isn't about the connection itself; `None` once it has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.any().await?;
            if [DATA, HEADERS, RST_STREAM, GOAWAY].contains(&frame.kind) {
                return Some(frame);
            }
        }
    }

    /// The next frame of any kind, after it was answered if it needs to be.
    pub(crate) async fn any(&mut self) -> Option<Frame> {
        let header = self.peer.try_bytes(9).await?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let stream = u32::from_be_bytes(header[5..9].try_into().unwrap());
        let payload = self.peer.try_bytes(length).await?;
        let frame = Frame { kind: header[3], flags: header[4], stream, payload };
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]).await,
            PING if frame.flags & ACK == 0 => {
                self.pings += 1;
                if self.answers_pings {
                    self.send(PING, ACK, 0, &frame.payload).await;
                }
            }
            _ => {}
        }
        Some(frame)
    }

    /// The next request, read to its end: its stream and its body; `None` if the connection ends instead. One request at a
    /// time.
    pub(crate) async fn try_request(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut frame = self.next().await?;
        while frame.kind != HEADERS {
            frame = self.next().await?;
        }
        let stream = frame.stream;
        let mut body = Vec::new();
        while !frame.ends() {
            frame = self.next().await?;
            if frame.kind == DATA && frame.stream == stream {
                body.extend_from_slice(&frame.payload);
            }
        }
        Some((stream, body))
    }

    pub(crate) async fn request(&mut self) -> (u32, Vec<u8>) {
        self.try_request().await.expect("a request comes")
    }

    pub(crate) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        // The client may have closed meanwhile; then the next read says so.
        self.peer.try_send(frame).await;
    }

    /// The head of an answer. Fields are sent as literals, in as many frames as they take.
    pub(crate) async fn head(&mut self, stream: u32, fields: &[(&str, &str)], end: bool) {
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0);
            for text in [name, value] {
                literal(&mut block, text.as_bytes());
            }
        }
        let mut pieces = block.chunks(16_000).peekable();
        let mut kind = HEADERS;
        while let Some(piece) = pieces.next() {
            let mut flags = if pieces.peek().is_none() { END_HEADERS } else { 0 };
            if kind == HEADERS && end {
                flags |= END_STREAM;
            }
            self.send(kind, flags, stream, piece).await;
            kind = CONTINUATION;
        }
    }

    pub(crate) async fn data(&mut self, stream: u32, data: &[u8], end: bool) {
        self.send(DATA, if end { END_STREAM } else { 0 }, stream, data).await;
    }

    /// `200` and `ok`.
    pub(crate) async fn ok(&mut self, stream: u32) {
        self.head(stream, &[(":status", "200"), ("content-length", "2")], false).await;
        self.data(stream, b"ok", true).await;
    }

    pub(crate) async fn reset(&mut self, stream: u32, code: h2::Reason) {
        self.send(RST_STREAM, 0, stream, &u32::from(code).to_be_bytes()).await;
    }

    pub(crate) async fn go_away(&mut self, last: u32, code: h2::Reason) {
        let payload = [last.to_be_bytes(), u32::from(code).to_be_bytes()].concat();
        self.send(GOAWAY, 0, 0, &payload).await;
    }

    /// Reads until the client closes.
    pub(crate) async fn rest(mut self) {
        while self.next().await.is_some() {}
    }

    /// Closes with a reset of the TCP connection.
    pub(crate) fn cut(self) {
        self.peer.reset();
    }
}

/// A string as HPACK has it, without Huffman coding.
fn literal(block: &mut Vec<u8>, text: &[u8]) {
    let mut length = text.len();
    if length < 127 {
        block.push(u8::try_from(length).unwrap());
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push(u8::try_from(length % 128).unwrap() | 128);
            length /= 128;
        }
        block.push(u8::try_from(length).unwrap());
    }
    block.extend_from_slice(text);
}
