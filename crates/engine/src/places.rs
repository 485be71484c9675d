//! Places among the executing operations (W3), whose number may change while they are taken.

use std::sync::Arc;

use metrics::Gauge;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of places. Clones are the same places.
#[derive(Clone)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    size: Arc<Mutex<Size>>,
    taken: Gauge,
}

struct Size {
    places: usize,
    /// Taken places that are given up when they come back, since there are too many of them.
    owed: usize,
}

/// A place that is taken, until it is dropped.
pub(crate) struct Place {
    /// Taken out by `drop` alone.
    permit: Option<OwnedSemaphorePermit>,
    size: Arc<Mutex<Size>>,
    taken: Gauge,
}

impl Places {
    /// `taken` shows how many are taken.
    pub(crate) fn new(places: usize, taken: Gauge) -> Self {
        Self { free: Arc::new(Semaphore::new(places)), size: Arc::new(Mutex::new(Size { places, owed: 0 })), taken }
    }

    /// A place, if one is free and nobody waits for it.
    pub(crate) fn try_take(&self) -> Option<Place> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(|permit| self.taken(permit))
    }

    /// A place, in the order of asking; `None` once no more are given.
    pub(crate) async fn take(&self) -> Option<Place> {
        Arc::clone(&self.free).acquire_owned().await.ok().map(|permit| self.taken(permit))
    }

    fn taken(&self, permit: OwnedSemaphorePermit) -> Place {
        self.taken.increment(1.0);
        Place { permit: Some(permit), size: Arc::clone(&self.size), taken: self.taken.clone() }
    }

    /// Gives no more places; whoever waits gets none.
    pub(crate) fn close(&self) {
        self.free.close();
    }

    /// Changes how many there are. Whoever has a place keeps it; with fewer, none is given until enough have come back.
    pub(crate) fn resize(&self, places: usize) {
        let mut size = self.size.lock();
        let (more, fewer) = (places.saturating_sub(size.places), size.places.saturating_sub(places));
        size.places = places;
        let forgiven = more.min(size.owed);
        size.owed -= forgiven;
        self.free.add_permits(more - forgiven);
        size.owed += fewer - self.free.forget_permits(fewer);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        self.taken.decrement(1.0);
        // Given back under the lock, so that a change of the number sees it as either taken or free.
        let mut size = self.size.lock();
        if size.owed > 0 {
            size.owed -= 1;
            permit.forget();
        } else {
            drop(permit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(places: &Places) -> Vec<Place> {
        std::iter::from_fn(|| places.try_take()).collect()
    }

    #[test]
    fn as_many_are_given_as_there_are_whatever_there_were() {
        let places = Places::new(2, Gauge::noop());
        for size in [5, 1, 3, 3, 0, 4] {
            places.resize(size);
            assert_eq!(take_all(&places).len(), size);
        }
    }

    #[test]
    fn whoever_has_a_place_keeps_it_and_it_comes_back_only_if_there_is_room() {
        let places = Places::new(3, Gauge::noop());
        let mut taken = take_all(&places);
        places.resize(1);
        taken.pop();
        taken.pop();
        assert!(places.try_take().is_none(), "one is taken, and there is one");
        taken.pop();
        assert_eq!(take_all(&places).len(), 1);
    }

    #[test]
    fn growing_forgives_what_shrinking_took_back() {
        let places = Places::new(4, Gauge::noop());
        let taken = take_all(&places);
        places.resize(1);
        places.resize(3);
        drop(taken);
        assert_eq!(take_all(&places).len(), 3);
    }

    #[tokio::test]
    async fn whoever_waits_gets_a_place_that_is_added_and_none_once_closed() {
        let places = Places::new(0, Gauge::noop());
        let (got, ()) = tokio::join!(places.take(), async { places.resize(1) });
        assert!(got.is_some());
        let (none, ()) = tokio::join!(places.take(), async { places.close() });
        assert!(none.is_none());
    }
}
