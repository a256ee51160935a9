//! Client sessions: opaque ids of 256 bits, kept here by their digest, bound to the principal that
//! opened them, idle and absolute ends, and the calls that can be cancelled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp::Version;
use tokio::sync::Notify;
use vocabulary::{ActorType, Digest, Principal, random_hex};

/// A session unused for this long ends.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// No session lives longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const MOST_SESSIONS: usize = 100_000;
const MOST_PER_PRINCIPAL: usize = 1_000;

/// One client's session.
pub(crate) struct Session {
    owner: Owner,
    pub(crate) version: Version,
    pub(crate) digest: Digest,
    opened: Instant,
    used: Mutex<Instant>,
    calls: Mutex<Vec<(Vec<u8>, Arc<Notify>)>>,
}

/// Who a session belongs to: the same subject and kind of actor, of the same issuer, with the same client.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Owner {
    issuer: String,
    sub: String,
    client_id: Option<String>,
    actor_type: ActorType,
}

impl Owner {
    fn of(who: &Principal) -> Self {
        Self {
            issuer: who.issuer.clone(),
            sub: who.sub.clone(),
            client_id: who.client_id.clone(),
            actor_type: who.actor_type,
        }
    }

    fn is(&self, who: &Principal) -> bool {
        self.sub == who.sub
            && self.issuer == who.issuer
            && self.client_id == who.client_id
            && self.actor_type == who.actor_type
    }
}

/// All open sessions.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<Digest, Arc<Session>>>);

impl Sessions {
    /// Opens a session; gives its id, which is shown once. `None` when there is no room or no
    /// randomness.
    pub(crate) fn open(&self, who: &Principal, version: Version) -> Option<(String, Arc<Session>)> {
        let id = random_hex(32).ok()?;
        let digest = Digest::of(id.as_bytes());
        let now = Instant::now();
        let owner = Owner::of(who);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let owned = || sessions.values().filter(|session| session.owner == owner).count();
        if sessions.len() >= MOST_PER_PRINCIPAL && (owned() >= MOST_PER_PRINCIPAL || sessions.len() >= MOST_SESSIONS) {
            make_room(&mut sessions, &owner, now)?;
        }
        let session = Session {
            owner,
            version,
            digest,
            opened: now,
            used: Mutex::new(now),
            calls: Mutex::default(),
        };
        let session = Arc::new(session);
        sessions.insert(digest, session.clone());
        Some((id, session))
    }

    /// The session with this id, if it is open and belongs to `who`: anybody else's is unknown.
    pub(crate) fn find(&self, id: &str, who: &Principal) -> Option<Arc<Session>> {
        let digest = Digest::of(id.as_bytes());
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(&digest)?.clone();
        if !session.is_alive(Instant::now()) {
            sessions.remove(&digest);
            return None;
        }
        if !session.owner.is(who) {
            return None;
        }
        session.touch();
        Some(session)
    }

    /// Ends a session.
    pub(crate) fn close(&self, session: &Session) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&session.digest);
    }
}

/// Drops what has ended; then the owner's longest unused one. `None` if that was not enough.
fn make_room(sessions: &mut HashMap<Digest, Arc<Session>>, owner: &Owner, now: Instant) -> Option<()> {
    sessions.retain(|_, session| session.is_alive(now));
    let own = sessions.iter().filter(|(_, session)| session.owner == *owner);
    let oldest = own
        .min_by_key(|(_, session)| session.last_used())
        .map(|(digest, _)| *digest);
    if let Some(digest) = oldest {
        sessions.remove(&digest);
    }
    (sessions.len() < MOST_SESSIONS).then_some(())
}

impl Session {
    fn is_alive(&self, now: Instant) -> bool {
        now.duration_since(self.opened) < LONGEST && now.duration_since(self.last_used()) < IDLE
    }

    fn last_used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Notes a call that a client may cancel by its id. A client that uses an id twice at a time
    /// cancels both.
    pub(crate) fn begin(self: &Arc<Self>, id: &[u8]) -> OpenCall {
        let cancelled = Arc::new(Notify::new());
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((id.to_vec(), cancelled.clone()));
        OpenCall {
            session: self.clone(),
            cancelled,
        }
    }

    /// Cancels the calls with this id that are open.
    pub(crate) fn cancel(&self, id: &[u8]) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, cancelled) in calls.iter().filter(|(open, _)| open == id) {
            cancelled.notify_one();
        }
    }
}

/// A call in flight; forgotten when dropped.
pub(crate) struct OpenCall {
    session: Arc<Session>,
    cancelled: Arc<Notify>,
}

impl OpenCall {
    /// Completes when the client cancels.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut calls = self.session.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|(_, cancelled)| !Arc::ptr_eq(cancelled, &self.cancelled));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use vocabulary::{Authn, ServerScope};

    use super::*;

    fn principal(sub: &str) -> Principal {
        Principal {
            sub: sub.into(),
            actor_type: ActorType::Agent,
            client_id: None,
            org_id: None,
            issuer: "portreeve".into(),
            authn: Authn::Token,
            act: vec![],
            run: None,
            groups: BTreeSet::new(),
            claims: BTreeMap::new(),
            servers: ServerScope::Every,
        }
    }

    #[test]
    fn a_session_is_found_by_its_owner_alone_and_not_after_its_end() {
        let sessions = Sessions::default();
        let (id, session) = sessions.open(&principal("ann"), Version::LATEST).expect("room");
        assert_eq!(id.len(), 64);
        assert!(sessions.find(&id, &principal("ann")).is_some());
        assert!(sessions.find(&id, &principal("bob")).is_none());
        assert!(sessions.find("0", &principal("ann")).is_none());
        sessions.close(&session);
        assert!(sessions.find(&id, &principal("ann")).is_none());
    }

    #[test]
    fn one_principal_cannot_crowd_out_the_others() {
        let sessions = Sessions::default();
        let (bobs, _) = sessions.open(&principal("bob"), Version::LATEST).expect("room");
        let ids: Vec<_> = (0..MOST_PER_PRINCIPAL + 5)
            .map(|_| sessions.open(&principal("ann"), Version::LATEST).expect("room").0)
            .collect();
        assert!(sessions.find(&bobs, &principal("bob")).is_some());
        let open = ids
            .iter()
            .filter(|id| sessions.find(id, &principal("ann")).is_some())
            .count();
        assert!(open <= MOST_PER_PRINCIPAL, "{open}");
    }

    #[tokio::test]
    async fn a_call_is_cancelled_by_its_id_alone() {
        let sessions = Sessions::default();
        let (_, session) = sessions.open(&principal("ann"), Version::LATEST).expect("room");
        let (call, other) = (session.begin(b"7"), session.begin(b"8"));
        session.cancel(b"7");
        call.cancelled().await;
        let waiting = tokio::time::timeout(Duration::from_millis(20), other.cancelled());
        assert!(waiting.await.is_err(), "the other goes on");
        drop((call, other));
        assert!(session.calls.lock().expect("not poisoned").is_empty());
    }
}
