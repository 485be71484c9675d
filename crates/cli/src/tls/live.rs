//! A TLS configuration made from files, and made anew when they change.
//!
//! Files are compared by content: renewals replace files in too many ways (rename, overwrite, a switched symbolic link) for
//! their times to tell. What can't be used is refused and logged once, and the configuration in use stays.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::pem::{Pem, Source};
use super::{Finding, Tls};

/// How often files are looked at.
const EVERY: Duration = Duration::from_mins(1);

/// The files that one configuration is made from.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    pub(super) cert: Option<Source>,
    pub(super) key: Option<Source>,
    pub(super) ca: Option<Source>,
}

/// Their contents.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    pub(super) cert: Option<Pem>,
    pub(super) key: Option<Pem>,
    pub(super) ca: Option<Pem>,
}

impl Sources {
    fn read(&self) -> Result<Material, Finding> {
        let read = |source: &Option<Source>| source.as_ref().map(Source::read).transpose();
        Ok(Material { cert: read(&self.cert)?, key: read(&self.key)?, ca: read(&self.ca)? })
    }
}

impl Material {
    fn doubts(&self) -> Vec<Finding> {
        let of = |pem: &Option<Pem>, chain| pem.as_ref().map(|pem| pem.doubts(chain)).unwrap_or_default();
        [of(&self.cert, true), of(&self.ca, false)].concat()
    }
}

/// What came of looking at the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// They are as they were when they were looked at last.
    Unchanged,
    /// New connections use what is in them now.
    Renewed,
    /// They can't be used; what was in use stays.
    Refused,
}

/// The configuration in use.
pub(super) struct Live<C> {
    sources: Sources,
    make: fn(&Material) -> Result<C, Finding>,
    /// What was read last, whether it could be used or not.
    read_last: Mutex<Result<Material, Finding>>,
    current: ArcSwap<C>,
}

impl<C> Live<C> {
    /// Reads the files, blocking, and makes the configuration. Gives what is doubtful besides.
    pub(super) fn load(
        sources: Sources,
        make: fn(&Material) -> Result<C, Finding>,
    ) -> Result<(Self, Vec<Finding>), Finding> {
        let material = sources.read()?;
        let current = ArcSwap::from_pointee(make(&material)?);
        let doubts = material.doubts();
        Ok((Self { sources, make, read_last: Mutex::new(Ok(material)), current }, doubts))
    }

    /// The configuration for a new connection.
    pub(super) fn current(&self) -> Arc<C> {
        self.current.load_full()
    }

    /// Looks at the files, blocking, and uses what is new in them. May be repeated. What is new is logged, once.
    pub(super) fn check(&self) -> Checked {
        // Before anything is locked: a file system may hang.
        let read = self.sources.read();
        let mut last = self.read_last.lock();
        if read == *last {
            return Checked::Unchanged;
        }
        let made = read.as_ref().map_err(Finding::clone).and_then(self.make);
        let checked = match made {
            Ok(config) => {
                self.current.store(Arc::new(config));
                tracing::info!("TLS files have changed: new connections use what is in them now");
                for doubt in read.as_ref().map(Material::doubts).unwrap_or_default() {
                    tracing::warn!("{doubt}");
                }
                Checked::Renewed
            }
            Err(finding) => {
                tracing::error!("TLS files have changed and can't be used, so what was in use stays: {finding}");
                Checked::Refused
            }
        };
        *last = read;
        checked
    }

    /// Uses what another one has read from the same files just now.
    pub(super) fn take_over(&self, fresh: &Self) {
        let mut last = self.read_last.lock();
        last.clone_from(&fresh.read_last.lock());
        self.current.store(fresh.current());
    }
}

impl Tls {
    /// Goes on with what was read anew. Whether the listener speaks TLS at all stays as it was: that takes a restart.
    pub(crate) fn take_over(&mut self, fresh: Self) {
        if let (Some(running), Some(fresh)) = (&self.listener, &fresh.listener) {
            running.take_over(fresh);
        }
        self.upstream = fresh.upstream;
    }

    /// Looks at the files of both sides, blocking, and uses what is new in them.
    pub(super) fn check(&self) -> [Checked; 2] {
        let listener = self.listener.as_ref().map_or(Checked::Unchanged, |tls| tls.check());
        let upstream = self.upstream.as_ref().map_or(Checked::Unchanged, |tls| tls.check());
        [listener, upstream]
    }
}

/// Looks at the files each minute, for as long as it is polled: whoever renews a certificate need not say so.
pub(crate) async fn keep_up_to_date(tls: watch::Receiver<Tls>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let tls = tls.borrow().clone();
        // A file system that hangs takes a thread of its own with it, and no worker.
        let _ = tokio::task::spawn_blocking(move || tls.check()).await;
    }
}
