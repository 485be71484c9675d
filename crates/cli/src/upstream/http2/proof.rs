//! What an error proves about the request it ended (E6), against what leaves it open (E7).

use h2::{Error, Reason};
use oncekey_engine::{NotExecuted, fault};

/// Proof that the upstream did nothing with a request of which nothing but this error came back: the peer reset its stream
/// with REFUSED_STREAM, or closed the connection with a GOAWAY whose last stream is an earlier one. `h2` gives the GOAWAY to
/// exactly those streams; those up to the last one go on, and end in an I/O error if the connection does. What it detects
/// itself, and any other code of the peer's, says nothing about what the peer has done by then.
///
/// `begun`: an interim answer came, so the upstream was at work. An error that denies it proves nothing.
pub(super) fn not_executed(error: &Error, begun: bool) -> Option<NotExecuted> {
    if begun || !error.is_remote() || fault::broken("refused_is_ambiguous") {
        return None;
    }
    let reset = |reason| error.is_reset() && error.reason() == Some(reason);
    if reset(Reason::REFUSED_STREAM) || (reset(Reason::CANCEL) && fault::broken("cancel_is_proof")) {
        Some(NotExecuted::because("the upstream refused the stream"))
    } else if error.is_go_away() {
        Some(NotExecuted::because("the upstream went away before it took the stream"))
    } else {
        None
    }
}
