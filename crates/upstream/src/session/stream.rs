//! A session's own stream, held open by the gateway: resumed where it broke, until the session is gone.

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::Response;
use mcp::server::ServerMessage;

use crate::failure::Failure;
use crate::http::messages::Messages;
use crate::http::pool::ResponseBody;
use crate::server::Server;
use crate::session::multiplex::MessageSource;
use crate::session::opened::Opened;

/// See the module.
pub(crate) struct SessionStream {
    server: Weak<Server>,
    /// The session, without its stream.
    session: Opened,
    messages: Messages,
}

/// A server may hold the head of an empty stream back: nobody waits for that longer than this.
const LONGEST_OPENING: Duration = Duration::from_secs(2);
/// How often in a row a stream may end without a message.
const MOST_EMPTY: u32 = 50;
const USUAL_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

impl SessionStream {
    /// Opens the stream; `None` where the server has none.
    pub(crate) async fn open(server: &Arc<Server>, session: &Opened) -> Option<Self> {
        let response = open(server, session, None).await.ok()?;
        Some(Self {
            server: Arc::downgrade(server),
            session: session.clone(),
            messages: Messages::of(response, server.caps),
        })
    }

    async fn resume(&mut self) -> Result<(), Failure> {
        let (last, retry) = match self.messages.resumption() {
            Some((last, retry)) => (Some(last.to_owned()), retry.map(Duration::from_millis)),
            None => (None, None),
        };
        tokio::time::sleep(retry.unwrap_or(USUAL_RETRY).min(LONGEST_RETRY)).await;
        let server = self.server.upgrade().ok_or(Failure::SessionGone)?;
        let response = open(&server, &self.session, last.as_deref()).await?;
        self.messages = Messages::of(response, server.caps);
        Ok(())
    }
}

async fn open(server: &Server, session: &Opened, last: Option<&str>) -> Result<Response<ResponseBody>, Failure> {
    let opening = async {
        let credential = server.credential_for(&session.behalf).await?;
        server.link.open_stream(session, &credential, last).await
    };
    let patience = LONGEST_OPENING.min(server.caps.timeout);
    tokio::time::timeout(patience, opening)
        .await
        .map_err(|_| Failure::TimedOut)?
}

impl MessageSource for SessionStream {
    async fn next(&mut self) -> Result<Option<ServerMessage>, Failure> {
        for _ in 0..MOST_EMPTY {
            match self.messages.next().await {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) | Err(Failure::Broken(_)) => self.resume().await?,
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }
}
