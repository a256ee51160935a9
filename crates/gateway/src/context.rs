//! A request as the stages see it once its message was read, and how it ends.

pub(crate) mod client;

use std::sync::Arc;

use http::StatusCode;
use ledger::{Arrival, DecisionFacts, Ending, MessageFacts, Verdict};
use mcp::{Method, Request};
use upstream::OpenCall;
use vocabulary::json::{self, Value};
use vocabulary::{Digest, Principal, ReasonCode, canonical};

use crate::context::client::Client;
use crate::edge::route::Route;
use crate::reply::stream::{ClientMessage, ResponseStream};
use crate::reply::{ErrorData, Prepared};
use crate::session::Session;
use crate::snapshot::Snapshot;

/// How a request ended, and what its caller will be told once that is on record.
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    pub(crate) reply: Prepared,
}

/// An authenticated request whose message was read.
#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) who: Arc<Principal>,
    pub(crate) route: Route,
    pub(crate) arrival: Arrival,
    pub(crate) method: Method,
    pub(crate) client: Client,
    pub(crate) args: (Option<Digest>, Option<canonical::Spelling>),
    pub(crate) stream: Arc<ResponseStream>,
}

impl RequestContext {
    pub(crate) fn new(
        who: Arc<Principal>,
        route: Route,
        arrival: Arrival,
        request: &Request,
        stream: Arc<ResponseStream>,
    ) -> Self {
        // What is judged later is hashed when it was.
        let args = if request.method().is_carried() {
            (None, None)
        } else {
            params_digest(request.params().whole())
        };
        Self {
            who,
            route,
            arrival,
            method: request.method().clone(),
            client: Client::Unmet,
            args,
            stream,
        }
    }

    /// The session, of a client that has one.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.client.session()
    }

    /// What a process is told apart by while it works on this.
    pub(crate) fn open_case(&self) -> OpenCall {
        OpenCall {
            receipt_id: self.arrival.receipt_id,
            tool: None,
            session: self.session().map(|session| session.digest),
        }
    }

    /// Says something to the client before the answer.
    pub(crate) async fn say(&self, message: &ClientMessage) {
        self.stream.say(self.session(), message).await;
    }

    /// What is known of the message so far.
    pub(crate) fn facts(&self) -> MessageFacts {
        let federated = self.method.is_list().then(|| "*".to_owned());
        MessageFacts {
            method: self.method.as_str().to_owned(),
            server_id: self.route.server().map(ToString::to_string).or(federated),
            era: Some(self.client.era()),
            session: self.session().map(|session| session.digest),
            args_hash: self.args.0,
            args_canon: self.args.1,
            ..MessageFacts::default()
        }
    }

    /// Allowed, because the gateway answers this by itself.
    pub(crate) fn answered_here(&self, snapshot: &Snapshot) -> DecisionFacts {
        builtin(Verdict::Allow, ReasonCode::AllowBuiltin, snapshot.policy.epoch())
    }

    /// Refused by the protocol.
    pub(crate) fn refused(&self, code: ReasonCode, reply: Prepared) -> Ended {
        let decision = builtin(Verdict::Deny, code, 0);
        Ended {
            ending: Ending::Refused {
                who: self.who.clone(),
                message: self.facts(),
                decision,
            },
            reply,
        }
    }

    /// Refused by the protocol, with an HTTP status.
    pub(crate) fn refused_by_status(&self, status: StatusCode, request: &Request, message: &str) -> Ended {
        let code = ReasonCode::DenyMalformed;
        self.refused(
            code,
            Prepared::status(status, Some(request.id().clone()), message, code),
        )
    }

    /// Refused by the protocol, with a JSON-RPC error.
    pub(crate) fn refused_with(&self, request: &Request, code: mcp::ErrorCode, message: &str) -> Ended {
        let reason = ReasonCode::DenyMalformed;
        let note = ErrorData::denied(reason);
        let reply = Prepared::refusal(Some(request.id().clone()), code, message.to_owned(), note);
        self.refused(reason, reply)
    }

    /// A method that is not offered: an error in a session, a status without one.
    pub(crate) fn no_such_method(&self, request: &Request) -> Ended {
        let ended = self.refused_with(
            request,
            mcp::ErrorCode::MethodNotFound,
            "this method is not offered here",
        );
        let status = match self.client {
            Client::Modern(_) => StatusCode::NOT_FOUND,
            Client::Unmet | Client::Legacy(_) => StatusCode::OK,
        };
        Ended {
            reply: ended.reply.with_status(status),
            ..ended
        }
    }
}

/// Decided by the gateway itself.
pub(crate) fn builtin(result: Verdict, code: ReasonCode, epoch: u64) -> DecisionFacts {
    DecisionFacts {
        result,
        policy_id: "builtin:protocol".into(),
        reason_codes: vec![code],
        policy_set: None,
        epoch,
    }
}

/// The digest of `params` without `_meta`.
fn params_digest(params: Option<&[u8]>) -> (Option<Digest>, Option<canonical::Spelling>) {
    const READING: json::Limits = json::Limits {
        max_bytes: 1 << 26,
        max_depth: 512,
        max_string: 1 << 26,
        max_items: 1 << 20,
    };
    read(params, &READING).map_or((None, None), |mut tree| {
        if let Value::Object(members) = &mut tree {
            members.retain(|(name, _)| name != "_meta");
        }
        spelled(&tree)
    })
}

/// The digest of arguments nobody will check; nothing where they cannot be read within `limits`.
pub(crate) fn digest(raw: Option<&[u8]>, limits: &json::Limits) -> (Option<Digest>, Option<canonical::Spelling>) {
    read(raw, limits).map_or((None, None), |tree| spelled(&tree))
}

/// Absent counts as `{}`.
fn read<'a>(raw: Option<&'a [u8]>, limits: &json::Limits) -> Option<Value<'a>> {
    Value::parse(raw.unwrap_or(b"{}"), limits).ok()
}

fn spelled(tree: &Value<'_>) -> (Option<Digest>, Option<canonical::Spelling>) {
    let (digest, spelling) = canonical::digest(tree);
    (Some(digest), Some(spelling))
}
