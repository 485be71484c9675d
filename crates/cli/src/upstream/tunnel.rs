//! What follows a 101: bytes both ways, until both sides are done or the drain cuts it (D4).

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::pool::Sender;
use crate::drain::Drain;

/// Copies between client and upstream once both have changed. One side's end is passed on and the other goes on; an error on
/// either closes both.
pub(super) fn open(client: OnUpgrade, upstream: OnUpgrade, sender: Sender, drain: &Drain) {
    let end = drain.clone();
    drain.spawn(async move {
        let copied = async {
            let (Ok(client), Ok(upstream)) = tokio::join!(client, upstream) else { return };
            drop(sender);
            // Its error says which side went first; both are closed all the same.
            let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(upstream)).await;
        };
        tokio::select! {
            () = copied => {}
            () = end.cut() => {}
        }
    });
}
