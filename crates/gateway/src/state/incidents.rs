//! What incidents say of requests. One look at an atomic tells whether there is any; while there is none, nothing else is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use policy::{IncidentStanding, Incidents, Subject};
use tokio::sync::watch;

/// The incidents that are on.
pub(crate) struct IncidentState {
    any: AtomicBool,
    on: ArcSwap<Incidents>,
    version: watch::Sender<u64>,
}

/// What is to be done about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Says {
    /// Nothing.
    Clear,
    /// A person has to allow it, whatever the policies say.
    NeedsPerson,
    /// It may not be made.
    Denied,
}

impl Default for IncidentState {
    fn default() -> Self {
        Self {
            any: AtomicBool::new(false),
            on: ArcSwap::default(),
            version: watch::Sender::new(0),
        }
    }
}

impl IncidentState {
    /// Other incidents, from this moment on, for requests under way too.
    pub(crate) fn replace(&self, incidents: Arc<Incidents>) {
        let (any, version) = (!incidents.all.is_empty(), incidents.version);
        // INVARIANT: whoever sees `any` sees the incidents; it is cleared after they are gone.
        if any {
            self.on.store(incidents);
            self.any.store(true, Ordering::SeqCst);
        } else {
            self.any.store(false, Ordering::SeqCst);
            self.on.store(incidents);
        }
        self.version.send_replace(version);
    }

    pub(crate) fn of(&self, subject: &Subject<'_>) -> Says {
        if !self.any.load(Ordering::SeqCst) {
            return Says::Clear;
        }
        match self.on.load().standing(subject) {
            IncidentStanding::Clear => Says::Clear,
            IncidentStanding::NeedsPerson(_) => Says::NeedsPerson,
            IncidentStanding::Denied(_) => Says::Denied,
        }
    }

    /// Completes once a request that was let through may not go on.
    pub(crate) async fn denies(&self, subject: &Subject<'_>) {
        let mut changes = self.version.subscribe();
        loop {
            changes.mark_unchanged();
            if self.of(subject) == Says::Denied {
                return;
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
