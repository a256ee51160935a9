//! A request as the stages see it once its message was read, and how it ends.

pub(crate) mod client;
pub(crate) mod incoming;

use std::sync::Arc;

use http::StatusCode;
use ledger::{Arrival, DecisionFacts, Ending, MessageFacts, Verdict};
use mcp::{ErrorCode, Method, Request};
use screening::recorded::recordable;
use upstream::{Guest, OpenCall};
use vocabulary::json::{self, Value};
use vocabulary::{Digest, Principal, ReasonCode, canonical};

use crate::context::client::Client;
use crate::delivery::{About, Listener};
use crate::edge::route::Route;
use crate::edge::shown::ShownCredential;
use crate::message::ClientMessage;
use crate::message::error_data::ErrorData;
use crate::reply::Prepared;
use crate::reply::stream::{Opener, ResponseStream};
use crate::session::Session;

/// How a request ended, and what its caller will be told once that is on record.
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    pub(crate) reply: Prepared,
}

/// An authenticated request whose message was read.
#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) who: Arc<Principal>,
    pub(crate) shown: ShownCredential,
    pub(crate) route: Route,
    pub(crate) arrival: Arrival,
    pub(crate) method: Method,
    pub(crate) client: Client,
    pub(crate) args: (Option<Digest>, Option<canonical::Spelling>),
    pub(crate) stream: Arc<ResponseStream>,
}

impl RequestContext {
    /// Of a request whose message was read; which client it is of is learnt next.
    pub(crate) fn new(
        Listener { who, shown }: Listener,
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
            shown,
            route,
            arrival,
            method: request.method().clone(),
            client: Client::Unknown,
            args,
            stream,
        }
    }

    /// The session, of a client that has one.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.client.session()
    }

    /// What a process is told apart by while it works on this.
    pub(crate) fn open_call(&self) -> OpenCall {
        OpenCall {
            receipt_id: self.arrival.receipt_id,
            tool: None,
            session: self.session().map(|session| session.digest),
        }
    }

    /// Says something to the client before the answer.
    pub(crate) async fn say(&self, about: About, message: &ClientMessage) {
        self.stream.say(self.opener(about.clone()), about, message).await;
    }

    /// What begins its stream, for a request that is about this.
    pub(crate) fn opener(&self, about: About) -> Opener<'_> {
        Opener {
            session: self.session(),
            listener: self.listener(),
            about,
        }
    }

    /// Who hears what is said.
    pub(crate) fn listener(&self) -> Listener {
        Listener {
            who: self.who.clone(),
            shown: self.shown.clone(),
        }
    }

    /// For whom a server does something.
    pub(crate) fn guest(&self) -> Guest {
        self.client.guest(&self.who, self.shown.behalf())
    }

    /// What is known of the message so far.
    pub(crate) fn facts(&self) -> MessageFacts {
        let federated = self.method.is_list().then(|| "*".to_owned());
        MessageFacts {
            method: recorded_method(&self.method),
            server_id: self.route.recorded_server().or(federated),
            era: Some(self.client.era()),
            session: self.session().map(|session| session.digest),
            args_hash: self.args.0,
            args_canon: self.args.1,
            ..MessageFacts::default()
        }
    }

    /// Refused by the protocol.
    pub(crate) fn refused(&self, code: ReasonCode, reply: Prepared) -> Ended {
        self.refused_by("builtin:protocol", code, reply)
    }

    /// Refused by a rule of the gateway's own.
    pub(crate) fn refused_by(&self, rule: &'static str, code: ReasonCode, reply: Prepared) -> Ended {
        let decision = DecisionFacts {
            policy_id: rule.into(),
            ..builtin(Verdict::Deny, code, 0)
        };
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
    pub(crate) fn refused_with(&self, request: &Request, code: ErrorCode, message: &str) -> Ended {
        self.refused_as(request, ErrorData::denied(code, message, ReasonCode::DenyMalformed))
    }

    /// Refused by the protocol, with all that is to be said about it.
    pub(crate) fn refused_as(&self, request: &Request, data: ErrorData) -> Ended {
        self.refused(data.reason, Prepared::refusal(Some(request.id().clone()), data))
    }

    /// A method that is not offered: an error in a session, a status without one.
    pub(crate) fn no_such_method(&self, request: &Request) -> Ended {
        let status = match self.client {
            Client::Modern(_) => StatusCode::NOT_FOUND,
            Client::Unknown | Client::Legacy(_) => StatusCode::OK,
        };
        self.refused_with(request, ErrorCode::MethodNotFound, "this method is not offered here")
            .with_status(status)
    }
}

impl Ended {
    /// The same, told with another HTTP status.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.reply = self.reply.with_status(status);
        self
    }
}

/// A method as it can be recorded: what a caller made up may say anything.
fn recorded_method(method: &Method) -> String {
    if let Method::Other(name) = method {
        recorded_word(name)
    } else {
        method.as_str().to_owned()
    }
}

/// The name of a method that nobody knows, where it can be told.
pub(crate) fn recorded_word(name: &str) -> String {
    if name.len() > LONGEST_METHOD || recordable(name) != name {
        return UNKNOWN.to_owned();
    }
    name.to_owned()
}

/// A longer name is none that any extension has, and may have been cut where a secret stood.
const LONGEST_METHOD: usize = 100;
/// What a method is called in records that nobody knows.
const UNKNOWN: &str = "unknown";

/// Decided by the gateway itself.
pub(crate) fn builtin(result: Verdict, code: ReasonCode, epoch: u64) -> DecisionFacts {
    DecisionFacts {
        result,
        policy_id: "builtin:protocol".into(),
        reason_codes: vec![code],
        policy_set: None,
        epoch,
        approval: None,
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
