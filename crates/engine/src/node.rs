//! One oncekey process on a store: its identity there, what its calls share, and its background work.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};
use oncekey_core::{Namespace, OwnerId, Scope, Timestamp};
use oncekey_store::{Clock, Store, StoreError, Swept};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::flight::Flights;
use crate::metered::Metered;
use crate::places::Places;
use crate::poller::Poller;
use crate::quota::Quota;
use crate::random;
use crate::recorder::Recorder;
use crate::replay_cache::ReplayCache;
use crate::replay_counts::ReplayCounts;
use crate::store_time::StoreTime;
use crate::watching::Watching;
use crate::{Settings, fault};

/// How often replay counts are written.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// What all calls of a process share.
pub(crate) struct Node<A> {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) owner: OwnerId,
    pub(crate) flights: Arc<Flights<A>>,
    pub(crate) cache: ReplayCache,
    pub(crate) replays: ReplayCounts,
    pub(crate) recorder: Recorder,
    pub(crate) poller: Poller,
    pub(crate) quota: Option<Quota>,
    pub(crate) inflight: Places,
    /// How often expired records are swept, and how many records a step deletes.
    sweeping: watch::Sender<(Duration, u32)>,
    pub(crate) executions: TaskTracker,
    pub(crate) cut: CancellationToken,
    store_time: StoreTime,
    pub(crate) takeovers: Counter,
    /// Whether the store took the last heartbeat.
    up: Gauge,
    /// [`Clock::elapsed`] from before the last heartbeat that the store took.
    beaten: Mutex<Duration>,
    background: Background,
}

