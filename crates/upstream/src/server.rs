//! One upstream server: where it is, its era, its credential, its limits and its open sessions.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp::Era;
use mcp::server::Introduction;
use vocabulary::{Face, PrincipalKey, ServerId, lock};

use crate::caps::Caps;
use crate::credentials::{Behalf, CredentialSource, UpstreamCredential};
use crate::failure::{Failure, TlsFault};
use crate::http::Link;
use crate::http::address::Address;
use crate::process::ProcessSlot;
use crate::process::files::Files;
use crate::process::trace::ProcessTrace;
use crate::session::eras::Eras;
use crate::session::guest::{Guest, Relayed, SessionKey};
use crate::session::slots::Sessions;
use crate::session::told::Told;

/// Whether principals share an upstream session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// One session per client session, never shared.
    PerPrincipal,
    /// One for all: the operator says that the server keeps no state per user.
    Shared,
}

/// What the operator says of the era a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EraSetting {
    /// Find out.
    #[default]
    Auto,
    /// Sessions.
    Legacy,
    /// Stateless.
    Modern,
}

/// How a server is reached.
pub enum Reach {
    /// Streamable HTTP.
    Http(Address),
    /// HTTP+SSE of 2024-11-05: legacy, always.
    Sse(Address),
    /// It is started here.
    Process(ProcessSlot),
    /// It is not to be reached at all, for this reason: every request to it fails before anything is opened.
    Barred(String),
}

/// How messages travel.
pub(crate) enum Transport {
    Http,
    Sse,
    Process(Arc<ProcessSlot>),
}

/// After somebody's credential was no good, or the server was not there, callers wait for it no more than once in this time.
const RESPITE: Duration = Duration::from_secs(1);

/// What the operator says of a server.
pub struct ServerSettings {
    /// Its id.
    pub id: ServerId,
    /// How it is reached.
    pub reach: Reach,
    /// Its credential.
    pub credential: CredentialSource,
    /// Its limits.
    pub caps: Caps,
    /// Who shares its sessions.
    pub isolation: Isolation,
    /// Which era it speaks.
    pub era: EraSetting,
}

/// A server that can be called.
pub struct Server {
    pub(crate) id: ServerId,
    pub(crate) link: Link,
    pub(crate) caps: Caps,
    pub(crate) credential: CredentialSource,
    pub(crate) transport: Transport,
    isolation: Isolation,
    pub(crate) sessions: Sessions,
    told: Told,
    setting: EraSetting,
    found: Mutex<Option<Eras>>,
    /// Held by whoever finds the era out.
    pub(crate) finding_era: tokio::sync::Mutex<()>,
    introductions: Mutex<Introductions>,
    /// Whose credential the gateway's own requests are made with, where each principal has one and the gateway has none.
    lent: Mutex<Option<(Behalf, Instant)>>,
}

/// What a server said of itself, in each era.
#[derive(Default)]
struct Introductions {
    legacy: Arc<Introduction>,
    modern: Arc<Introduction>,
}

impl Introductions {
    fn of(&mut self, era: Era) -> &mut Arc<Introduction> {
        match era {
            Era::Legacy => &mut self.legacy,
            Era::Modern => &mut self.modern,
        }
    }
}

impl Server {
    /// Makes the client side of a server; opens nothing yet.
    ///
    /// # Errors
    /// When its TLS settings cannot be used.
    pub fn new(settings: ServerSettings) -> Result<Self, TlsFault> {
        let web = |address: Address| Link::new(address, settings.caps);
        let (link, transport) = match settings.reach {
            Reach::Http(address) => (web(address)?, Transport::Http),
            Reach::Sse(address) => (web(address)?, Transport::Sse),
            Reach::Process(slot) => (Link::to_processes(), Transport::Process(Arc::new(slot))),
            Reach::Barred(why) => (Link::barred(why), Transport::Http),
        };
        Ok(Self {
            id: settings.id,
            link,
            caps: settings.caps,
            credential: settings.credential,
            isolation: settings.isolation,
            sessions: Sessions::default(),
            told: Told::default(),
            setting: match transport {
                Transport::Http | Transport::Process(_) => settings.era,
                Transport::Sse => EraSetting::Legacy,
            },
            transport,
            found: Mutex::new(None),
            finding_era: tokio::sync::Mutex::new(()),
            introductions: Mutex::default(),
            lent: Mutex::default(),
        })
    }

    /// The server's id.
    #[must_use]
    pub fn id(&self) -> &ServerId {
        &self.id
    }

    /// Where its credential comes from.
    #[must_use]
    pub fn credential(&self) -> &CredentialSource {
        &self.credential
    }

    /// Its credential, for what is sent on somebody's behalf.
    ///
    /// # Errors
    /// When there is none that may go along.
    pub async fn credential_for(&self, behalf: &Behalf) -> Result<UpstreamCredential, Failure> {
        if !self.credential.is_per_principal() {
            return self.credential.fetch(behalf).await;
        }
        if behalf.is_gateways() {
            let lent = lock(&self.lent).clone();
            return self
                .credential
                .fetch(lent.as_ref().map_or(behalf, |(lent, _)| lent))
                .await;
        }
        let made = self.credential.fetch(behalf).await?;
        self.lend(behalf);
        Ok(made)
    }

    /// Whether it cannot be discovered but on the behalf of somebody who may use it. ADR 0132: who lends a credential.
    #[must_use]
    pub fn needs_somebody(&self) -> bool {
        self.credential.is_per_principal()
    }

    /// Whether it needs somebody, and nobody was tried lately.
    #[must_use]
    pub fn wants_somebody(&self) -> bool {
        let tried = |lent: &Option<(Behalf, Instant)>| lent.as_ref().is_some_and(|(_, at)| at.elapsed() < RESPITE);
        self.needs_somebody() && !tried(&lock(&self.lent))
    }

