//! `resources/subscribe` and `resources/unsubscribe` of clients with sessions: what they subscribed
//! to is kept with the session. A legacy server keeps it too; a modern one is listened to instead.

use bytes::Bytes;
use ledger::Status;
use mcp::{Method, Request};
use policy::Target;

use crate::call::forward::Forwarded;
use crate::context::{Ended, RequestContext};
use crate::outcome::Case;
use crate::reply::Prepared;
use crate::reply::stream::ResponseStream;

impl Case<'_> {
    /// Keeps what a server with sessions agreed to.
    pub(crate) async fn note_subscription(&self, request: &Request, forwarded: &Forwarded) {
        let (Some(session), Target::Resource { server, uri }) = (self.asked.session(), &forwarded.target) else {
            return;
        };
        match request.method().as_str() {
            "resources/subscribe" if session.subscribe(server, uri) => {}
            "resources/unsubscribe" => session.unsubscribe(server, uri),
            _ => return,
        }
        if let Some(standing) = self.standing() {
            self.gateway.listen_for(&standing, &forwarded.server).await;
        }
    }

    /// Answers for a modern server, which knows no such method.
    pub(crate) async fn subscribe_here(&self, request: &Request, forwarded: Forwarded) -> Ended {
        self.note_subscription(request, &forwarded).await;
        let reply = Prepared::own(self.id.clone(), Bytes::from_static(b"{}"));
        let source = forwarded.server.credential();
        self.ended_called(
            forwarded.facts,
            forwarded.decision,
            Some(source),
            (Status::Success, Some(true), reply),
        )
    }

    /// The same client, heard on its standing stream.
    fn standing(&self) -> Option<RequestContext> {
        let replay = self.asked.session()?.standing()?;
        Some(RequestContext {
            stream: ResponseStream::on_replay(replay),
            method: Method::Other(String::new()),
            ..self.asked.clone()
        })
    }
}
