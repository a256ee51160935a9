//! The gateway itself: the snapshot in force, what is kept between requests, and the ledger. It walks no call: see
//! [`receive`](crate::receive) for that.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::hmac;
use ledger::Ledger;

use crate::delivery::{Listener, Released, Releases, Told, Unheard};
use crate::session::{Session, Sessions};
use crate::snapshot::Snapshot;
use crate::state::approvals::Approvals;
use crate::state::changes::ChangeFeed;
use crate::state::incidents::{IncidentState, Says};
use crate::state::parked::ParkedCalls;
use crate::state::screening_pool::ScreeningPool;
use crate::state::seal::Seal;
use crate::state::tasks::Tasks;
use crate::state::truncated::TruncatedTexts;
use crate::state::unread::{OnItsWay, Unread};

/// See the module.
pub struct Gateway {
    in_force: ArcSwap<Snapshot>,
    pub(crate) sessions: Sessions,
    pub(crate) ledger: Ledger,
    pub(crate) approvals: Arc<dyn Approvals>,
    pub(crate) incidents: IncidentState,
    pub(crate) cursor_key: hmac::Key,
    pub(crate) seal: Seal,
    pub(crate) changes: ChangeFeed,
    pub(crate) parked: ParkedCalls,
    pub(crate) tasks: Tasks,
    pub(crate) screening_pool: ScreeningPool,
    pub(crate) truncated: TruncatedTexts,
    pub(crate) unread: Unread,
    at_work: Arc<AtomicUsize>,
    itself: Weak<Self>,
}

impl Gateway {
    /// A gateway with a first snapshot, and with whoever asks people.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn new(
        snapshot: Snapshot,
        ledger: Ledger,
        approvals: Arc<dyn Approvals>,
    ) -> Result<Arc<Self>, aws_lc_rs::error::Unspecified> {
        let mut key = [0u8; 32];
        aws_lc_rs::rand::fill(&mut key)?;
        let seal = Seal::new()?;
        Ok(Arc::new_cyclic(|itself| Self {
            in_force: ArcSwap::from_pointee(snapshot),
            sessions: Sessions::default(),
            ledger,
            approvals,
            incidents: IncidentState::default(),
            cursor_key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            seal,
            changes: ChangeFeed::default(),
            parked: ParkedCalls::default(),
            tasks: Tasks::default(),
            screening_pool: ScreeningPool::default(),
            truncated: TruncatedTexts::default(),
            unread: Unread::default(),
            at_work: Arc::default(),
            itself: itself.clone(),
        }))
    }

    /// Another hold on this gateway, for work that outlives the request it began with.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.itself.upgrade()
    }

    /// The snapshot in force at this moment. A request asks once, when it begins; what goes on for longer (streams, what a
    /// server says beside its answer, the screening of an answer) asks again for each thing it decides.
    #[must_use]
    pub fn in_force(&self) -> Arc<Snapshot> {
        self.in_force.load_full()
    }

    /// Puts another snapshot in force, for live sessions too.
    pub fn replace_snapshot(&self, snapshot: Snapshot) {
        self.in_force.store(Arc::new(snapshot));
        self.changes.snapshot_replaced();
    }

    /// Puts other incidents in force: for whatever comes, and for requests under way.
    pub fn set_incidents(&self, incidents: Arc<policy::Incidents>) {
        self.incidents.replace(incidents);
    }

    /// Ends a session, and what servers keep for it.
    pub(crate) fn end_session(&self, session: &Session) {
        self.sessions.close(session);
        let key = upstream::SessionKey::Client(session.digest);
        self.in_force().servers().for_each(|server| server.forget(&key));
    }

    /// Ends the streams that have no end of their own, so that whoever listens shows a credential
    /// again: one was taken back.
    pub fn recheck_streams(&self) {
        self.changes.recheck();
    }

    /// Ends the streams that have no end of their own: the gateway stops.
    pub fn end_streams(&self) {
        self.changes.stop();
    }

    /// How many requests are at work, those whose callers hung up included.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.at_work.load(Ordering::SeqCst)
    }

    /// A request begins; it counts until what is given back is dropped.
    pub(crate) fn begin_work(&self) -> AtWork {
        self.at_work.fetch_add(1, Ordering::SeqCst);
        AtWork(self.at_work.clone())
    }
}

impl Releases for Gateway {
    fn release(&self, told: Told, to: &Listener) -> Result<Released, Unheard> {
        if told
            .subject(&to.who)
            .is_some_and(|subject| self.incidents.of(&subject) == Says::Denied)
        {
            return Err(Unheard::Withheld);
        }
        told.released(&self.in_force(), to)
    }

    fn hold(&self, to: &Listener, bytes: usize) -> Option<Arc<OnItsWay>> {
        self.unread.hold(&to.who, bytes, None)
    }

    fn time_left(&self, to: &Listener) -> Duration {
        self.in_force().identity.time_left(&to.shown)
    }
}

/// Counts a request for as long as it is at work.
pub(crate) struct AtWork(Arc<AtomicUsize>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
