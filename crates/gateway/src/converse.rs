//! The conversation of a session: `initialize` opens it, `DELETE` ends it, and in between every
//! request and notification belongs to it.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use ledger::{Arrival, Ending, Era, MessageFacts, Verdict};
use mcp::http::{PROTOCOL_VERSION, SESSION_ID};
use mcp::{Method, Notification, Request, Version, compose};
use vocabulary::{Principal, ReasonCode};

use crate::answer::{Gateway, Walked, unreadable};
use crate::asked::{Asked, Ended, builtin};
use crate::reply::{DecisionNote, Prepared};
use crate::route::Route;
use crate::session::Session;

impl Gateway {
    /// One request, its method known.
    pub(crate) async fn serve(&self, mut asked: Asked, head: &Parts, request: &Request) -> Ended {
        if request
            .params()
            .meta("io.modelcontextprotocol/protocolVersion")
            .is_some()
            || names_no_known_version(head)
        {
            let message = "this protocol version is not spoken here; start with `initialize`";
            return asked.refused_by_status(StatusCode::BAD_REQUEST, request, message);
        }
        if *request.method() == Method::Initialize {
            return self.initialize(&mut asked, request);
        }
        let session = match self.session_of(&asked.who, head) {
            Ok(session) => session,
            Err((status, message)) => return asked.refused_by_status(status, request, message),
        };
        asked.session = Some(session.clone());
        match request.method() {
            Method::Ping => self.answered(&asked, request, Bytes::from_static(b"{}")),
            Method::ToolsList => self.list(&asked, request).await,
            Method::ToolsCall => self.call(&asked, request, &session.begin(request.id().as_raw())).await,
            Method::Initialize | Method::Cancelled | Method::Other(_) => {
                let note = DecisionNote::denied(ReasonCode::DenyMalformed);
                let message = "this method is not offered here".to_owned();
                let reply = Prepared::refusal(Some(request.id().clone()), -32601, message, note);
                asked.refused(ReasonCode::DenyMalformed, reply)
            }
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
        match self.session_of(who, head) {
            Ok(session) => {
                if *notification.method() == Method::Cancelled
                    && let Some(id) = notification.params().raw("requestId")
                {
                    session.cancel(id);
                }
                Walked::Acknowledged
            }
            Err((status, message)) => {
                let code = ReasonCode::DenyMalformed;
                let facts = MessageFacts {
                    method: notification.method().as_str().to_owned(),
                    server_id: route.server().map(ToString::to_string),
                    era: Some(Era::Legacy),
                    ..MessageFacts::default()
                };
                let decision = builtin(Verdict::Deny, code, self.town().policy.epoch());
                let ending = Ending::Refused {
                    who: who.clone(),
                    message: facts,
                    decision,
                };
                Ended {
                    ending,
                    reply: Prepared::status(status, None, message, code),
                }
                .into()
            }
        }
    }

    fn initialize(&self, asked: &mut Asked, request: &Request) -> Ended {
        let requested = request.params().text("protocolVersion").unwrap_or_default();
        let version = Version::negotiate(&requested);
        let Some((id, session)) = self.sessions.open(&asked.who, version) else {
            let message = "no further session can be opened now; end one first";
            return asked.refused_by_status(StatusCode::SERVICE_UNAVAILABLE, request, message);
        };
        asked.session = Some(session);
        let town = self.town();
        let instructions = asked
            .route
            .server()
            .and_then(|id| town.instructions_for(&asked.who, id));
        let ended = self.answered(asked, request, initialize_result(version, instructions.as_deref()));
        Ended {
            reply: ended.reply.with_session(id),
            ..ended
        }
    }

    /// `DELETE` with a session id ends that session.
    pub(crate) fn end_session(&self, arrival: Arrival, who: &Arc<Principal>, route: Route, head: &Parts) -> Ended {
        let session = match self.session_of(who, head) {
            Ok(session) => session,
            Err((StatusCode::BAD_REQUEST, _)) => {
                let message = "DELETE ends a session and needs its id";
                return unreadable(
                    who,
                    &route,
                    StatusCode::METHOD_NOT_ALLOWED,
                    message,
                    ReasonCode::DenyMalformed,
                );
            }
            Err((status, message)) => return unreadable(who, &route, status, message, ReasonCode::DenyMalformed),
        };
        self.sessions.close(&session);
        let town = self.town();
        let key = upstream::SessionKey::Client(session.digest);
        town.servers().for_each(|server| server.forget(&key));
        let method = Method::Other(String::new());
        let asked = Asked {
            who: who.clone(),
            route,
            arrival,
            method,
            session: Some(session),
            args: (None, None),
        };
        let (who, message, decision) = (asked.who.clone(), asked.facts(), asked.answered_here(&town));
        Ended {
            ending: Ending::Answered {
                who,
                message,
                decision,
                catalog: None,
            },
            reply: Prepared::empty(StatusCode::NO_CONTENT),
        }
    }

    /// The session a request names: missing is 400, anything but the principal's own is 404.
    fn session_of(&self, who: &Principal, head: &Parts) -> Result<Arc<Session>, (StatusCode, &'static str)> {
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
        let version = head.headers.get(PROTOCOL_VERSION);
        if version.is_some_and(|version| version != session.version.as_str()) {
            return Err((
                StatusCode::BAD_REQUEST,
                "MCP-Protocol-Version is not the version this session negotiated",
            ));
        }
        Ok(session)
    }

    fn answered(&self, asked: &Asked, request: &Request, result: Bytes) -> Ended {
        let decision = asked.answered_here(&self.town());
        Ended {
            ending: Ending::Answered {
                who: asked.who.clone(),
                message: asked.facts(),
                decision,
                catalog: None,
            },
            reply: Prepared::own(request.id().clone(), result),
        }
    }
}

/// A version header that names no version with sessions.
fn names_no_known_version(head: &Parts) -> bool {
    let mut versions = head.headers.get_all(PROTOCOL_VERSION).iter();
    let named = versions
        .next()
        .map(|version| version.to_str().ok().and_then(Version::parse).is_some());
    named == Some(false) || versions.next().is_some()
}

fn initialize_result(version: Version, instructions: Option<&str>) -> Bytes {
    let mut out = format!(
        "{{\"protocolVersion\":\"{}\",\"capabilities\":{{\"tools\":{{}}}},\"serverInfo\":{{\"name\":\"portreeve\",\"title\":\"Portreeve\",\"version\":\"{}\"}}",
        version.as_str(),
        env!("CARGO_PKG_VERSION"),
    )
    .into_bytes();
    if let Some(text) = instructions {
        out.extend_from_slice(b",\"instructions\":");
        compose::string(text, &mut out);
    }
    out.push(b'}');
    out.into()
}
