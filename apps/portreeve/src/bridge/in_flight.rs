//! The requests that are under way, so that they can be cancelled and counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mcp::RequestId;
use tokio::sync::Notify;

/// Every request under way, by its raw id.
#[derive(Clone, Default)]
pub(super) struct Flights(Arc<Mutex<HashMap<Bytes, Arc<Cancel>>>>);

/// How a request is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Means {
    /// By closing its stream.
    Closing,
    /// By telling the gateway; it ends the stream.
    Telling,
}

/// A request's ear for its cancellation.
pub(super) struct Cancel {
    means: Means,
    is_cancelled: AtomicBool,
    rung: Notify,
}

/// A request under way; it is no more when this is dropped.
pub(super) struct Flight {
    flights: Flights,
    id: Bytes,
    cancel: Arc<Cancel>,
}

impl Flights {
    /// Notes a request; `None` if too many are under way.
    pub(super) fn begin(&self, id: &RequestId, means: Means) -> Option<Flight> {
        let mut flights = self.lock();
        if flights.len() >= MOST {
            return None;
        }
        let cancel = Arc::new(Cancel {
            means,
            is_cancelled: AtomicBool::new(false),
            rung: Notify::new(),
        });
        let id = Bytes::copy_from_slice(id.as_raw());
        flights.insert(id.clone(), Arc::clone(&cancel));
        drop(flights);
        let flights = self.clone();
        Some(Flight { flights, id, cancel })
    }

    /// Cancels the request with this raw id and says by which means; `None` if there is none.
    pub(super) fn cancel(&self, id: &[u8]) -> Option<Means> {
        let flights = self.lock();
        let cancel = flights.get(id)?;
        cancel.is_cancelled.store(true, Ordering::Relaxed);
        cancel.rung.notify_one();
        Some(cancel.means)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, Arc<Cancel>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled.load(Ordering::Relaxed)
    }

    /// Completes when the request's stream is to be closed.
    pub(super) async fn closed(&self) {
        match self.cancel.means {
            Means::Closing => self.cancel.rung.notified().await,
            Means::Telling => std::future::pending().await,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        // A client may use an id twice; the entry is then the later request's.
        if flights
            .get(&self.id)
            .is_some_and(|cancel| Arc::ptr_eq(cancel, &self.cancel))
        {
            flights.remove(&self.id);
        }
    }
}

/// Requests under way and waiting for their turn, all together.
const MOST: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &'static str) -> RequestId {
        RequestId::from_raw(Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[tokio::test]
    async fn a_request_is_cancelled_by_its_exact_id_and_gone_at_its_end() {
        let flights = Flights::default();
        let modern = flights.begin(&id("1"), Means::Closing).unwrap();
        let legacy = flights.begin(&id("\"1\""), Means::Telling).unwrap();
        assert_eq!(flights.cancel(b"2"), None);
        assert_eq!(flights.cancel(b"1"), Some(Means::Closing));
        modern.closed().await;
        assert!(modern.is_cancelled() && !legacy.is_cancelled());
        drop(modern);
        assert_eq!(
            (flights.cancel(b"1"), flights.cancel(b"\"1\"")),
            (None, Some(Means::Telling))
        );
        let again = flights.begin(&id("\"1\""), Means::Telling).unwrap();
        drop(legacy);
        assert_eq!(flights.cancel(b"\"1\""), Some(Means::Telling));
        drop(again);
    }

    #[test]
    fn there_is_an_end_to_how_many_are_under_way() {
        let flights = Flights::default();
        let numbers = (0..=MOST).map(|n| RequestId::from_raw(Bytes::from(n.to_string())).unwrap());
        let begun: Vec<_> = numbers.filter_map(|id| flights.begin(&id, Means::Closing)).collect();
        assert_eq!(begun.len(), MOST);
    }
}
