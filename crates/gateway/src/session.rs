//! Client sessions: opaque ids of 256 bits, kept here by their digest, bound to the principal that
//! opened them, idle and absolute ends, the calls that can be cancelled, the streams that can be
//! resumed, and the requests of servers that wait for an answer.

pub(crate) mod capabilities;
pub(crate) mod owner;
pub(crate) mod replay;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp::translate::LogLevel;
use mcp::{Content, Version};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use vocabulary::{Digest, Era, Principal, ServerId, lock, random_hex};

use crate::delivery::Told;
use crate::session::capabilities::ClientCapabilities;
use crate::session::owner::Owner;
use crate::session::replay::{Opening, ReplayBuffer};

/// A session unused for this long ends.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// No session lives longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Past it the one that was unused for longest makes room.
const MOST_SESSIONS: usize = 20_000;
/// Nobody loses a session to others that was used since.
const IN_USE: Duration = Duration::from_secs(60);
const MOST_PER_PRINCIPAL: usize = 1_000;

/// One client's session.
pub(crate) struct Session {
    owner: Owner,
    pub(crate) version: Version,
    pub(crate) digest: Digest,
    /// What the client said it can, when it opened the session.
    pub(crate) capabilities: ClientCapabilities,
    /// Whose processes are used for it.
    pub(crate) processes: upstream::Owner,
    level: Mutex<Option<LogLevel>>,
    opened: Instant,
    used: Mutex<Instant>,
    calls: Mutex<Vec<(Vec<u8>, Arc<Notify>)>>,
    replays: Mutex<BTreeMap<u64, Arc<ReplayBuffer>>>,
    last_replay: AtomicU64,
    questions: Mutex<HashMap<u64, oneshot::Sender<Content>>>,
    last_question: AtomicU64,
    ended: watch::Sender<bool>,
    attended: AtomicBool,
    subscriptions: Mutex<BTreeSet<(ServerId, String)>>,
    listeners: Mutex<HashMap<ServerId, AbortHandle>>,
}

/// Streams of a session that can be resumed; older ones are forgotten.
const MOST_TRACKS: usize = 64;
const MOST_SUBSCRIPTIONS: usize = 256;
/// The stream of what answers nothing.
const STANDING: u64 = 0;

/// All open sessions.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<Digest, Arc<Session>>>);

impl Sessions {
    /// Opens a session; gives its id, which is shown once. `None` when there is no room or no
    /// randomness.
    pub(crate) fn open(
        &self,
        who: &Principal,
        version: Version,
        capabilities: ClientCapabilities,
    ) -> Option<(String, Arc<Session>)> {
        let id = random_hex(32).ok()?;
        let digest = Digest::of(id.as_bytes());
        let now = Instant::now();
        let owner = Owner::of(who);
        let mut sessions = lock(&self.0);
        let owned = || sessions.values().filter(|session| session.owner == owner).count();
        if sessions.len() >= MOST_PER_PRINCIPAL && (owned() >= MOST_PER_PRINCIPAL || sessions.len() >= MOST_SESSIONS) {
            make_room(&mut sessions, &owner, now)?;
        }
        let session = Session {
            owner,
            version,
            digest,
            processes: capabilities::owner(who, Era::Legacy, &capabilities),
            capabilities,
            level: Mutex::default(),
            opened: now,
            used: Mutex::new(now),
            calls: Mutex::default(),
            replays: Mutex::new(BTreeMap::from([(STANDING, Arc::new(ReplayBuffer::new(STANDING)))])),
            last_replay: AtomicU64::new(STANDING),
            questions: Mutex::default(),
            last_question: AtomicU64::new(0),
            ended: watch::Sender::new(false),
            attended: AtomicBool::new(false),
            subscriptions: Mutex::default(),
            listeners: Mutex::default(),
        };
        let session = Arc::new(session);
        sessions.insert(digest, session.clone());
        Some((id, session))
    }

