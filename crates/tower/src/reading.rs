//! Making a request's fingerprint without holding up others: what may take long is done beside the runtime.

use std::sync::Arc;

use oncekey_core::fingerprint::{Fingerprint, Recipe, TooLarge};
use tokio::task::spawn_blocking;

use crate::budget::{Budget, Share};
use crate::request::KeyedRequest;

/// Up to so many bytes are read on the spot, which takes a millisecond or two.
const ON_THE_SPOT: u64 = 256 * 1024;

/// The fingerprint of a request, whose decoding may take `decoding` bytes, for which `room` was taken. Dropped before its
/// end, it gives the room back once the reading has ended, which is soon: it is bounded by the sizes of bodies.
pub(crate) async fn fingerprint(
    request: &Arc<KeyedRequest>,
    recipe: &Recipe,
    decoding: (u64, Option<Share>),
    budget: &Budget,
) -> Result<Fingerprint, TooLarge> {
    let (decoding, room) = decoding;
    if decoding.max(request.body.bytes.len() as u64) <= ON_THE_SPOT {
        return request.fingerprint(recipe);
    }
    let (request, recipe, reader) = (Arc::clone(request), recipe.clone(), budget.reader().await);
    let reading = spawn_blocking(move || {
        let fingerprint = request.fingerprint(&recipe);
        drop((room, reader));
        fingerprint
    });
    match reading.await {
        Ok(fingerprint) => fingerprint,
        Err(error) => match error.try_into_panic() {
            // It is this request's, as if it had been done here.
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and this with it.
            Err(_) => std::future::pending().await,
        },
    }
}
