//! A request of a known principal, its body not read yet.

use std::sync::Arc;

use http::StatusCode;
use ledger::{Arrival, Ending};
use mcp::Request;
use vocabulary::ReasonCode;

use crate::context::client::Client;
use crate::context::{Ended, RequestContext};
use crate::delivery::Listener;
use crate::edge::authenticate::AuthenticatedHead;
use crate::edge::route::Route;
use crate::reply::Prepared;
use crate::reply::stream::ResponseStream;
use crate::session::Session;
use crate::snapshot::Snapshot;

/// See the module. The snapshot is the one in force when it arrived and, once its message is whole, the one in force then:
/// each message is judged by one, from its beginning to its end.
#[derive(Clone)]
pub(crate) struct IncomingRequest {
    pub(crate) head: Arc<AuthenticatedHead>,
    pub(crate) route: Route,
    pub(crate) arrival: Arrival,
    pub(crate) stream: Arc<ResponseStream>,
    pub(crate) snapshot: Arc<Snapshot>,
}

impl IncomingRequest {
    /// Refused by its head alone.
    pub(crate) fn unreadable(&self, status: StatusCode, message: &str) -> Ended {
        self.unreadable_because(status, message, ReasonCode::DenyMalformed)
    }

    /// Refused without a method that could be recorded.
    pub(crate) fn unreadable_because(&self, status: StatusCode, message: &str, reason: ReasonCode) -> Ended {
        Ended {
            ending: Ending::Unreadable {
                who: self.head.who().clone(),
                reason,
                server_id: self.route.recorded_server(),
            },
            reply: Prepared::status(status, None, message, reason),
        }
    }

    /// As the stages see it, with its message.
    pub(crate) fn with_message(&self, request: &Request) -> RequestContext {
        RequestContext::new(
            self.listener(),
            self.route.clone(),
            self.arrival,
            request,
            self.stream.clone(),
        )
    }

    /// Who hears what is said.
    pub(crate) fn listener(&self) -> Listener {
        Listener {
            who: self.head.who().clone(),
            shown: self.head.shown().clone(),
        }
    }

    /// As a request that carries no message, in this session.
    pub(crate) fn without_message(self, session: Arc<Session>) -> RequestContext {
        RequestContext {
            who: self.head.who().clone(),
            shown: self.head.shown().clone(),
            route: self.route,
            arrival: self.arrival,
            method: mcp::Method::Other(String::new()),
            client: Client::Legacy(session),
            args: (None, None),
            stream: self.stream,
        }
    }
}
