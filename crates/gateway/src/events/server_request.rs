//! What a server asks of a client: allowed by the client's own word, by policy and by the
//! chokepoint, put to the client whose call it belongs to, and recorded like any other request.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arrival, DecisionFacts, Ending, MessageFacts, Outcome, Status, Verdict};
use mcp::capabilities::Capabilities;
use mcp::method::of_server;
use mcp::mrtr::InputMethod;
use mcp::{Content, compose};
use policy::{CallFacts, Decision, Grounds, Permit, Target};
use screening::result::walk::Message;
use screening::result::{Received as _, ScreenedResult, Withheld};
use upstream::{RawParams, RawServerRequest, Reply};
use vocabulary::json::Value;
use vocabulary::{Digest, ReasonCode, ReceiptId, ServerId};

use crate::context::RequestContext;
use crate::events::observer::CallObserver;
use crate::outcome::credential_facts;
use crate::receive::Gateway;
use crate::reply::stream::ClientMessage;
use crate::screen::beside_a_call;

/// How long a client may think about a question.
const LONGEST_THOUGHT: Duration = Duration::from_secs(600);

/// A question that may be put, and what will be on record about it.
pub(crate) struct Allowed {
    pub(crate) method: String,
    pub(crate) params: Option<ScreenedResult>,
    facts: MessageFacts,
    decision: DecisionFacts,
    arrival: Arrival,
    _permit: Permit,
}

impl Allowed {
    /// Whether nothing had to be changed about it.
    pub(crate) fn is_as_it_came(&self) -> bool {
        self.params.as_ref().is_none_or(|params| params.acts().is_empty())
    }
}

/// Why a question is not put.
pub(crate) struct Unasked {
    code: mcp::ErrorCode,
    message: &'static str,
    reason: ReasonCode,
    policy_id: Arc<str>,
}

impl Gateway {
    /// Puts a question to the client of a session, without holding up its call.
    pub(crate) async fn put_to_client(&self, observer: &CallObserver<'_>, question: Question) {
        let (method, params, reply) = question.split();
        if observer.asking.is_tired() {
            return;
        }
        let allowed = self
            .allow_question(observer.asked, observer.server, (method, params))
            .await;
        let allowed = match observer.asking.note_question(allowed) {
            Ok(allowed) => allowed,
            Err(refused) => return reply.send(&refused).await,
        };
        let Some(gateway) = self.shared().filter(|_| observer.asking.begin().is_some()) else {
            return reply
                .send(&compose::error_content(
                    mcp::ErrorCode::InternalError,
                    "too many questions are open",
                ))
                .await;
        };
        let (asked, asking) = (observer.asked.clone(), observer.asking.clone());
        tokio::spawn(async move {
            gateway.ask_in_session(&asked, allowed, reply).await;
            asking.end();
        });
    }

    async fn ask_in_session(&self, asked: &RequestContext, allowed: Allowed, reply: Reply) {
        let Some(session) = asked.session() else { return };
        let mut posed = session.pose();
        asked
            .say(&ClientMessage::question(
                posed.id(),
                &allowed.method,
                allowed.params.as_ref(),
            ))
            .await;
        let answer = tokio::select! {
            answer = tokio::time::timeout(LONGEST_THOUGHT, posed.answer()) => answer.ok().flatten(),
            () = session.ended() => None,
            () = self.changes.stopped() => None,
        };
        drop(posed);
        let content = match answer {
            Some(content) => self.check_answer(content),
            None => compose::error_content(mcp::ErrorCode::InternalError, "the client did not answer in time"),
        };
        if self.record_question(asked, &allowed, Some(&content)).await {
            reply.send(&content).await;
        } else {
            reply
                .send(&compose::error_content(
                    mcp::ErrorCode::InternalError,
                    "the gateway cannot record the answer",
                ))
                .await;
        }
    }

    /// A client's answer leaves under the limits of arguments.
    pub(crate) fn check_answer(&self, content: Content) -> Content {
        let limits = self.snapshot().limits.arguments;
        let raw = match &content {
            Content::Result(raw) | Content::Error(raw) => raw,
        };
        if screening::arguments::is_within(raw, &limits) {
            content
        } else {
            compose::error_content(
                mcp::ErrorCode::InternalError,
                "the client's answer is beyond the gateway's limits",
            )
        }
    }

    /// Whether a question may be put; if not, it is on record and the content is the answer.
    pub(crate) async fn allow_question(
        &self,
        asked: &RequestContext,
        server: &ServerId,
        (method, params): (String, Option<RawParams>),
    ) -> Result<Allowed, Content> {
        let params = match params {
            None => Ok(None),
            Some(params) => self.screen_question(asked, server, &method, params).await.map(Some),
        };
        let params = match params {
            Ok(params) => params,
            Err(withheld) => {
                let decision = self.decision(Verdict::Deny, "builtin:guards".into(), withheld.code);
                let ending = Ending::Refused {
                    who: asked.who.clone(),
                    message: MessageFacts {
                        method: of_server(&method).to_owned(),
                        server_id: Some(server.to_string()),
                        era: Some(asked.client.era()),
                        ..MessageFacts::default()
                    },
                    decision,
                };
                let arrival = Arrival {
                    receipt_id: ReceiptId::mint(),
                    ..asked.arrival
                };
                let _ = self.ledger.append(&arrival, ending, 0).await;
                return Err(compose::error_content(
                    mcp::ErrorCode::InvalidParams,
                    "the question may not be passed on",
                ));
            }
        };
        self.allow_screened(asked, server, method, params).await
    }

