//! Reads a stream that several requests share, and hands each message to whom it is for.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use mcp::compose;
use mcp::server::{ServerMessage, ServerRequest};

use crate::credentials::Behalf;
use crate::failure::Failure;
use crate::http::messages::Messages;
use crate::http::{Post, check_status};
use crate::server::Server;
use crate::session::guest::{Guest, SessionKey};
use crate::session::multiplex::{Destination, MessageSource, Multiplex, Recipient, TOO_LARGE};
use crate::session::opened::Opened;

/// Opens the stream of a server of HTTP+SSE and learns where messages go: to the same origin, or nowhere.
pub(crate) async fn open(server: &Arc<Server>, guest: &Guest) -> Result<Arc<Multiplex>, Failure> {
    let credential = server.credential_for(&guest.behalf).await?;
    let response = server.link.open_plain_stream(&credential).await?;
    check_status(response.status(), false)?;
    let mut messages = Messages::of(response, server.caps);
    let endpoint = messages.endpoint().await?.ok_or(Failure::Refused("GET"))?;
    let endpoint = server.link.same_origin(&endpoint).ok_or(Failure::Redirected)?;
    let multiplex = Multiplex::new(Destination::Endpoint(endpoint));
    start(
        (server, guest),
        &multiplex,
        messages,
        Answering::Stream(guest.behalf.clone()),
    );
    Ok(multiplex)
}

/// Where a server is told that nobody can answer what it asks, and on whose behalf.
pub(crate) enum Answering {
    /// In the session that the stream belongs to.
    Session(Opened),
    /// On the stream's own way out.
    Stream(Behalf),
}

/// Reads `source` until it ends or nobody needs it.
pub(crate) fn start(
    (server, guest): (&Arc<Server>, &Guest),
    multiplex: &Arc<Multiplex>,
    source: impl MessageSource,
    answering: Answering,
) {
    let reader = Reader {
        multiplex: Arc::downgrade(multiplex),
        server: Arc::downgrade(server),
        guest: guest.clone(),
        answering,
    };
    let task = tokio::spawn(reader.run(source));
    multiplex.read_by(task.abort_handle());
}

/// Reads a stream. Holds on to neither conversation nor server.
struct Reader {
    multiplex: Weak<Multiplex>,
    server: Weak<Server>,
    /// Who it is read for.
    guest: Guest,
    answering: Answering,
}

impl Reader {
    async fn run(self, mut source: impl MessageSource) {
        let how = loop {
            let message = match source.next().await {
                Ok(Some(message)) => message,
                Ok(None) => break "ended its output",
                Err(Failure::TooLarge) => break TOO_LARGE,
                Err(_) => break "cannot be understood",
            };
            let Some(alive) = self.multiplex.upgrade() else { return };
            self.note_change(&message);
            match (alive.recipient(&message), message) {
                (Some(Recipient::Request(sender)), message) => {
                    let _ = sender.send(message).await;
                }
                (Some(Recipient::Listeners(listeners)), ServerMessage::Notification(told)) => {
                    for listener in listeners {
                        let _ = listener.send(ServerMessage::Notification(told.clone())).await;
                    }
                }
                (None, ServerMessage::Request(asked)) => self.refuse(&alive, &asked).await,
                (Some(Recipient::Listeners(_)) | None, _) => {}
            }
        };
        if let Some(alive) = self.multiplex.upgrade() {
            alive.close(how);
        }
    }

    /// What a server says to a client of its lists concerns the inventory, whether the client listens or not. What it says to the
    /// gateway while it is asked is no news.
    fn note_change(&self, message: &ServerMessage) {
        let is_told = matches!(message, ServerMessage::Notification(told) if told.method.ends_with("/list_changed"));
        if is_told
            && !matches!(self.guest.key, SessionKey::Discovery(_))
            && let Some(server) = self.server.upgrade()
        {
            server.note_change(&self.guest);
        }
    }

    /// A server's request that belongs to no single request of ours: `ping` is answered, others are refused.
    async fn refuse(&self, multiplex: &Arc<Multiplex>, asked: &ServerRequest) {
        let Some(server) = self.server.upgrade() else { return };
        let content = if asked.method == "ping" {
            mcp::Content::Result(Bytes::from_static(b"{}"))
        } else {
            compose::error_content(
                mcp::ErrorCode::InternalError,
                "the gateway cannot tell whom this is for",
            )
        };
        let opened = match &self.answering {
            Answering::Session(session) => session.clone(),
            Answering::Stream(behalf) => Opened::over(multiplex.clone(), behalf.clone()),
        };
        let refusing = async {
            let credential = server.credential_for(&opened.behalf).await?;
            let post = Post::legacy(compose::response(&asked.id, &content), &opened, &credential);
            server.link.notify(post).await
        };
        let _ = tokio::time::timeout(server.caps.timeout, refusing).await;
    }
}