/// The tasks that run as long as the process lives.
struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl<A: Send + 'static> Node<A> {
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Arc<Self>, StoreError> {
        let store: Arc<dyn Store> = Arc::new(Metered::new(store));
        let up = gauge!("oncekey_store_up");
        gauge!("oncekey_store_clock_ahead").set(0.0);
        let owner = OwnerId::from_bytes(random::bits());
        let asked = clock.elapsed();
        let now = store.heartbeat(owner, settings.lease).await?;
        up.set(1.0);
        if let Some(most) = settings.max_records_per_scope {
            // Whatever the store needs for counting, it makes before requests wait for it.
            store
                .count_scope(&Namespace::default(), &Scope::new("static", "none").expect("a short text"), most)
                .await?;
        }
        let background = Background { tasks: TaskTracker::new(), stop: CancellationToken::new() };
        let executions = TaskTracker::new();
        let recorder =
            Recorder::new(Arc::clone(&store), executions.clone(), settings.record_retry, settings.unrecorded_bytes);
        let (poller, polling) = Poller::new(Arc::clone(&store));
        let node = Arc::new(Self {
            flights: Flights::new(settings.max_waiters_all, gauge!("oncekey_waiters")),
            cache: ReplayCache::new(settings.cache_for, settings.cache_bytes),
            replays: ReplayCounts::default(),
            recorder,
            poller,
            quota: settings.max_records_per_scope.map(Quota::new),
            inflight: Places::new(settings.max_inflight, gauge!("oncekey_inflight")),
            sweeping: watch::Sender::new((settings.sweep_every, settings.sweep_batch)),
            executions,
            cut: CancellationToken::new(),
            store_time: StoreTime::default(),
            takeovers: counter!("oncekey_takeovers_total"),
            up,
            beaten: Mutex::new(asked),
            settings,
            store,
            clock,
            owner,
            background,
        });
        node.trusts_expiry_at(now, asked);
        node.spawn_background(polling);
        node.spawn_background(Arc::clone(&node).beat());
        node.spawn_background(Arc::clone(&node).keep_swept());
        node.spawn_background(Arc::clone(&node).count_replays());
        node.spawn_background(Arc::clone(&node).watch(Watching::new()));
        Ok(node)
    }

    fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.background.stop.clone();
        self.background.tasks.spawn(async move { stop.run_until_cancelled_owned(task).await });
    }

    /// Takes note of the store's time; false while it runs ahead, so that nothing may count as expired (E9). `asked` is
    /// [`Clock::elapsed`] from before the store was asked: an answer that is noticed late then distrusts itself, and
    /// doesn't move the base line that later ones are measured by.
    pub(crate) fn trusts_expiry_at(&self, now: Timestamp, asked: Duration) -> bool {
        self.store_time.observe(now, asked)
    }

    /// Takes over what may change while operations run; see [`crate::Engine::adjust`].
    pub(crate) fn adjust(&self, settings: &Settings) {
        self.inflight.resize(settings.max_inflight);
        self.flights.bound_waiters(settings.max_waiters_all);
        self.cache.keep_for(settings.cache_for);
        let sweeping = (settings.sweep_every, settings.sweep_batch);
        self.sweeping.send_if_modified(|now| std::mem::replace(now, sweeping) != sweeping);
    }

    /// One heartbeat; the store's time if it can be trusted to expire records.
    async fn heartbeat(&self) -> Option<Timestamp> {
        let asked = self.clock.elapsed();
        // Given up well within the lease, so that one lost reply doesn't cost the claims their validity.
        match timeout(self.settings.lease / 3, self.store.heartbeat(self.owner, self.settings.lease)).await {
            Ok(Ok(now)) => {
                self.up.set(1.0);
                *self.beaten.lock() = asked;
                return self.trusts_expiry_at(now, asked).then_some(now);
            }
            Ok(Err(error)) => tracing::warn!(%error, "a heartbeat failed"),
            Err(_) => tracing::warn!("a heartbeat took longer than a third of the lease"),
        }
        self.up.set(0.0);
        None
    }

    /// Whether this reading of the store's clock is in step with elapsed time (E9). It was asked for a moment ago, which the
    /// tolerance covers.
    pub(crate) fn believes(&self, now: Timestamp) -> bool {
        self.store_time.believes(now, self.clock.elapsed())
    }

    pub(crate) fn trusts_clock(&self) -> bool {
        self.store_time.is_trusted()
    }

    /// Since when, by [`Clock::elapsed`], this process has been sure to count as alive: for a lease from then on, also
    /// without another heartbeat. A claim is valid no longer than that, however young it is (E4).
    pub(crate) fn alive_since(&self) -> Duration {
        *self.beaten.lock()
    }

    /// Keeps this process's claims valid (E4). A beat that fails is only late: what runs goes on, and counts when it ends.
    async fn beat(self: Arc<Self>) {
        let mut ticks = interval(self.settings.lease / 3);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.heartbeat().await;
        }
    }

    async fn keep_swept(self: Arc<Self>) {
        let mut sweeping = self.sweeping.subscribe();
        let mut next = Instant::now();
        loop {
            tokio::select! {
                () = sleep_until(next) => {}
                // Sweeps at once then, and from now on as often as it says.
                _ = sweeping.changed() => {}
            }
            let (every, batch) = *sweeping.borrow_and_update();
            next = Instant::now() + every;
            let Some(now) = self.heartbeat().await else {
                tracing::debug!("sweeping is put off: the store's time isn't known, or not trusted");
                continue;
            };
            match sweep(&*self.store, now, batch).await {
                Ok(swept) => {
                    if swept.lapsed > 0 {
                        tracing::warn!(lapsed = swept.lapsed, "claims whose owner is gone are unknown from now on");
                    }
                    if swept.deleted > 0 {
                        tracing::info!(deleted = swept.deleted, "swept");
                    }
                }
                Err(error) => tracing::warn!(%error, "sweeping failed; it goes on next time"),
            }
        }
    }

    async fn watch(self: Arc<Self>, watching: Watching) {
        watching.keep_up_to_date(&*self.store, &self.recorder).await;
    }

    async fn count_replays(self: Arc<Self>) {
        loop {
            tokio::time::sleep(COUNT_EVERY).await;
            self.flush_replays().await;
        }
    }

    async fn flush_replays(&self) {
        let counts = self.replays.take();
        if !counts.is_empty()
            && let Err(error) = self.store.count_replays(&counts).await
        {
            tracing::debug!(%error, "replay counts were lost");
        }
    }

    pub(crate) async fn shutdown(&self, drain: Duration) -> usize {
        if fault::broken("no_drain") {
            return 0;
        }
        self.executions.close();
        let mut cut = 0;
        if timeout(drain, self.executions.wait()).await.is_err() {
            cut = self.recorder.open_claims();
            tracing::warn!(executions = cut, "the drain time is over: what still runs becomes unknown");
            // Whoever still queues for a place gets none: what has not begun isn't begun only to be cut.
            self.inflight.close();
            self.cut.cancel();
            let _ = timeout(self.settings.store_timeout, self.executions.wait()).await;
        }
        // Nothing is claimed any more in the name of a node that is about to be gone.
        self.inflight.close();
        self.background.stop.cancel();
        self.background.tasks.close();
        // No heartbeat may come after the retirement; the tasks end at their next step.
        self.background.tasks.wait().await;
        let _ = timeout(self.settings.store_timeout, self.flush_replays()).await;
        // Whatever could not be written counts as unknown from here on, on every node.
        if !matches!(timeout(self.settings.store_timeout, self.store.retire(self.owner)).await, Ok(Ok(()))) {
            tracing::warn!("the store didn't take note of the end of this node; its claims lapse with the lease");
        }
        cut
    }
}

/// Sweeps until nothing is left to do, a bounded step at a time (D5). `now` is a reading of the store's clock that the
/// caller trusts.
pub async fn sweep(store: &dyn Store, now: Timestamp, batch: u32) -> Result<Swept, StoreError> {
    let mut total = Swept::default();
    loop {
        let step = store.sweep(now, batch).await?;
        total.deleted += step.deleted;
        total.lapsed += step.lapsed;
        if !step.more {
            return Ok(total);
        }
        tokio::task::yield_now().await;
    }
}
