//! The memory that whole bodies may take (W3).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies up to this size aren't counted: they are part of what a connection takes.
pub(crate) const UNCOUNTED: u64 = 64 * 1024;

/// What the bodies of a node may take in memory, shared by all clones. Requests and responses have shares of their own, so
/// that a request that holds its body can always get room for its answer in the end.
#[derive(Clone, Debug)]
pub struct Budget {
    requests: Pool,
    responses: Pool,
    /// Places for reading large bodies: one a core, since that is work for a core, and since a decoder takes memory for its
    /// window that is counted nowhere else.
    readers: Arc<Semaphore>,
}

/// Room that was taken; given back when the last clone is dropped.
pub(crate) type Share = Arc<dyn Send + Sync>;

/// A part of the budget, counted in KiB.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    room: Arc<Semaphore>,
    kib: u32,
    given: Arc<Mutex<Given>>,
}

/// The room of bodies that are being given, by the address of their bytes.
type Given = HashMap<usize, Weak<dyn Send + Sync>>;

impl Budget {
    /// Divides `bytes` between requests (two thirds) and responses (one third).
    pub fn new(bytes: u64) -> Self {
        let readers = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            requests: Pool::new(bytes / 3 * 2),
            responses: Pool::new(bytes / 3),
            readers: Arc::new(Semaphore::new(readers)),
        }
    }

    pub(crate) const fn requests(&self) -> &Pool {
        &self.requests
    }

    pub(crate) const fn responses(&self) -> &Pool {
        &self.responses
    }

    /// A place for reading a large body, in the order of asking.
    pub(crate) async fn reader(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.readers).acquire_owned().await.expect("the semaphore is never closed")
    }
}

impl Pool {
    fn new(bytes: u64) -> Self {
        // A share is asked for in one piece, and tokio counts a piece in 32 bits.
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).max(1);
        Self { room: Arc::new(Semaphore::new(kib as usize)), kib, given: Arc::default() }
    }

    /// Room for `bytes`, in the order of asking. What is larger than the whole pool takes the whole pool.
    pub(crate) async fn take(&self, bytes: u64) -> Option<Share> {
        self.take_both([bytes, 0]).await[0].take()
    }

    /// Room for two things, taken in one piece and given back apart.
    pub(crate) async fn take_both(&self, bytes: [u64; 2]) -> [Option<Share>; 2] {
        let [first, second] = bytes.map(|bytes| if bytes <= UNCOUNTED { 0 } else { self.kib_of(bytes) });
        let second = second.min(self.kib - first);
        if first + second == 0 {
            return [None, None];
        }
        let permit = Arc::clone(&self.room).acquire_many_owned(first + second).await;
        let mut permit = permit.expect("the semaphore is never closed");
        let rest = permit.split(second as usize).expect("it was taken with the first");
        [(first > 0).then(|| shared(permit)), (second > 0).then(|| shared(rest))]
    }

    /// Room for giving a body, at once or not at all. Answers that give the same bytes take room for them once.
    pub(crate) fn try_give(&self, body: &Bytes) -> Result<Option<Share>, NoRoom> {
        if body.len() as u64 <= UNCOUNTED {
            return Ok(None);
        }
        let mut given = self.given.lock();
        if let Some(share) = given.get(&address(body)).and_then(Weak::upgrade) {
            return Ok(Some(share));
        }
        let permit = Arc::clone(&self.room).try_acquire_many_owned(self.kib_of(body.len() as u64));
        permit.map(|permit| Some(give(&mut given, body, shared(permit)))).map_err(|_| NoRoom)
    }

    /// Lets all further answers that give these bytes share the room that was taken for them.
    pub(crate) fn give(&self, body: &Bytes, share: Share) -> Share {
        give(&mut self.given.lock(), body, share)
    }

    fn kib_of(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(self.kib)
    }
}

/// Too many bytes are in memory already.
#[derive(Debug)]
pub(crate) struct NoRoom;

fn address(body: &Bytes) -> usize {
    body.as_ptr() as usize
}

fn give(given: &mut Given, body: &Bytes, share: Share) -> Share {
    // The bytes stay as long as their room is taken, so that no other body can come to lie at their address.
    let share: Share = Arc::new((body.clone(), share));
    given.retain(|_, share| share.strong_count() > 0);
    given.insert(address(body), Arc::downgrade(&share));
    share
}

fn shared(permit: OwnedSemaphorePermit) -> Share {
    Arc::new(permit)
}
