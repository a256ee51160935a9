//! Sessions with servers of the legacy era: opened when first needed, one flight at a time, opened
//! again once when the server has forgotten them, and never shared between clients unless the
//! operator says so.

pub(crate) mod era;
pub(crate) mod multiplex;
pub(crate) mod stream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp::server::{ServerMessage, read_introduction};
use mcp::{Version, compose};
use vocabulary::{Confinement, Digest, lock};

use crate::call::exchange::Exchange;
use crate::call::observer::NoObserver;
use crate::failure::Failure;
use crate::http::Post;
use crate::process::{Pipe, Process, ProcessSlot};
use crate::server::{Server, Transport};
use crate::session::multiplex::{Destination, Multiplex};
use crate::session::stream::SessionStream;

/// Whose session it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionKey {
    /// The gateway's own, for the inventory.
    Discovery,
    /// Everybody's, where the server keeps no state per user.
    Shared,
    /// That of one client, by the digest of its session, or of principal and capabilities.
    Client(Digest),
}

/// For whom a request is made, and what the client behind it can.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Whose session to use.
    pub key: SessionKey,
    /// What servers are told of the client's capabilities.
    pub capabilities: Relayed,
    /// Who opens the session's own stream.
    pub stream: OwnStream,
    /// Whose process it is; none for the gateway itself.
    pub owner: Option<Owner>,
}

/// Whose a process is: never shared between principals, nor between clients that can be asked different things.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The principal alone.
    pub principal: Digest,
    /// The principal and what its client can be asked.
    pub process: Digest,
}

/// Who opens the stream of a session on which a server says what answers no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnStream {
    /// The client, when it likes to.
    Client,
    /// The gateway: the client cannot, and a server may ask its questions there.
    Gateway,
}

/// The capabilities of a client that we relay, as raw objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relayed {
    /// For `initialize`.
    pub legacy: Bytes,
    /// For `_meta`.
    pub modern: Bytes,
}

impl Relayed {
    /// Whether the client can be asked anything.
    fn is_nothing(&self) -> bool {
        self.legacy.as_ref() == b"{}"
    }

    /// None.
    #[must_use]
    pub fn nothing() -> Self {
        let none = Bytes::from_static(b"{}");
        Self {
            legacy: none.clone(),
            modern: none,
        }
    }
}

impl Guest {
    /// The gateway itself, which can be asked nothing.
    #[must_use]
    pub fn gateway() -> Self {
        Self {
            key: SessionKey::Discovery,
            capabilities: Relayed::nothing(),
            stream: OwnStream::Client,
            owner: None,
        }
    }
}

/// An initialised session.
#[derive(Clone)]
pub(crate) struct Opened(Arc<Facts>);

pub(crate) struct Facts {
    pub(crate) session_id: Option<http::HeaderValue>,
    pub(crate) version: Version,
    /// The log level that was set last.
    pub(crate) level: Mutex<Option<&'static str>>,
    /// The stream everything comes on, where there is one.
    pub(crate) multiplex: Option<Arc<Multiplex>>,
    /// The stream of what the server says beside its answers, where the gateway has opened it.
    pub(crate) beside: Option<Arc<Multiplex>>,
    /// How its process is confined.
    pub(crate) confinement: Option<Arc<Confinement>>,
    stage: Stage,
}

/// How far a conversation has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was said that a session begins with: enough for the modern era.
    Open,
    Introduced,
}

impl Opened {
    /// A conversation whose stream is open, before or without `initialize`.
    pub(crate) fn over(multiplex: Arc<Multiplex>) -> Self {
        Self(Arc::new(Facts {
            session_id: None,
            version: Version::November2024,
            level: Mutex::new(None),
            multiplex: Some(multiplex),
            beside: None,
            confinement: None,
            stage: Stage::Open,
        }))
    }

    /// A process that runs.
    fn with(process: Process) -> Self {
        Self(Arc::new(Facts {
            session_id: None,
            version: Version::MODERN,
            level: Mutex::new(None),
            multiplex: Some(process.multiplex),
            beside: None,
            confinement: Some(process.confinement),
            stage: Stage::Open,
        }))
    }

