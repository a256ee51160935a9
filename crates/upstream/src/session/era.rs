//! Which era a server speaks: asked once, remembered, asked again when it no longer fits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use mcp::compose::{ModernMeta, Outgoing, OutgoingMeta};
use mcp::server::{Introduction, ServerMessage, member_span, read_error, read_introduction, text_list_member};
use mcp::{Era, ErrorCode, Version};
use vocabulary::Face;

use crate::call::exchange::{Answered, Exchange};
use crate::call::observer::NoObserver;
use crate::failure::Failure;
use crate::http::{Post, plain_headers};
use crate::server::Server;
use crate::session::eras::Eras;
use crate::session::guest::{Guest, SessionKey};
use crate::session::open;

/// A server that does not know `server/discover` may simply stay silent.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// What came of asking a server for its era.
enum Found {
    Modern,
    Legacy,
    /// It has said nothing so far.
    Silence,
}

/// What a server said to `server/discover`.
enum Said {
    Modern(Introduction),
    /// It is modern, but asks for another try with a version that we have.
    TryAgain,
    Legacy,
}

impl Server {
    /// The era it is spoken to in for a client of this one; what it speaks is found out once.
    /// ADR 0055: the era follows the client.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn era_for(self: &Arc<Self>, client: Era) -> Result<Era, Failure> {
        Ok(self.eras().await?.toward(client))
    }

    pub(crate) async fn eras(self: &Arc<Self>) -> Result<Eras, Failure> {
        if let Some(eras) = self.known_eras() {
            return Ok(eras);
        }
        let _one_at_a_time = self.finding_era.lock().await;
        if let Some(eras) = self.known_eras() {
            return Ok(eras);
        }
        let eras = Box::pin(find_out(self)).await?;
        self.remember_eras(eras);
        Ok(eras)
    }
}

async fn find_out(server: &Arc<Server>) -> Result<Eras, Failure> {
    let modern = Guest::gateway().key;
    match detect(server).await? {
        Found::Modern if begins_sessions(server).await => Ok(Eras::Both),
        Found::Modern => Ok(Eras::Modern),
        Found::Legacy => {
            // The process that was asked in vain can still be introduced to.
            server.sessions.hand_over(&modern, SessionKey::Discovery(Face::LEAST));
            Ok(Eras::Legacy)
        }
        Found::Silence => {
            // A process that is slow to start hears the question first, is modern from then on, and refuses `initialize`:
            // another one is introduced to.
            server.sessions.forget(&modern);
            Ok(Eras::Legacy)
        }
    }
}

/// Whether a modern server has sessions too. A process has one era, so it gets another one to say it.
pub(crate) async fn begins_sessions(server: &Arc<Server>) -> bool {
    let guest = Guest::in_place_of(Face::LEAST);
    server.sessions.forget(&guest.key);
    let began = tokio::time::timeout(LONGEST_SILENCE.min(server.caps.timeout), open::session(server, &guest)).await;
    matches!(began, Ok(Ok(_)))
}

/// Asks a server whether it is modern.
async fn detect(server: &Arc<Server>) -> Result<Found, Failure> {
    for _ in 0..2 {
        let asked = tokio::time::timeout(LONGEST_SILENCE.min(server.caps.timeout), discover_once(server)).await;
        let said = match asked {
            Ok(Ok(said)) => said,
            Ok(Err(
                unreachable @ (Failure::Unreachable(_)
                | Failure::Redirected
                | Failure::Blocked(_)
                | Failure::Sandbox(_)
                | Failure::NotStarted(_)
                | Failure::CrashLoop(_)),
            )) => return Err(unreachable),
            Ok(Err(Failure::TimedOut)) | Err(_) => return Ok(Found::Silence),
            Ok(Err(_)) => Said::Legacy,
        };
        match said {
            Said::Modern(introduction) => {
                server.learn(Era::Modern, introduction);
                return Ok(Found::Modern);
            }
            Said::Legacy => return Ok(Found::Legacy),
            Said::TryAgain => {}
        }
    }
    Err(Failure::Version)
}

/// `server/discover` of a server that is known to be modern.
pub(crate) async fn introduce(server: &Arc<Server>) -> Result<(), Failure> {
    for _ in 0..2 {
        match discover_once(server).await? {
            Said::Modern(introduction) => {
                server.learn(Era::Modern, introduction);
                return Ok(());
            }
            Said::Legacy => return Err(Failure::Refused("server/discover")),
            Said::TryAgain => {}
        }
    }
    Err(Failure::Version)
}

async fn discover_once(server: &Arc<Server>) -> Result<Said, Failure> {
    let id = server.link.next_id();
    let request = Outgoing {
        method: "server/discover",
        members: Vec::new(),
        meta: OutgoingMeta {
            modern: Some(ModernMeta {
                capabilities: b"{}",
                log_level: None,
            }),
            ..OutgoingMeta::default()
        },
    };
    let headers = plain_headers("server/discover");
    let guest = Guest::gateway();
    let credential = server.credential_for(&guest.behalf).await?;
    let process = open::process(server, &guest).await?;
    let exchange = Exchange {
        server,
        id,
        session: process.as_ref(),
        behalf: &guest.behalf,
        observer: &NoObserver,
    };
    let post = Post::modern(request.write(id), &headers, &credential);
    let answered = exchange.run(post.through(process.as_ref())).await?;
    Ok(judge(&answered))
}

fn judge(answered: &Answered) -> Said {
    match &answered.message {
        ServerMessage::Result { result, .. } => match read_introduction(result.bytes()) {
            Ok(introduction) if knows(&introduction.supported_versions) => Said::Modern(introduction),
            Ok(_) | Err(_) => Said::Legacy,
        },
        ServerMessage::Error { error, .. } => match read_error(error).map(|error| error.known_code()) {
            Ok(Some(ErrorCode::UnsupportedVersion)) if supported(error).is_some_and(|versions| knows(&versions)) => {
                Said::TryAgain
            }
            Ok(Some(ErrorCode::MissingCapability | ErrorCode::HeaderMismatch)) => Said::Modern(Introduction::default()),
            Ok(Some(ErrorCode::MethodNotFound)) if answered.status == StatusCode::NOT_FOUND => {
                Said::Modern(Introduction::default())
            }
            Ok(_) | Err(_) => Said::Legacy,
        },
        ServerMessage::Notification(_) | ServerMessage::Request(_) => Said::Legacy,
    }
}

fn knows(versions: &[String]) -> bool {
    versions.iter().any(|version| version == Version::MODERN.as_str())
}

/// `data.supported` of an error.
fn supported(error: &Bytes) -> Option<Vec<String>> {
    let data = error.slice(member_span(error, "data")?);
    text_list_member(&data, "supported")
}
