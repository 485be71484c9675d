//! Starting oncekey inside a program, and ending it: engine, layer and budget in one piece. What each of them does is theirs.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use oncekey_core::Namespace;
use oncekey_engine::{Engine, Settings};
use oncekey_store::{Store, StoreError, SystemClock, Transactions};

use crate::body::ResponseBody;
use crate::budget::Budget;
use crate::layer::IdempotencyLayer;
use crate::route::{Route, RouteError, Routes};

/// How a program uses oncekey. The defaults are the protocol's: every POST, PUT, PATCH and DELETE that carries a key.
#[derive(Debug)]
pub struct Options {
    /// Part of every record's identity: two services on one store never meet (S5).
    pub namespace: Namespace,
    /// What is guarded, and how.
    pub routes: Vec<Route>,
    /// Transactional mode for every route that has no [`Route::transactions`] of its own (G3).
    pub transactions: Option<Arc<dyn Transactions>>,
    /// What is the same for all routes.
    pub settings: Settings,
    /// Bytes that the bodies of keyed requests and their answers may take in memory (W3).
    pub max_buffered: u64,
    /// How long [`Oncekey::shutdown`] lets executions finish (D4).
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: Namespace::default(),
            routes: vec![Route::default()],
            transactions: None,
            settings: Settings::default(),
            max_buffered: 256 * 1024 * 1024,
            drain: Duration::from_secs(70),
        }
    }
}

/// Why oncekey can't start. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The routes contradict each other, or one can't be used as given.
    #[error(transparent)]
    Routes(#[from] RouteError),
    /// The store didn't take the first heartbeat.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// oncekey as it runs in a program. It gives the layer, and ends what runs behind it.
///
/// Dropping it ends nothing: layers that were given go on, and so does the heartbeat that keeps their executions valid, as
/// long as the runtime does. That is safe, as a crash is: an execution that the runtime's end cuts off counts as `unknown`
/// once the lease has lapsed. [`Oncekey::shutdown`] spares its clients that.
#[must_use = "without a shutdown, what still runs when the program ends becomes unknown"]
#[derive(Clone)]
pub struct Oncekey {
    layer: IdempotencyLayer,
    engine: Engine<Response<ResponseBody>>,
    drain: Duration,
}

impl Oncekey {
    /// Makes this process known to the store, and starts its heartbeat, sweeping and counting. Must be called within a tokio
    /// runtime, and after the program's metrics recorder is installed, if it has one.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Result<Self, StartError> {
        let Options { namespace, mut routes, transactions, settings, max_buffered, drain } = options;
        for route in &mut routes {
            route.transactions = route.transactions.take().or_else(|| transactions.clone());
        }
        let routes = Routes::new(routes)?;
        let engine = Engine::start(store, Arc::new(SystemClock), settings).await?;
        let layer = IdempotencyLayer::new(engine.clone(), namespace, routes, Budget::new(max_buffered));
        Ok(Self { layer, engine, drain })
    }

    /// The layer. All that are given share everything.
    pub fn layer(&self) -> IdempotencyLayer {
        self.layer.clone()
    }

    /// Waits up to [`Options::drain`] for what executes, records what still does as unknown, and ends all tasks (D4). To be
    /// called when the server takes no more requests; a keyed request that comes all the same is `overloaded`, unless its
    /// record answers it. Returns how many executions were cut. May be repeated, and called again where the future was
    /// dropped before its end.
    pub async fn shutdown(&self) -> usize {
        self.engine.shutdown(self.drain).await
    }
}
