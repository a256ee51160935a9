//! Opens sessions and processes when they are first needed, one at a time, and again once when the server has forgotten
//! them. They are never shared between clients unless the operator says so.

use std::sync::Arc;

use mcp::server::{ServerMessage, read_introduction};
use mcp::{Era, Version, compose};

use crate::call::exchange::Exchange;
use crate::call::observer::NoObserver;
use crate::failure::Failure;
use crate::http::Post;
use crate::process::ProcessSlot;
use crate::server::{Server, Transport};
use crate::session::guest::{Guest, OwnStream};
use crate::session::multiplex::{Destination, Multiplex};
use crate::session::opened::Opened;
use crate::session::reader::{self, Answering};
use crate::session::stream::SessionStream;

/// Past this many, sessions idle for longest make room.
const MOST_SESSIONS: usize = 10_000;
/// A process takes far more than a session.
const MOST_PROCESSES: usize = 64;

/// The guest's session, which is opened if it is not.
pub(crate) async fn session(server: &Arc<Server>, guest: &Guest) -> Result<Opened, Failure> {
    let guest = &server.admitted(guest);
    let slot = server.sessions.slot(guest.key, most(server))?;
    let mut opened = slot.lock().await;
    let process = match opened.as_ref().filter(|opened| !opened.is_closed()) {
        Some(opened) if opened.is_introduced() => return Ok(opened.clone()),
        Some(opened) => Some(opened.clone()),
        None => None,
    };
    *opened = None;
    let fresh = Box::pin(initialise(guest, server, process)).await?;
    *opened = Some(fresh.clone());
    Ok(fresh)
}

/// Opens anew unless somebody else has done so since `gone` was handed out.
pub(crate) async fn reopen(server: &Arc<Server>, guest: &Guest, gone: &Opened) -> Result<Opened, Failure> {
    let guest = &server.admitted(guest);
    let slot = server.sessions.slot(guest.key, most(server))?;
    let mut opened = slot.lock().await;
    if let Some(other) = opened.as_ref().filter(|other| !other.is(gone)) {
        return Ok(other.clone());
    }
    *opened = None;
    let fresh = Box::pin(initialise(guest, server, None)).await?;
    *opened = Some(fresh.clone());
    Ok(fresh)
}

/// What a request goes through: the process, where the server is one; a session in the legacy era.
pub(crate) async fn for_request(server: &Arc<Server>, guest: &Guest, era: Era) -> Result<Option<Opened>, Failure> {
    match (era, &server.transport) {
        (Era::Legacy, _) => session(server, guest).await.map(Some),
        (Era::Modern, Transport::Http | Transport::Sse) => Ok(None),
        (Era::Modern, Transport::Process(_)) => process(server, guest).await,
    }
}

/// The process, where the server is one, introduced or not: a modern one need not be.
pub(crate) async fn process(server: &Arc<Server>, guest: &Guest) -> Result<Option<Opened>, Failure> {
    let Transport::Process(processes) = &server.transport else {
        return Ok(None);
    };
    let guest = &server.admitted(guest);
    let slot = server.sessions.slot(guest.key, most(server))?;
    let mut opened = slot.lock().await;
    if let Some(opened) = opened.as_ref().filter(|opened| !opened.is_closed()) {
        return Ok(Some(opened.clone()));
    }
    let fresh = Box::pin(start(processes, server, guest)).await?;
    *opened = Some(fresh.clone());
    Ok(Some(fresh))
}

/// Starts a process and reads what it says.
async fn start(processes: &Arc<ProcessSlot>, server: &Arc<Server>, guest: &Guest) -> Result<Opened, Failure> {
    let started = processes.start(&server.id, server.caps, guest).await?;
    let answering = Answering::Stream(guest.behalf.clone());
    reader::start((server, guest), &started.multiplex, started.lines, answering);
    Ok(Opened::process(
        started.multiplex,
        started.confinement,
        guest.behalf.clone(),
    ))
}

fn most(server: &Server) -> usize {
    match server.transport {
        Transport::Process(_) => MOST_PROCESSES,
        Transport::Http | Transport::Sse => MOST_SESSIONS,
    }
}

async fn initialise(guest: &Guest, server: &Arc<Server>, process: Option<Opened>) -> Result<Opened, Failure> {
    tokio::time::timeout(server.caps.timeout, introduce(guest, server, process))
        .await
        .map_err(|_| Failure::TimedOut)?
}

/// What there is to speak over before a session is; nothing where each request has a connection of its own.
async fn reach(guest: &Guest, server: &Arc<Server>, process: Option<Opened>) -> Result<Option<Opened>, Failure> {
    Ok(match &server.transport {
        Transport::Http => None,
        Transport::Sse => {
            let multiplex = reader::open(server, guest).await?;
            Some(Opened::over(multiplex, guest.behalf.clone()))
        }
        Transport::Process(slot) => match process {
            Some(process) => Some(process),
            None => Some(Box::pin(start(slot, server, guest)).await?),
        },
    })
}

async fn introduce(guest: &Guest, server: &Arc<Server>, process: Option<Opened>) -> Result<Opened, Failure> {
    let before = reach(guest, server, process).await?;
    let credential = server.credential_for(&guest.behalf).await?;
    let id = server.link.next_id();
    let exchange = Exchange {
        server,
        id,
        session: before.as_ref(),
        behalf: &guest.behalf,
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
        .filter(|version| version.era() == Era::Legacy)
        .ok_or(Failure::Version)?;
    server.learn(Era::Legacy, introduction);
    let opened = Opened::introduced(before.as_ref(), version, answered.session_id, guest.behalf.clone());
    let body = compose::notification("notifications/initialized", None);
    server.link.notify(Post::legacy(body, &opened, &credential)).await?;
    let wanted = guest.stream == OwnStream::Gateway && !guest.capabilities.is_nothing();
    Ok(match server.transport {
        Transport::Http if wanted => with_stream(opened, (server, guest)).await,
        Transport::Http | Transport::Sse | Transport::Process(_) => opened,
    })
}

/// Opens the session's own stream, where the server has one: before the first request, which may make it ask there.
async fn with_stream(opened: Opened, (server, guest): (&Arc<Server>, &Guest)) -> Opened {
    let Some(source) = SessionStream::open(server, &opened).await else {
        return opened;
    };
    let beside = Multiplex::new(Destination::Session);
    reader::start((server, guest), &beside, source, Answering::Session(opened.clone()));
    opened.with_stream(beside)
}
