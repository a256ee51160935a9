//! Conversations of the legacy era: `initialize` opens a session, `DELETE` ends it, and in between
//! every request, notification and answer belongs to it.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use ledger::{Ending, Era, MessageFacts, Verdict};
use mcp::http::SESSION_ID;
use mcp::translate::LogLevel;
use mcp::{ClientNotice, Method, Notification, Request, Response, Version};
use vocabulary::{Principal, ReasonCode};

use crate::context::client::{Abilities, Client};
use crate::context::{Ended, RequestContext, builtin};
use crate::edge::route::Route;
use crate::era::initialize as introduce;
use crate::era::modern::{is_modern, names_no_session_version};
use crate::receive::{AuthenticatedHead, Gateway, Walked, unreadable};
use crate::reply::Prepared;
use crate::session::Session;
use crate::snapshot::Wanted;

impl Gateway {
    /// One request, its method known: of either era.
    pub(crate) async fn serve(&self, mut asked: RequestContext, head: &Parts, request: &Request) -> Ended {
        if is_modern(head, request.params()) {
            return self.serve_modern(asked, head, request).await;
        }
        if *request.method() == Method::Initialize {
            return self.initialize(&mut asked, request).await;
        }
        let session = match self.session_of(&asked.who, head) {
            Ok(session) => session,
            Err((status, message)) => return asked.refused_by_status(status, request, message),
        };
        asked.client = Client::Legacy(session);
        match request.method() {
            Method::Ping => self.answered(&asked, request, Bytes::from_static(b"{}")),
            Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::TemplatesList
            | Method::TasksList => self.list(&asked, request).await,
            Method::ToolsCall => self.call(&asked, request).await,
            Method::ResourcesRead
            | Method::Subscribe
            | Method::Unsubscribe
            | Method::PromptsGet
            | Method::Complete
            | Method::TasksGet
            | Method::TasksCancel
            | Method::TasksResult => Box::pin(self.errand(&asked, request)).await,
            Method::SetLevel => self.set_level(&asked, request),
            Method::Other(name) if self.is_extension(&asked, name) => Box::pin(self.errand(&asked, request)).await,
            Method::Initialize | Method::Discover | Method::Listen | Method::TasksUpdate | Method::Other(_) => {
                asked.no_such_method(request)
            }
        }
    }

    /// The level is kept here and told to servers with the next request.
    fn set_level(&self, asked: &RequestContext, request: &Request) -> Ended {
        let offered = introduce::Offers::of(&self.snapshot(), &asked.who, &asked.route).logging;
        let level = request.params().text("level").and_then(|level| LogLevel::parse(&level));
        match (asked.session(), level) {
            _ if !offered => asked.no_such_method(request),
            (Some(session), Some(level)) => {
                session.set_level(level);
                self.answered(asked, request, Bytes::from_static(b"{}"))
            }
            _ => asked.refused_with(
                request,
                mcp::ErrorCode::InvalidParams,
                "`level` must be one of the eight log levels",
            ),
        }
    }

    /// A notification gets no answer and no record, unless it is refused.
    pub(crate) fn take(
        &self,
        who: &Arc<Principal>,
        route: &Route,
        head: &Parts,
        notification: &Notification,
    ) -> Walked {
        if is_modern(head, notification.params()) {
            // Closing the stream is how a modern client cancels; there is nothing else it could tell.
            return Walked::Acknowledged;
        }
        match self.session_of(who, head) {
            Ok(session) => {
                if *notification.method() == ClientNotice::Cancelled
                    && let Some(id) = notification.params().raw("requestId")
                {
                    session.cancel(id);
                }
                Walked::Acknowledged
            }
            Err((status, message)) => {
                let facts = MessageFacts {
                    method: notification.method().as_str().to_owned(),
                    ..of_route(route)
                };
                self.turned_away(who, facts, status, message).into()
            }
        }
    }

    /// An answer of a client to a server's question: taken in a session that waits for it.
    pub(crate) fn take_response(
        &self,
        who: &Arc<Principal>,
        route: &Route,
        head: &Parts,
        response: Response,
    ) -> Walked {
        let nobody_asked = (StatusCode::BAD_REQUEST, "nothing was asked that this could answer");
        let (status, message) = if names_no_session_version(head) {
            nobody_asked
        } else {
            match self.session_of(who, head) {
                Ok(session) if session.settle(response.id.as_raw(), response.content) => return Walked::Acknowledged,
                Ok(_) => nobody_asked,
                Err(refusal) => refusal,
            }
        };
        unreadable(who, route, status, message, ReasonCode::DenyMalformed).into()
    }