    /// It is discovered on this behalf from now on.
    pub fn lend(&self, behalf: &Behalf) {
        *lock(&self.lent) = Some((behalf.clone(), Instant::now()));
    }

    /// What it said of itself last to clients of this era.
    #[must_use]
    pub fn introduction(&self, client: Era) -> Arc<Introduction> {
        let spoken = self.spoken(client);
        lock(&self.introductions).of(spoken).clone()
    }

    /// What it said of itself last in this era.
    pub(crate) fn introduction_in(&self, era: Era) -> Arc<Introduction> {
        lock(&self.introductions).of(era).clone()
    }

    /// The era it is spoken to in for a client of this one, as far as that is known.
    fn spoken(&self, client: Era) -> Era {
        self.known_eras().map_or(client, |eras| eras.toward(client))
    }

    /// The eras, where they are configured or were found out.
    pub(crate) fn known_eras(&self) -> Option<Eras> {
        match self.setting {
            EraSetting::Legacy => Some(Eras::Legacy),
            EraSetting::Modern => Some(Eras::Modern),
            EraSetting::Auto => *lock(&self.found),
        }
    }

    pub(crate) fn remember_eras(&self, eras: Eras) {
        *lock(&self.found) = Some(eras);
    }

    /// The era is found out anew with the next request.
    pub(crate) fn doubt_era(&self) {
        *lock(&self.found) = None;
    }

    pub(crate) fn learn(&self, era: Era, introduction: Introduction) {
        *lock(&self.introductions).of(era) = Arc::new(introduction);
    }

    /// Notes that what the server offers is not what it was, as it told or showed a client: it is asked again, and in that client's
    /// own session or process too, if it has one.
    pub fn note_change(&self, guest: &Guest) {
        let guest = self.admitted(guest);
        let is_clients = !matches!(guest.key, SessionKey::Discovery(_)) && self.sessions.is_open(&guest.key);
        self.told.note(is_clients.then_some(guest));
    }

    /// Completes when a change was noted since this was asked last.
    pub async fn change_noted(&self) {
        self.told.heard().await;
    }

    /// The clients in whose own sessions or processes it said so, as far as those are open.
    pub(crate) fn guests_told(&self) -> Vec<Guest> {
        self.told.guests(|key| self.sessions.is_open(key))
    }

    /// Ends the session that belonged to a client that is gone.
    pub fn forget(self: &Arc<Self>, key: &SessionKey) {
        if self.is_process() {
            // It belongs to the principal, whose other clients may use it, and stops when it stands idle.
            return;
        }
        self.end(key);
    }

    /// Ends a session or, where the server is one, its process.
    pub(crate) fn end(self: &Arc<Self>, key: &SessionKey) {
        let Some(opened) = self.sessions.forget(key).filter(|opened| opened.session_id.is_some()) else {
            return;
        };
        let server = self.clone();
        tokio::spawn(async move {
            let ending = async {
                if let Ok(credential) = server.credential_for(&opened.behalf).await {
                    server.link.end(&opened, &credential).await;
                }
            };
            let _ = tokio::time::timeout(server.caps.timeout, ending).await;
        });
    }

    /// Whether it is started here.
    #[must_use]
    pub fn is_process(&self) -> bool {
        matches!(self.transport, Transport::Process(_))
    }

    /// Where the files of the process are that a call of this principal goes to, where it is one.
    #[must_use]
    pub fn files(&self, who: &PrincipalKey) -> Option<Files> {
        match (&self.transport, self.isolation) {
            (Transport::Process(slot), Isolation::PerPrincipal) => slot.files(Some(who)),
            (Transport::Process(slot), Isolation::Shared) => slot.files(None),
            (Transport::Http | Transport::Sse, _) => None,
        }
    }

    /// Whether a server that was found modern could have sessions too: nobody has said that it has none.
    pub(crate) fn may_have_sessions(&self) -> bool {
        self.setting == EraSetting::Auto
    }

    /// What is left of the process that was started to discover it, where it is one and one was started.
    pub async fn trace(&self) -> Option<ProcessTrace> {
        match &self.transport {
            Transport::Process(slot) => slot.trace().await,
            Transport::Http | Transport::Sse => None,
        }
    }

    /// Ends its processes and forgets its sessions.
    pub fn close(&self) {
        self.sessions.clear();
    }

    /// Whether its sessions are shared: then nobody can tell whom a request of it is for.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.isolation == Isolation::Shared
    }

    /// A shared session is told of no client's capabilities, so that it cannot ask one about another.
    pub(crate) fn admitted(&self, guest: &Guest) -> Guest {
        match (self.isolation, guest.key, guest.owner) {
            (Isolation::Shared, SessionKey::Client(_), _) => Guest {
                key: SessionKey::Shared(self.spoken(guest.era)),
                era: guest.era,
                capabilities: Relayed::nothing(),
                stream: guest.stream,
                owner: None,
                behalf: guest.behalf.clone(),
            },
            (Isolation::PerPrincipal, SessionKey::Client(_), Some(owner)) if self.is_process() => Guest {
                key: SessionKey::Client(owner.process),
                ..guest.clone()
            },
            // A server without the modern era is heard in the session that it was discovered with. One that is asked for
            // sessions is asked in a session or process of its own.
            (_, SessionKey::Discovery(client), _) if self.known_eras() == Some(Eras::Legacy) => Guest {
                key: SessionKey::Discovery(Face {
                    era: Era::Legacy,
                    ..client
                }),
                ..guest.clone()
            },
            (Isolation::Shared | Isolation::PerPrincipal, _, _) => guest.clone(),
        }
    }
}
