//! Calls of modern clients on servers with sessions that wait for their client: found by the sealed state the client
//! brings back, once, by nobody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use policy::InFlight;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use upstream::{Dispatched, Failure, Reply, SeenConfinement};
use vocabulary::{Digest, lock, random_hex};

use crate::context::RequestContext;
use crate::delivery::About;
use crate::message::adapted::ProgressToken;
use crate::session::owner::Owner;
use crate::state::allowed_request::AllowedRequest;
use crate::state::event_budget::EventBudget;

/// How long a client may take between two rounds.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A call that is under way, and what it waits for.
pub(crate) struct ParkedCall {
    pub(crate) work: JoinHandle<Result<Dispatched, Failure>>,
    pub(crate) news: mpsc::Receiver<OpenRequest>,
    pub(crate) open: Vec<(String, OpenRequest)>,
    pub(crate) current: Arc<Mutex<CurrentRequest>>,
    pub(crate) budget: EventBudget,
    pub(crate) asked_so_far: usize,
    pub(crate) since: Instant,
    pub(crate) owner: Owner,
    pub(crate) confinement: SeenConfinement,
    /// A call that waits counts as running.
    pub(crate) slot: Option<InFlight>,
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// A server's request that may be put, and the way to answer it.
pub(crate) struct OpenRequest {
    pub(crate) allowed: AllowedRequest,
    pub(crate) reply: Reply,
}

/// The client's request that stands for the call now: where progress and logs go.
#[derive(Clone)]
pub(crate) struct CurrentRequest {
    pub(crate) context: RequestContext,
    pub(crate) token: Option<ProgressToken>,
    /// What the client must be allowed, to hear of it.
    pub(crate) about: About,
}

/// The calls that wait.
#[derive(Default)]
pub(crate) struct ParkedCalls(Mutex<HashMap<Digest, ParkedCall>>);

const MOST_PARKED: usize = 1_000;
const MOST_PER_PRINCIPAL: usize = 32;

impl ParkedCalls {
    /// Takes a call out.
    pub(crate) fn take(&self, id: &Digest) -> Option<ParkedCall> {
        lock(&self.0).remove(id)
    }

    /// Leaves a call; `None` if there is no room.
    pub(crate) fn leave(&self, parked: ParkedCall) -> Option<Digest> {
        let id = Digest::of(random_hex(32).ok()?.as_bytes());
        let mut calls = lock(&self.0);
        calls.retain(|_, parked| parked.since.elapsed() < LONGEST_PAUSE);
        let own = calls.values().filter(|other| other.owner == parked.owner).count();
        if calls.len() >= MOST_PARKED || own >= MOST_PER_PRINCIPAL {
            return None;
        }
        calls.insert(id, parked);
        Some(id)
    }
}