    fn turned_away(&self, who: &Arc<Principal>, facts: MessageFacts, status: StatusCode, message: &str) -> Ended {
        let code = ReasonCode::DenyMalformed;
        let decision = builtin(Verdict::Deny, code, self.snapshot().policy.epoch());
        let ending = Ending::Refused {
            who: who.clone(),
            message: facts,
            decision,
        };
        Ended {
            ending,
            reply: Prepared::status(status, None, message, code),
        }
    }

    async fn initialize(&self, asked: &mut RequestContext, request: &Request) -> Ended {
        // What is offered is known once the servers were asked.
        self.await_first_discovery(&asked.who, &Wanted::List(asked.route.server()))
            .await;
        let requested = request.params().text("protocolVersion").unwrap_or_default();
        let version = Version::negotiate(&requested);
        let abilities = request
            .params()
            .raw("capabilities")
            .map_or_else(Abilities::none, Abilities::read);
        let Some((id, session)) = self.sessions.open(&asked.who, version, abilities) else {
            let message = "no further session can be opened now; end one first";
            return asked.refused_by_status(StatusCode::SERVICE_UNAVAILABLE, request, message);
        };
        asked.client = Client::Legacy(session);
        let result = introduce::initialize_result(&self.snapshot(), &asked.who, &asked.route, version);
        let ended = self.answered(asked, request, result);
        Ended {
            reply: ended.reply.with_session(id),
            ..ended
        }
    }

    /// Whether the body may be a batch: the session's version has them.
    pub(crate) fn session_takes_batches(&self, who: &Principal, head: &Parts) -> bool {
        self.session_of(who, head)
            .is_ok_and(|session| session.version == Version::March2025)
    }

    /// `DELETE` with a session id ends that session.
    pub(crate) fn end_session(&self, letter: AuthenticatedHead) -> Ended {
        let session = match self.session_of(&letter.who, &letter.head) {
            Ok(session) => session,
            Err((StatusCode::BAD_REQUEST, _)) => {
                let message = "DELETE ends a session and needs its id";
                return letter.unreadable(StatusCode::METHOD_NOT_ALLOWED, message);
            }
            Err((status, message)) => return letter.unreadable(status, message),
        };
        self.sessions.close(&session);
        let snapshot = self.snapshot();
        let key = upstream::SessionKey::Client(session.digest);
        snapshot.servers().for_each(|server| server.forget(&key));
        self.answered_with(&letter.into_asked(session), Prepared::empty(StatusCode::NO_CONTENT))
    }

    /// The session a request names: missing is 400, anything but the principal's own is 404.
    pub(crate) fn session_of(&self, who: &Principal, head: &Parts) -> Result<Arc<Session>, (StatusCode, &'static str)> {
        let mut ids = head.headers.get_all(SESSION_ID).iter();
        let id = match (ids.next(), ids.next()) {
            (Some(id), None) => id,
            _ => {
                return Err((
                    StatusCode::BAD_REQUEST,
                    "one Mcp-Session-Id header is needed; start with `initialize`",
                ));
            }
        };
        let found = id.to_str().ok().and_then(|id| self.sessions.find(id, who));
        let session = found.ok_or((
            StatusCode::NOT_FOUND,
            "there is no such session; start again with `initialize`",
        ))?;
        // Another version that we speak is no reason to refuse: the session's own one counts.
        if names_no_session_version(head) {
            return Err((
                StatusCode::BAD_REQUEST,
                "MCP-Protocol-Version names no version with sessions that is spoken here",
            ));
        }
        Ok(session)
    }

    /// Answered here, with a result.
    pub(crate) fn answered(&self, asked: &RequestContext, request: &Request, result: Bytes) -> Ended {
        self.answered_with(asked, Prepared::own(request.id().clone(), result))
    }

    /// Answered here, with whatever the reply is.
    pub(crate) fn answered_with(&self, asked: &RequestContext, reply: Prepared) -> Ended {
        let decision = asked.answered_here(&self.snapshot());
        Ended {
            ending: Ending::Answered {
                who: asked.who.clone(),
                message: asked.facts(),
                decision,
                catalog: None,
            },
            reply,
        }
    }
}

fn of_route(route: &Route) -> MessageFacts {
    MessageFacts {
        server_id: route.server().map(ToString::to_string),
        era: Some(Era::Legacy),
        ..MessageFacts::default()
    }
}