    /// The way to its process, where it is one.
    pub(crate) fn pipe(&self) -> Option<&Pipe> {
        self.multiplex.as_ref().and_then(|multiplex| multiplex.pipe())
    }

    /// The stream that says what answers nothing, if it is open.
    pub(crate) fn stream(&self) -> Option<&Arc<Multiplex>> {
        self.multiplex.as_ref().or(self.beside.as_ref())
    }

    /// Where messages go, if not to the server's own address.
    pub(crate) fn endpoint(&self) -> Option<&http::Uri> {
        self.multiplex.as_ref().and_then(|multiplex| multiplex.endpoint())
    }

    fn is_closed(&self) -> bool {
        self.multiplex.as_ref().is_some_and(|multiplex| multiplex.is_closed())
    }
}

impl std::ops::Deref for Opened {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.0
    }
}

/// The sessions of one server.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionKey, Slot>>);

#[derive(Clone)]
struct Slot {
    opened: Arc<tokio::sync::Mutex<Option<Opened>>>,
    used: Instant,
}

/// Past this many, sessions idle for longest make room.
const MOST_SESSIONS: usize = 10_000;
/// A process takes far more than a session.
const MOST_PROCESSES: usize = 64;
const IDLE: Duration = Duration::from_secs(30 * 60);

impl Sessions {
    pub(crate) async fn open(&self, guest: &Guest, server: &Arc<Server>) -> Result<Opened, Failure> {
        let slot = self.slot(guest.key, most(server))?;
        let mut opened = slot.lock().await;
        let process = match opened.as_ref().filter(|opened| !opened.is_closed()) {
            Some(opened) if opened.stage == Stage::Introduced => return Ok(opened.clone()),
            Some(opened) => Some(opened.clone()),
            None => None,
        };
        *opened = None;
        let fresh = Box::pin(initialise(guest, server, process)).await?;
        *opened = Some(fresh.clone());
        Ok(fresh)
    }

    /// A process that was or was not introduced to us: a modern one need not be.
    pub(crate) async fn process(
        &self,
        guest: &Guest,
        server: &Arc<Server>,
        processes: &Arc<ProcessSlot>,
    ) -> Result<Opened, Failure> {
        let slot = self.slot(guest.key, most(server))?;
        let mut opened = slot.lock().await;
        if let Some(opened) = opened.as_ref().filter(|opened| !opened.is_closed()) {
            return Ok(opened.clone());
        }
        let fresh = Opened::with(Box::pin(processes.start(server, guest)).await?);
        *opened = Some(fresh.clone());
        Ok(fresh)
    }

    /// Lets go of all of them.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Opens anew unless somebody else has done so since `gone` was handed out.
    pub(crate) async fn reopen(&self, guest: &Guest, gone: &Opened, server: &Arc<Server>) -> Result<Opened, Failure> {
        let slot = self.slot(guest.key, most(server))?;
        let mut opened = slot.lock().await;
        if let Some(other) = opened.as_ref().filter(|other| !Arc::ptr_eq(&other.0, &gone.0)) {
            return Ok(other.clone());
        }
        *opened = None;
        let fresh = Box::pin(initialise(guest, server, None)).await?;
        *opened = Some(fresh.clone());
        Ok(fresh)
    }

    /// Takes a session out; the caller may tell the server.
    pub(crate) fn forget(&self, key: &SessionKey) -> Option<Opened> {
        let slot = lock(&self.0).remove(key)?;
        slot.opened.try_lock().ok().and_then(|mut opened| opened.take())
    }

    fn slot(&self, key: SessionKey, most: usize) -> Result<Arc<tokio::sync::Mutex<Option<Opened>>>, Failure> {
        let now = Instant::now();
        let mut slots = lock(&self.0);
        if slots.len() >= most && !slots.contains_key(&key) {
            slots.retain(|_, slot| now.duration_since(slot.used) < IDLE && !slot.is_over());
            if slots.len() >= most {
                let idle = slots.iter().filter(|(_, slot)| slot.is_idle());
                let oldest = idle.min_by_key(|(_, slot)| slot.used).map(|(key, _)| *key);
                slots.remove(&oldest.ok_or(Failure::TooMany)?);
            }
        }
        let slot = slots.entry(key).or_insert_with(|| Slot {
            opened: Arc::default(),
            used: now,
        });
        slot.used = now;
        Ok(slot.opened.clone())
    }
}

