//! The requests in flight, so that they can be cancelled and counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use mcp::RequestId;
use tokio::sync::Notify;
use vocabulary::lock;

/// Every request in flight, by its raw id.
#[derive(Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Bytes, Arc<Cancellation>>>>);

/// How a request is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CancelBy {
    /// By closing its stream.
    ClosingStream,
    /// By a notification to the gateway; it ends the stream.
    Notification,
}

/// Whether, and how, a request is cancelled.
pub(super) struct Cancellation {
    by: CancelBy,
    is_cancelled: AtomicBool,
    wake: Notify,
}

/// A request in flight; it is no more when this is dropped.
pub(super) struct InFlightRequest {
    in_flight: InFlight,
    id: Bytes,
    cancel: Arc<Cancellation>,
}

impl InFlight {
    /// Registers a request; `None` if too many are in flight.
    pub(super) fn register(&self, id: &RequestId, by: CancelBy) -> Option<InFlightRequest> {
        let mut in_flight = lock(&self.0);
        if in_flight.len() >= MAX_IN_FLIGHT {
            return None;
        }
        let cancel = Arc::new(Cancellation {
            by,
            is_cancelled: AtomicBool::new(false),
            wake: Notify::new(),
        });
        let id = Bytes::copy_from_slice(id.as_raw());
        in_flight.insert(id.clone(), Arc::clone(&cancel));
        drop(in_flight);
        let in_flight = self.clone();
        Some(InFlightRequest { in_flight, id, cancel })
    }

    /// Cancels the request with this raw id and says how; `None` if there is none.
    pub(super) fn cancel(&self, id: &[u8]) -> Option<CancelBy> {
        let in_flight = lock(&self.0);
        let cancel = in_flight.get(id)?;
        cancel.is_cancelled.store(true, Ordering::Relaxed);
        cancel.wake.notify_one();
        Some(cancel.by)
    }
}

impl InFlightRequest {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled.load(Ordering::Relaxed)
    }

    /// Completes when the request's stream is to be closed.
    pub(super) async fn stream_closed(&self) {
        match self.cancel.by {
            CancelBy::ClosingStream => self.cancel.wake.notified().await,
            CancelBy::Notification => std::future::pending().await,
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let mut in_flight = lock(&self.in_flight.0);
        // A client may use an id twice; the entry is then the later request's.
        if in_flight
            .get(&self.id)
            .is_some_and(|cancel| Arc::ptr_eq(cancel, &self.cancel))
        {
            in_flight.remove(&self.id);
        }
    }
}

/// Requests with the gateway and waiting for their turn, all together.
const MAX_IN_FLIGHT: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &'static str) -> RequestId {
        RequestId::from_raw(Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[tokio::test]
    async fn a_request_is_cancelled_by_its_exact_id_and_gone_at_its_end() {
        let in_flight = InFlight::default();
        let modern = in_flight.register(&id("1"), CancelBy::ClosingStream).unwrap();
        let legacy = in_flight.register(&id("\"1\""), CancelBy::Notification).unwrap();
        assert_eq!(in_flight.cancel(b"2"), None);
        assert_eq!(in_flight.cancel(b"1"), Some(CancelBy::ClosingStream));
        modern.stream_closed().await;
        assert!(modern.is_cancelled() && !legacy.is_cancelled());
        drop(modern);
        assert_eq!(
            (in_flight.cancel(b"1"), in_flight.cancel(b"\"1\"")),
            (None, Some(CancelBy::Notification))
        );
        let again = in_flight.register(&id("\"1\""), CancelBy::Notification).unwrap();
        drop(legacy);
        assert_eq!(in_flight.cancel(b"\"1\""), Some(CancelBy::Notification));
        drop(again);
    }

    #[test]
    fn there_is_a_limit_to_how_many_are_in_flight() {
        let in_flight = InFlight::default();
        let numbers = (0..=MAX_IN_FLIGHT).map(|n| RequestId::from_raw(Bytes::from(n.to_string())).unwrap());
        let registered: Vec<_> = numbers
            .filter_map(|id| in_flight.register(&id, CancelBy::ClosingStream))
            .collect();
        assert_eq!(registered.len(), MAX_IN_FLIGHT);
    }
}