    /// The session with this id, if it is open and belongs to `who`: anybody else's is unknown.
    pub(crate) fn find(&self, id: &str, who: &Principal) -> Option<Arc<Session>> {
        let digest = Digest::of(id.as_bytes());
        let mut sessions = lock(&self.0);
        let session = sessions.get(&digest)?.clone();
        if !session.is_alive(Instant::now()) {
            sessions.remove(&digest);
            session.end();
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
        lock(&self.0).remove(&session.digest);
        session.end();
    }

    /// Whether a session is still open.
    pub(crate) fn is_open(&self, session: &Session) -> bool {
        let sessions = lock(&self.0);
        sessions.contains_key(&session.digest) && session.is_alive(Instant::now())
    }
}

/// Drops what has ended; then the owner's longest unused one; then anybody's. `None` if that was not enough.
fn make_room(sessions: &mut HashMap<Digest, Arc<Session>>, owner: &Owner, now: Instant) -> Option<()> {
    sessions.retain(|_, session| {
        let alive = session.is_alive(now);
        if !alive {
            session.end();
        }
        alive
    });
    let own = sessions.iter().filter(|(_, session)| session.owner == *owner);
    let oldest = own
        .min_by_key(|(_, session)| session.last_used())
        .map(|(digest, _)| *digest);
    if let Some(evicted) = oldest.and_then(|digest| sessions.remove(&digest)) {
        evicted.end();
    }
    if sessions.len() >= MOST_SESSIONS {
        let unused = sessions
            .iter()
            .filter(|(_, session)| now.duration_since(session.last_used()) >= IN_USE);
        let oldest = unused
            .min_by_key(|(_, session)| session.last_used())
            .map(|(digest, _)| *digest);
        if let Some(evicted) = oldest.and_then(|digest| sessions.remove(&digest)) {
            evicted.end();
        }
    }
    (sessions.len() < MOST_SESSIONS).then_some(())
}

impl Session {
    fn is_alive(&self, now: Instant) -> bool {
        now.duration_since(self.opened) < LONGEST && now.duration_since(self.last_used()) < IDLE
    }

    fn last_used(&self) -> Instant {
        *lock(&self.used)
    }

    fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// Completes when the session ends, or has ended before.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Nothing is heard for it any more.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
        for (_, task) in lock(&self.listeners).drain() {
            task.abort();
        }
    }

    /// The log level the client asked for.
    pub(crate) fn level(&self) -> Option<LogLevel> {
        *lock(&self.level)
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        *lock(&self.level) = Some(level);
    }

    /// A new stream that can be resumed, with its first listener.
    pub(crate) async fn open_replay(&self, listener: mpsc::Sender<Told>) -> Arc<ReplayBuffer> {
        let number = self.last_replay.fetch_add(1, Ordering::Relaxed) + 1;
        let replay = Arc::new(ReplayBuffer::new(number));
        replay.begin(listener, self.opening()).await;
        let mut replays = lock(&self.replays);
        replays.insert(number, replay.clone());
        while replays.len() > MOST_TRACKS {
            // The standing stream is the first and stays.
            let Some(oldest) = replays.keys().copied().find(|number| *number != STANDING) else {
                break;
            };
            replays.remove(&oldest);
        }
        replay
    }

    /// A stream by its number.
    pub(crate) fn replay(&self, number: u64) -> Option<Arc<ReplayBuffer>> {
        lock(&self.replays).get(&number).cloned()
    }

    /// The stream of what answers nothing, with a new listener.
    pub(crate) async fn stand_by(&self, listener: mpsc::Sender<Told>) -> Option<Arc<ReplayBuffer>> {
        let replay = self.replay(STANDING)?;
        replay.begin(listener, self.opening()).await;
        Some(replay)
    }

    /// The stream of what answers nothing.
    pub(crate) fn standing(&self) -> Option<Arc<ReplayBuffer>> {
        self.replay(STANDING)
    }

    /// Whether this is the first to look after the standing stream.
    pub(crate) fn attend_once(&self) -> bool {
        !self.attended.swap(true, Ordering::SeqCst)
    }

    /// Notes a subscription; `false` when there are too many.
    pub(crate) fn subscribe(&self, server: &ServerId, uri: &str) -> bool {
        let mut subscriptions = lock(&self.subscriptions);
        if subscriptions.len() >= MOST_SUBSCRIPTIONS {
            return false;
        }
        subscriptions.insert((server.clone(), uri.to_owned()));
        true
    }

    pub(crate) fn unsubscribe(&self, server: &ServerId, uri: &str) {
        lock(&self.subscriptions).remove(&(server.clone(), uri.to_owned()));
    }

    pub(crate) fn is_subscribed(&self, server: &ServerId, uri: &str) -> bool {
        lock(&self.subscriptions).contains(&(server.clone(), uri.to_owned()))
    }

    /// The resources of a server that the client subscribed to.
    pub(crate) fn subscribed_to(&self, server: &ServerId) -> Vec<String> {
        let subscriptions = lock(&self.subscriptions);
        let here = subscriptions.iter().filter(|(id, _)| id == server);
        here.map(|(_, uri)| uri.clone()).collect()
    }

