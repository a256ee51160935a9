//! `resources/subscribe` and `resources/unsubscribe` of clients with sessions: what they subscribed
//! to is kept with the session. A legacy server keeps it too; a modern one is listened to instead.

use bytes::Bytes;
use ledger::Status;
use mcp::{Method, Request};
use policy::Target;

use crate::call::forward::Journey;
use crate::context::{Asked, Ended};
use crate::outcome::Case;
use crate::reply::Prepared;
use crate::reply::stream::Outlet;

impl Case<'_> {
    /// Keeps what a server with sessions agreed to.
    pub(crate) async fn note_subscription(&self, request: &Request, journey: &Journey) {
        let (Some(session), Target::Resource { server, uri }) = (self.asked.session(), &journey.target) else {
            return;
        };
        match request.method().as_str() {
            "resources/subscribe" if session.subscribe(server, uri) => {}
            "resources/unsubscribe" => session.unsubscribe(server, uri),
            _ => return,
        }
        if let Some(standing) = self.standing() {
            self.gateway.listen_for(&standing, &journey.server).await;
        }
    }

    /// Answers for a modern server, which knows no such method.
    pub(crate) async fn subscribe_here(&self, request: &Request, journey: Journey) -> Ended {
        self.note_subscription(request, &journey).await;
        let reply = Prepared::own(self.id.clone(), Bytes::from_static(b"{}"));
        let source = journey.server.credential();
        self.ended_called(
            journey.facts,
            journey.decision,
            Some(source),
            (Status::Success, Some(true), reply),
        )
    }

    /// The same client, heard on its standing stream.
    fn standing(&self) -> Option<Asked> {
        let track = self.asked.session()?.standing()?;
        Some(Asked {
            outlet: Outlet::on_track(track),
            method: Method::Other(String::new()),
            ..self.asked.clone()
        })
    }
}
