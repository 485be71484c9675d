//! The bodies that the counting upstream answers with, piece by piece, so that a large one is never in memory whole.

use bytes::Bytes;

use super::book::Arrival;
use super::script::Kind;

/// The largest piece of a payload.
const PIECE: u64 = 16 * 1024;

/// The body of one answer.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Whole { pieces: Vec<Bytes>, media_type: Option<&'static str> },
    Payload { serial: u32, length: u64 },
}

impl Content {
    /// The body of the given kind for an execution; `request` is the request's body, for an echo.
    pub(super) fn new(kind: Kind, arrival: &Arrival, request: Bytes) -> Self {
        let serial = arrival.serial;
        match kind {
            Kind::Payload(length) => Self::Payload { serial, length },
            Kind::Nothing => Self::Whole { pieces: Vec::new(), media_type: None },
            Kind::Echo => Self::Whole { pieces: vec![request], media_type: Some("application/octet-stream") },
            Kind::Events => {
                let event = |number| Bytes::from(format!("id: {serial}-{number}\ndata: event {number}\n\n"));
                Self::Whole { pieces: (1..=3).map(event).collect(), media_type: Some("text/event-stream") }
            }
            Kind::Json => {
                let Arrival { execution, scope, key, .. } = arrival;
                let json = serde_json::json!({ "serial": serial, "execution": execution, "scope": scope, "key": key });
                let mut tail = Bytes::from(json.to_string());
                // Two pieces, so that a gate or a cut in the middle of the body has a middle.
                let head = tail.split_to(tail.len() / 2);
                Self::Whole { pieces: vec![head, tail], media_type: Some("application/json") }
            }
        }
    }

    pub(super) fn media_type(&self) -> Option<&'static str> {
        match self {
            Self::Whole { media_type, .. } => *media_type,
            Self::Payload { .. } => Some("application/octet-stream"),
        }
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Whole { pieces, .. } => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Self::Payload { length, .. } => *length,
        }
    }

    /// The piece of this number, from 0; `None` past the end.
    pub(super) fn piece(&self, number: usize) -> Option<Bytes> {
        match self {
            Self::Whole { pieces, .. } => pieces.get(number).cloned(),
            Self::Payload { serial, length } => {
                let start = number as u64 * PIECE;
                let end = (start + PIECE).min(*length);
                (start < end).then(|| (start..end).map(|at| payload_byte(*serial, at)).collect())
            }
        }
    }
}

/// The body of `X-Test-Body-Bytes: N` in the answer with this serial number: the number in four bytes, big endian, then
/// bytes that run through 00–FF and shift with every 256, so that a lost, doubled or moved stretch shows.
pub fn payload(serial: u32, length: u64) -> Bytes {
    (0..length).map(|at| payload_byte(serial, at)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the low byte is what is wanted")]
fn payload_byte(serial: u32, at: u64) -> u8 {
    match serial.to_be_bytes().get(usize::try_from(at).unwrap_or(usize::MAX)) {
        Some(byte) => *byte,
        None => (at as u8).wrapping_add((at >> 8) as u8).wrapping_add((at >> 16) as u8),
    }
}