    pub(crate) fn listens_to(&self, server: &ServerId) -> bool {
        lock(&self.listeners)
            .get(server)
            .is_some_and(|task| !task.is_finished())
    }

    /// Keeps a listener in place of the one before.
    pub(crate) fn keep_listening(&self, server: &ServerId, task: AbortHandle) {
        if let Some(before) = lock(&self.listeners).insert(server.clone(), task) {
            before.abort();
        }
    }

    pub(crate) fn stop_listening(&self, server: &ServerId) {
        if let Some(task) = lock(&self.listeners).remove(server) {
            task.abort();
        }
    }

    fn opening(&self) -> Opening {
        if self.version >= Version::November2025 {
            Opening::Announced
        } else {
            Opening::Silent
        }
    }

    /// A question to the client that waits for an answer; forgotten when dropped.
    pub(crate) fn pose(self: &Arc<Self>) -> Posed {
        let id = self.last_question.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        lock(&self.questions).insert(id, sender);
        Posed {
            session: self.clone(),
            id,
            answer,
        }
    }

    /// The client answers a question. `false` if nobody asked.
    pub(crate) fn settle(&self, id: &[u8], content: Content) -> bool {
        let id = std::str::from_utf8(id).ok().and_then(|id| id.parse::<u64>().ok());
        let waiting = id.and_then(|id| lock(&self.questions).remove(&id));
        waiting.is_some_and(|waiting| waiting.send(content).is_ok())
    }

    /// Notes a call that a client may cancel by its id. A client that uses an id twice at a time
    /// cancels both.
    pub(crate) fn begin(self: &Arc<Self>, id: &[u8]) -> CancellableCall {
        let cancelled = Arc::new(Notify::new());
        let mut calls = lock(&self.calls);
        calls.push((id.to_vec(), cancelled.clone()));
        CancellableCall {
            session: self.clone(),
            cancelled,
        }
    }

    /// Cancels the calls with this id that are open.
    pub(crate) fn cancel(&self, id: &[u8]) {
        let calls = lock(&self.calls);
        for (_, cancelled) in calls.iter().filter(|(open, _)| open == id) {
            cancelled.notify_one();
        }
    }
}

/// A question that was put to the client.
pub(crate) struct Posed {
    session: Arc<Session>,
    id: u64,
    answer: oneshot::Receiver<Content>,
}

impl Posed {
    /// Its id, in the client's eyes.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The answer; `None` if the session ended before.
    pub(crate) async fn answer(&mut self) -> Option<Content> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Posed {
    fn drop(&mut self) {
        lock(&self.session.questions).remove(&self.id);
    }
}

/// A call in flight; forgotten when dropped.
pub(crate) struct CancellableCall {
    session: Arc<Session>,
    cancelled: Arc<Notify>,
}

impl CancellableCall {
    /// Completes when the client cancels.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for CancellableCall {
    fn drop(&mut self) {
        let mut calls = lock(&self.session.calls);
        calls.retain(|(_, cancelled)| !Arc::ptr_eq(cancelled, &self.cancelled));
    }
}

#[cfg(test)]
pub(crate) fn principal(sub: &str) -> Principal {
    Principal {
        sub: sub.into(),
        actor_type: vocabulary::ActorType::Agent,
        client_id: None,
        org_id: None,
        issuer: "portreeve".into(),
        authn: vocabulary::Authn::Token,
        act: vec![],
        run: None,
        groups: BTreeSet::new(),
        claims: BTreeMap::new(),
        servers: vocabulary::ServerScope::Every,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_by_its_owner_alone_and_not_after_its_end() {
        let sessions = Sessions::default();
        let (id, session) = sessions
            .open(&principal("ann"), Version::LATEST, ClientCapabilities::none())
            .expect("room");
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
        let (bobs, _) = sessions
            .open(&principal("bob"), Version::LATEST, ClientCapabilities::none())
            .expect("room");
        let ids: Vec<_> = (0..MOST_PER_PRINCIPAL + 5)
            .map(|_| {
                sessions
                    .open(&principal("ann"), Version::LATEST, ClientCapabilities::none())
                    .expect("room")
                    .0
            })
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
        let (_, session) = sessions
            .open(&principal("ann"), Version::LATEST, ClientCapabilities::none())
            .expect("room");
        let (call, other) = (session.begin(b"7"), session.begin(b"8"));
        session.cancel(b"7");
        call.cancelled().await;
        let waiting = tokio::time::timeout(Duration::from_millis(20), other.cancelled());
        assert!(waiting.await.is_err(), "the other goes on");
        drop((call, other));
        assert!(session.calls.lock().expect("not poisoned").is_empty());
    }
}
