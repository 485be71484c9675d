//! Where in a trace an execution was: what a recorded response keeps, so that its replays can point back to it.

use std::fmt;
use std::str::FromStr;

/// The trace and the span of one execution, as W3C Trace Context identifies them. Written as `TRACE-SPAN`, 32 and 16 lower-case
/// hex digits. Neither is all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
}

/// Text that names no span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a span of a trace is 32 and 16 lower-case hex digits with a hyphen between, neither of them all zeros")]
pub struct InvalidTraceContext;

impl TraceContext {
    /// From the two ids; `None` if one of them is all zeros, which names nothing.
    pub fn new(trace: [u8; 16], span: [u8; 8]) -> Option<Self> {
        let (trace, span) = (u128::from_be_bytes(trace), u64::from_be_bytes(span));
        (trace != 0 && span != 0).then_some(Self { trace, span })
    }

    /// The id of the trace.
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace.to_be_bytes()
    }

    /// The id of the span.
    pub const fn span_id(&self) -> [u8; 8] {
        self.span.to_be_bytes()
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}-{:016x}", self.trace, self.span)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

impl FromStr for TraceContext {
    type Err = InvalidTraceContext;

    fn from_str(text: &str) -> Result<Self, InvalidTraceContext> {
        let (trace, span) = text.split_once('-').ok_or(InvalidTraceContext)?;
        let is_hex = |digits: &str, len| {
            digits.len() == len && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !is_hex(trace, 32) || !is_hex(span, 16) {
            return Err(InvalidTraceContext);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| InvalidTraceContext)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| InvalidTraceContext)?;
        Self::new(trace.to_be_bytes(), span.to_be_bytes()).ok_or(InvalidTraceContext)
    }
}
