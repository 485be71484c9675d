//! A gate that holds a call until the test lets it through: the suite's replacement for sleeping.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Holds every call that passes it until it is opened; stays open then. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }
}

impl Gate {
    /// Waits until one more call has arrived at the gate.
    ///
    /// # Panics
    /// Never: the semaphore isn't closed.
    pub async fn reached(&self) {
        self.arrived.acquire().await.expect("never closed").forget();
    }

    /// Lets through all who wait, and all who come.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    /// What a held call does: waits here until the gate is open.
    ///
    /// # Panics
    /// Never: the semaphore isn't closed.
    pub async fn pass(&self) {
        self.arrived.add_permits(1);
        drop(self.open.acquire().await);
    }
}
