//! What a server may say beside the answer of one call, or to one subscription, before nothing more of it is heard: no
//! server can fill the log, or keep a client busy without end.
//! ADR 0028: a server that makes trouble is not heard on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::Notify;
use vocabulary::lock;

/// Messages beside an answer that had to be changed, withheld or refused, each with a record. Then the call or the
/// subscription ends, or, if it was notifications, no more of these is heard.
pub(crate) const MOST_TROUBLES: usize = 100;
/// Requests of one call that leave their records and nothing else; what comes after them is trouble.
const MOST_REQUESTS: usize = 1_000;
/// Requests of one call that may be open at a time.
const MOST_OPEN: usize = 16;

/// How a message beside an answer could be passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PassedOn {
    /// As it came.
    Unchanged,
    /// Edited, withheld or refused.
    Troublesome,
}

/// See the module. Clones count together.
#[derive(Clone, Default)]
pub(crate) struct EventBudget(Arc<Spent>);

#[derive(Default)]
struct Spent {
    open: AtomicUsize,
    requests: AtomicUsize,
    troubles: AtomicUsize,
    notifications: AtomicUsize,
    exhausted: Notify,
    last_open: Mutex<Option<Instant>>,
}

impl EventBudget {
    /// A request of the server is put to the client; `None` when too many are open.
    pub(crate) fn begin(&self) -> Option<()> {
        let before = self.0.open.fetch_add(1, Ordering::SeqCst);
        if before >= MOST_OPEN {
            self.0.open.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(())
    }

    /// It was answered, or is no longer asked.
    pub(crate) fn end(&self) {
        *lock(&self.0.last_open) = Some(Instant::now());
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Too much had to be decided about; nothing more is heard.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.0.troubles.load(Ordering::SeqCst) > MOST_TROUBLES
    }

    /// Completes when that is so.
    pub(crate) async fn exhausted(&self) {
        loop {
            let told = self.0.exhausted.notified();
            if self.is_exhausted() {
                return;
            }
            told.await;
        }
    }

    /// Too many notifications could not be passed on as they came; no more is heard.
    pub(crate) fn hears_no_notifications(&self) -> bool {
        self.0.notifications.load(Ordering::SeqCst) > MOST_TROUBLES
    }

    /// Counts a notification; true when it is the one too many.
    pub(crate) fn count_notification(&self, passed_on: PassedOn) -> bool {
        passed_on == PassedOn::Troublesome && self.0.notifications.fetch_add(1, Ordering::SeqCst) == MOST_TROUBLES
    }

    /// Counts a request: those that were refused or changed, and those too many, are trouble.
    pub(crate) fn count_request(&self, passed_on: PassedOn) {
        let before = self.0.requests.fetch_add(1, Ordering::SeqCst);
        let trouble = passed_on == PassedOn::Troublesome || before >= MOST_REQUESTS;
        if trouble && self.0.troubles.fetch_add(1, Ordering::SeqCst) + 1 > MOST_TROUBLES {
            self.0.exhausted.notify_waiters();
        }
    }

    /// When a request of the server was open last: the time a client takes is not the server's.
    pub(crate) fn last_open(&self) -> Option<Instant> {
        if self.0.open.load(Ordering::SeqCst) > 0 {
            return Some(Instant::now());
        }
        *lock(&self.0.last_open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_budget_is_exhausted_by_trouble_and_not_by_what_came_clean() {
        let budget = EventBudget::default();
        for _ in 0..MOST_REQUESTS {
            budget.count_request(PassedOn::Unchanged);
        }
        assert!(!budget.is_exhausted());
        for _ in 0..=MOST_TROUBLES {
            budget.count_request(PassedOn::Unchanged);
        }
        assert!(budget.is_exhausted(), "past the most requests, each is trouble");
        budget.exhausted().await;
    }

    #[test]
    fn the_notification_too_many_is_told_once() {
        let budget = EventBudget::default();
        let told = (0..MOST_TROUBLES * 3).filter(|_| budget.count_notification(PassedOn::Troublesome));
        assert_eq!(told.count(), 1);
        assert!(budget.hears_no_notifications() && !budget.is_exhausted());
    }

    #[test]
    fn only_so_many_requests_are_open_at_a_time() {
        let budget = EventBudget::default();
        let open = (0..MOST_OPEN * 2).filter_map(|_| budget.begin()).count();
        assert_eq!(open, MOST_OPEN);
        budget.end();
        assert!(budget.begin().is_some());
    }
}
