//! Spends a permit on one call: what was checked and hashed is what is sent, and what comes back
//! is raw until the chokepoint has seen it.

use std::sync::Arc;

use bytes::Bytes;
use mcp::compose;
use mcp::server::ServerMessage;
use policy::Permit;
use screening::arguments::CheckedArguments;
use screening::result::Received;
use vocabulary::TraceId;

use crate::credentials::UpstreamCredential;
use crate::failure::Failure;
use crate::http::{Post, Reply};
use crate::server::Server;
use crate::session::{Opened, SessionKey};

/// What a server answered, before anybody judged it. Only [`dispatch`] makes one.
///
/// ```compile_fail,E0451
/// let forged = portreeve_upstream::RawResult { bytes: bytes::Bytes::new() };
/// ```
///
/// ```
/// fn takes(raw: portreeve_upstream::RawResult) -> bytes::Bytes {
///     screening::result::Received::into_result(raw)
/// }
/// ```
pub struct RawResult {
    bytes: Bytes,
}

/// A JSON-RPC error of a server, just as unjudged.
pub struct RawError {
    bytes: Bytes,
}

impl Received for RawResult {
    fn into_result(self) -> Bytes {
        self.bytes
    }
}

impl Received for RawError {
    fn into_result(self) -> Bytes {
        self.bytes
    }
}

/// The server's answer to a call.
pub enum Dispatched {
    /// A result.
    Result(RawResult),
    /// An error of the server's own.
    Error(RawError),
}

/// A call that is ready to go, but for its permit.
pub struct Departure<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// Whose upstream session to use.
    pub session: SessionKey,
    /// The server's own credential.
    pub credential: UpstreamCredential,
    /// The arguments that were checked.
    pub arguments: &'a CheckedArguments<'a>,
    /// The trace this call belongs to.
    pub trace: TraceId,
    /// The epoch in force now; a permit of another one is void.
    pub epoch: u64,
}

/// Sends the call that `permit` allows and waits for its answer.
///
/// # Errors
/// When the permit does not fit, or the server fails.
pub async fn dispatch(permit: Permit, call: Departure<'_>) -> Result<Dispatched, Failure> {
    let spent = permit
        .spend(call.arguments.digest(), call.epoch)
        .map_err(|_| Failure::Permit)?;
    // A permit of another method, a task's of the same tool too, sends no call.
    let called = spent.tool().filter(|_| spent.action() == "tools/call");
    let tool = called.ok_or(Failure::Permit)?.id.name.as_str().to_owned();
    let deadline = tokio::time::timeout(call.server.caps.timeout, send_once_more(&call, &tool));
    let reply = deadline.await.map_err(|_| Failure::TimedOut)??;
    match reply.message {
        ServerMessage::Result { result, .. } if result.first() == Some(&b'{') => {
            Ok(Dispatched::Result(RawResult { bytes: result }))
        }
        ServerMessage::Result { .. } => Err(Failure::Nonsense(mcp::server::Nonsense::Incomplete)),
        ServerMessage::Error { error, .. } => {
            mcp::server::read_error(&error)?;
            Ok(Dispatched::Error(RawError { bytes: error }))
        }
        ServerMessage::Other => Err(Failure::Nonsense(mcp::server::Nonsense::NotAMessage)),
    }
}

/// A session the server has forgotten proves that nothing ran: it is opened again and the call
/// sent once more. Nothing else is ever retried.
async fn send_once_more(call: &Departure<'_>, tool: &str) -> Result<Reply, Failure> {
    let opened = call.server.session(call.session).await?;
    match send(call, tool, &opened).await {
        Err(Failure::SessionGone) => {
            let opened = call.server.reopen(call.session, &opened).await?;
            send(call, tool, &opened).await
        }
        sent => sent,
    }
}

async fn send(call: &Departure<'_>, tool: &str, opened: &Opened) -> Result<Reply, Failure> {
    let id = call.server.link.next_id();
    let body = compose::call_request(id, tool, call.arguments.raw());
    let post = Post {
        body,
        session: Some(opened),
        credential: &call.credential,
        trace: Some(&call.trace),
    };
    let mut waiting = Waiting {
        server: call.server.clone(),
        opened: opened.clone(),
        id: Some(id),
    };
    let answered = call.server.link.exchange(post, id).await;
    waiting.id = None;
    answered
}

/// A request that we wait for. Dropped before its answer came (time is up, the caller cancelled),
/// it tells the server that nobody waits any more.
struct Waiting {
    server: Arc<Server>,
    opened: Opened,
    id: Option<u64>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let (server, opened) = (self.server.clone(), self.opened.clone());
        tokio::spawn(async move {
            let credential = server.credential.fetch();
            let body = compose::cancelled_notification(id);
            let post = Post {
                body,
                session: Some(&opened),
                credential: &credential,
                trace: None,
            };
            let _ = tokio::time::timeout(server.caps.timeout, server.link.notify(post)).await;
        });
    }
}