    async fn screen_question(
        &self,
        asked: &RequestContext,
        server: &ServerId,
        method: &str,
        params: RawParams,
    ) -> Result<ScreenedResult, Withheld> {
        let raw = params.into_raw();
        if method == "elicitation/create" {
            self.screen_form(server, raw.bytes(), asked).await?;
        }
        self.screen(raw, &beside_a_call(server, None, Message::Other), asked)
            .await
    }

    /// The same for a question that crossed the chokepoint already.
    pub(crate) async fn allow_screened(
        &self,
        asked: &RequestContext,
        server: &ServerId,
        method: String,
        params: Option<ScreenedResult>,
    ) -> Result<Allowed, Content> {
        let raw = params.as_ref().map(|params| params.bytes().as_ref());
        let facts = MessageFacts {
            method: of_server(&method).to_owned(),
            server_id: Some(server.to_string()),
            era: Some(asked.client.era()),
            session: asked.session().map(|session| session.digest),
            ..MessageFacts::default()
        };
        let arrival = Arrival {
            receipt_id: ReceiptId::mint(),
            size_bytes_in: raw.map_or(0, <[u8]>::len) as u64,
            began: std::time::Instant::now(),
            ..asked.arrival
        };
        let decided = self.decide_question(asked, server, &method, raw);
        match decided {
            Ok((permit, decision)) => Ok(Allowed {
                method,
                params,
                facts,
                decision,
                arrival,
                _permit: permit,
            }),
            Err(unasked) => {
                let decision = self.decision(Verdict::Deny, unasked.policy_id.clone(), unasked.reason);
                let ending = Ending::Refused {
                    who: asked.who.clone(),
                    message: facts,
                    decision,
                };
                let _ = self.ledger.append(&arrival, ending, 0).await;
                Err(compose::error_content(unasked.code, unasked.message))
            }
        }
    }

    fn decide_question(
        &self,
        asked: &RequestContext,
        server: &ServerId,
        method: &str,
        params: Option<&[u8]>,
    ) -> Result<(Permit, DecisionFacts), Unasked> {
        let none = Capabilities::default();
        let declared = asked.client.abilities().map_or(&none, |abilities| abilities.declared());
        if !InputMethod::parse(method).is_some_and(|input| declared.allows(input, params)) {
            return Err(Unasked::by_protocol("the client did not say that it can be asked this"));
        }
        if !url_is_safe(method, params) {
            return Err(Unasked::by_protocol(
                "a URL that a user is sent to must begin with https://",
            ));
        }
        let snapshot = self.snapshot();
        if snapshot.server(server).is_some_and(|server| server.is_shared()) {
            return Err(Unasked::by_protocol("a server that is shared cannot ask a client"));
        }
        let caller = snapshot.policy.caller(&asked.who);
        let unknown = |grounds: Grounds| Unasked {
            code: mcp::ErrorCode::Denied,
            message: "the policies of the gateway do not allow this question",
            reason: grounds.code,
            policy_id: grounds.policy_id,
        };
        let target = Target::Server(server.clone());
        let known = snapshot
            .policy
            .resolve_target(&caller, method, &target)
            .map_err(|missing| {
                unknown(Grounds {
                    policy_id: missing.policy_id,
                    code: missing.code,
                })
            })?;
        let facts = CallFacts {
            arguments: &Value::Object(Vec::new()),
            args_hash: Digest::of(params.unwrap_or_default()),
            address: asked.arrival.address,
        };
        match snapshot.policy.decide_target(&caller, known, &facts) {
            Decision::Allow(permit, Grounds { policy_id, code }) => {
                Ok((permit, self.decision(Verdict::Allow, policy_id, code)))
            }
            Decision::RequireApproval(grounds) | Decision::Deny(grounds) => Err(unknown(grounds)),
        }
    }

    /// Puts a question on record, with its answer or, where that comes with another request, without;
    /// says whether that could be done.
    pub(crate) async fn record_question(
        &self,
        asked: &RequestContext,
        allowed: &Allowed,
        content: Option<&Content>,
    ) -> bool {
        let (status, executed, size) = match content {
            None => (Status::Success, None, 0),
            Some(Content::Result(raw)) => (Status::Success, Some(true), raw.len()),
            Some(Content::Error(raw)) => (Status::Error, Some(true), raw.len()),
        };
        let ending = Ending::Called {
            who: asked.who.clone(),
            message: allowed.facts.clone(),
            decision: allowed.decision.clone(),
            credential: credential_facts(None),
            outcome: Outcome {
                status,
                executed,
                screening: Vec::new(),
            },
        };
        self.ledger.append(&allowed.arrival, ending, size as u64).await.is_ok()
    }

    pub(crate) fn decision(&self, result: Verdict, policy_id: Arc<str>, code: ReasonCode) -> DecisionFacts {
        let snapshot = self.snapshot();
        DecisionFacts {
            result,
            policy_id,
            reason_codes: vec![code],
            policy_set: Some(snapshot.policy.policy_set()),
            epoch: snapshot.policy.epoch(),
        }
    }
}

impl Unasked {
    fn by_protocol(message: &'static str) -> Self {
        Self {
            code: mcp::ErrorCode::MethodNotFound,
            message,
            reason: ReasonCode::DenyMalformed,
            policy_id: "builtin:protocol".into(),
        }
    }
}

/// A form needs no URL; a page that a user is sent to must be one nobody on the way can change.
fn url_is_safe(method: &str, params: Option<&[u8]>) -> bool {
    let Some(params) = params.filter(|_| method == "elicitation/create") else {
        return true;
    };
    match mcp::server::text_member(params, "mode").as_deref() {
        Some("url") => mcp::server::text_member(params, "url").is_some_and(|url| url.starts_with("https://")),
        _ => true,
    }
}
