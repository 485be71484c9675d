//! What the parts of one client connection tell each other: the body left unread, and how the socket is to close.

use std::sync::atomic::{AtomicBool, Ordering};

use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;

/// One connection, shared by its socket, its requests and their bodies.
#[derive(Debug, Default)]
pub(super) struct Line {
    leftover: Mutex<Leftover>,
    /// An upgrade that was asked for and not given.
    unused_upgrade: Mutex<Option<OnUpgrade>>,
    /// More may come from the client that nobody will read.
    lingers: AtomicBool,
    /// The connection is a tunnel now.
    tunnel: AtomicBool,
    /// An answer ends with the connection: only a reset tells that it is cut short.
    ends_with_connection: AtomicBool,
    /// The body of the request broke its framing, or broke off.
    body_broken: AtomicBool,
}

/// The rest of a request's body that the service dropped.
#[derive(Debug, Default)]
pub(super) enum Leftover {
    /// The request isn't answered: a body dropped now comes here.
    #[default]
    Awaited,
    Left(Unread),
    /// The request is answered: a body dropped now is no longer looked after.
    Settled,
}

#[derive(Debug)]
pub(super) struct Unread {
    pub(super) body: Incoming,
    /// Whether reading it had begun; if not, a client that sent `Expect` may be waiting still.
    pub(super) begun: bool,
}

impl Line {
    /// A request with a body begins.
    pub(super) fn begin(&self) {
        *self.leftover.lock() = Leftover::Awaited;
        self.body_broken.store(false, Ordering::Relaxed);
    }

    /// Takes the rest of a body that is dropped before its end.
    pub(super) fn leave(&self, unread: Unread) {
        let mut leftover = self.leftover.lock();
        if let Leftover::Awaited = *leftover {
            *leftover = Leftover::Left(unread);
        } else {
            // hyper closes the connection once it has no reader.
            self.linger();
        }
    }

    /// The rest of the body, if it was left; from here on none is taken.
    pub(super) fn settle(&self) -> Option<Unread> {
        match std::mem::replace(&mut *self.leftover.lock(), Leftover::Settled) {
            Leftover::Left(unread) => Some(unread),
            Leftover::Awaited | Leftover::Settled => None,
        }
    }

    /// Whether the request is answered.
    pub(super) fn is_settled(&self) -> bool {
        matches!(*self.leftover.lock(), Leftover::Settled)
    }

    /// Keeps an upgrade that wasn't given to its client.
    pub(super) fn keep_unused_upgrade(&self, upgrade: OnUpgrade) {
        *self.unused_upgrade.lock() = Some(upgrade);
    }

    /// Closes the socket where hyper left that to an upgrade: asked for one, even in vain, it hands the socket out at the end
    /// of the connection instead of closing it in order. Only to be called once hyper's side is dropped.
    pub(super) async fn close_unused_upgrade(&self) {
        let upgrade = self.unused_upgrade.lock().take();
        if let Some(upgrade) = upgrade
            && let Ok(socket) = upgrade.await
        {
            // It fails if the client is gone, and then there is nothing to close.
            let _ = TokioIo::new(socket).shutdown().await;
        }
    }

    pub(super) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(super) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    pub(super) fn become_tunnel(&self) {
        self.tunnel.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_tunnel(&self) -> bool {
        self.tunnel.load(Ordering::Relaxed)
    }

    pub(super) fn end_with_connection(&self) {
        self.ends_with_connection.store(true, Ordering::Relaxed);
    }

    pub(super) fn ends_with_connection(&self) -> bool {
        self.ends_with_connection.load(Ordering::Relaxed)
    }

    pub(super) fn break_body(&self) {
        self.body_broken.store(true, Ordering::Relaxed);
    }

    pub(super) fn body_is_broken(&self) -> bool {
        self.body_broken.load(Ordering::Relaxed)
    }
}