impl Slot {
    fn is_over(&self) -> bool {
        let opened = self.opened.try_lock();
        opened.is_ok_and(|opened| opened.as_ref().is_none_or(Opened::is_closed))
    }

    /// Whether nobody is at work in it. A session over HTTP can be opened again, so it counts as idle.
    fn is_idle(&self) -> bool {
        let multiplex = |opened: &Opened| {
            opened
                .multiplex
                .as_ref()
                .is_none_or(|multiplex| multiplex.idle_for().is_some())
        };
        let opened = self.opened.try_lock();
        opened.is_ok_and(|opened| opened.as_ref().is_none_or(multiplex))
    }
}

fn most(server: &Server) -> usize {
    match server.transport {
        Transport::Process(_) => MOST_PROCESSES,
        Transport::Http | Transport::Sse => MOST_SESSIONS,
    }
}

async fn initialise(guest: &Guest, server: &Arc<Server>, process: Option<Opened>) -> Result<Opened, Failure> {
    tokio::time::timeout(server.caps.timeout, shake_hands(guest, server, process))
        .await
        .map_err(|_| Failure::TimedOut)?
}

/// What there is to speak over before a session is; nothing where each request has a connection of its own.
async fn reach(guest: &Guest, server: &Arc<Server>, process: Option<Opened>) -> Result<Option<Opened>, Failure> {
    Ok(match &server.transport {
        Transport::Http => None,
        Transport::Sse => {
            let credential = server.credential.fetch();
            Some(Opened::over(Multiplex::open(server, &credential).await?))
        }
        Transport::Process(slot) => match process {
            Some(process) => Some(process),
            None => Some(Opened::with(Box::pin(slot.start(server, guest)).await?)),
        },
    })
}

async fn shake_hands(guest: &Guest, server: &Arc<Server>, process: Option<Opened>) -> Result<Opened, Failure> {
    let before = reach(guest, server, process).await?;
    let credential = server.credential.fetch();
    let id = server.link.next_id();
    let exchange = Exchange {
        server,
        id,
        session: before.as_ref(),
        observer: &NoObserver,
    };
    let body = compose::initialize_request(id, &guest.capabilities.legacy);
    let post = match &before {
        Some(opened) => Post::legacy(body, opened, &credential),
        None => Post::opening(body, &credential),
    };
    let answered = exchange.run(post).await?;
    let ServerMessage::Result { result, .. } = answered.message else {
        return Err(Failure::Refused("initialize"));
    };
    let introduction = read_introduction(result.bytes())?;
    let version = introduction.protocol_version.as_deref().and_then(Version::parse);
    let version = version
        .filter(|version| version.era() == mcp::Era::Legacy)
        .ok_or(Failure::Version)?;
    server.learn(introduction);
    let opened = Opened(Arc::new(Facts {
        session_id: answered.session_id,
        version,
        level: Mutex::new(None),
        multiplex: before.as_ref().and_then(|opened| opened.multiplex.clone()),
        beside: None,
        confinement: before.as_ref().and_then(|opened| opened.confinement.clone()),
        stage: Stage::Introduced,
    }));
    let body = compose::notification("notifications/initialized", None);
    server.link.notify(Post::legacy(body, &opened, &credential)).await?;
    let wanted = guest.stream == OwnStream::Gateway && !guest.capabilities.is_nothing();
    Ok(match server.transport {
        Transport::Http if wanted => with_stream(opened, server).await,
        Transport::Http | Transport::Sse | Transport::Process(_) => opened,
    })
}

/// Opens the session's own stream, where the server has one: before the first request, which may make it ask there.
async fn with_stream(opened: Opened, server: &Arc<Server>) -> Opened {
    let Some(source) = SessionStream::open(server, &opened).await else {
        return opened;
    };
    let beside = Multiplex::start(server, Destination::Session, source, Some(opened.clone()));
    Opened(Arc::new(Facts {
        session_id: opened.session_id.clone(),
        version: opened.version,
        level: Mutex::new(None),
        multiplex: None,
        beside: Some(beside),
        confinement: None,
        stage: Stage::Introduced,
    }))
}
