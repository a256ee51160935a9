//! One request on its way through the stages after its message was read, and the ways it can end
//! early. Each says why.

use std::sync::Arc;

use ledger::{CredentialFacts, DecisionFacts, Ending, MessageFacts, Outcome, Status, TokenMode, TokenSource, Verdict};
use mcp::{Request, RequestId};
use policy::{Caller, Decision, Grounds, InFlight, OverLimit, Permit};
use screening::result::Withheld;
use upstream::{CredentialSource, Failure};
use vocabulary::ReasonCode;

use crate::context::{Ended, RequestContext};
use crate::receive::Gateway;
use crate::reply::{ErrorData, Prepared};
use crate::snapshot::Snapshot;

/// See the module.
pub(crate) struct Case<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) asked: &'a RequestContext,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) id: RequestId,
}

/// What was decided, kept for the record while the permit is spent.
pub(crate) struct Decided {
    pub(crate) permit: Permit,
    pub(crate) facts: DecisionFacts,
    pub(crate) seat: InFlight,
}

impl<'a> Case<'a> {
    pub(crate) fn new(gateway: &'a Gateway, asked: &'a RequestContext, request: &Request) -> Self {
        let snapshot = gateway.snapshot();
        Self {
            gateway,
            asked,
            caller: snapshot.policy.caller(&asked.who),
            snapshot,
            id: request.id().clone(),
        }
    }

    /// What the policies said: a permit with its seat, or the end of the request.
    pub(crate) fn decided(
        &self,
        decision: Decision,
        seat: InFlight,
        facts: &MessageFacts,
    ) -> Result<Decided, Box<Ended>> {
        match decision {
            Decision::Allow(permit, Grounds { policy_id, code }) => Ok(Decided {
                permit,
                facts: self.verdict(Verdict::Allow, policy_id, vec![code]),
                seat,
            }),
            Decision::RequireApproval(grounds) => Err(self.denied(facts, Verdict::RequireApproval, grounds)),
            Decision::Deny(grounds) => Err(self.denied(facts, Verdict::Deny, grounds)),
        }
    }

    /// A JSON-RPC error of the protocol's own.
    pub(crate) fn malformed(&self, code: i32, message: &str) -> Box<Ended> {
        let note = ErrorData::denied(ReasonCode::DenyMalformed);
        let reply = Prepared::refusal(Some(self.id.clone()), code, message.to_owned(), note);
        Box::new(self.asked.refused(ReasonCode::DenyMalformed, reply))
    }

    pub(crate) fn over_limit(&self, facts: &MessageFacts, over: &OverLimit) -> Box<Ended> {
        let decision = self.verdict(Verdict::Deny, "builtin:limits".into(), vec![over.code]);
        let retry_after_ms = over
            .retry_after
            .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
        let note = ErrorData {
            retry_after_ms,
            ..ErrorData::denied(over.code)
        };
        let reply = Prepared::refusal(Some(self.id.clone()), mcp::ErrorCode::Denied, sentence(over.code), note);
        self.ended_refused(facts, decision, reply)
    }

    pub(crate) fn denied(&self, facts: &MessageFacts, verdict: Verdict, grounds: Grounds) -> Box<Ended> {
        let note = ErrorData {
            verdict,
            ..ErrorData::denied(grounds.code)
        };
        let reply = Prepared::refusal(
            Some(self.id.clone()),
            mcp::ErrorCode::Denied,
            sentence(grounds.code),
            note,
        );
        self.ended_refused(
            facts,
            self.verdict(verdict, grounds.policy_id, vec![grounds.code]),
            reply,
        )
    }

    pub(crate) fn unrecordable(&self, facts: &MessageFacts) -> Box<Ended> {
        let code = ReasonCode::DenyReceiptUnavailable;
        let reply = Prepared::refusal(Some(self.id.clone()), -32603, sentence(code), ErrorData::denied(code));
        self.ended_refused(
            facts,
            self.verdict(Verdict::Deny, "builtin:protocol".into(), vec![code]),
            reply,
        )
    }

    /// The server answered, but its answer stays here.
    pub(crate) fn withheld(&self, withheld: &Withheld) -> (Status, Prepared) {
        let note = ErrorData::allowed(withheld.code);
        let (id, message) = (self.id.clone(), withheld.message.clone());
        let reply = if self.asked.method == mcp::Method::ToolsCall {
            Prepared::error_result(id, self.asked.client.era(), message, note)
        } else {
            Prepared::refusal(Some(id), mcp::ErrorCode::InternalError, message, note)
        };
        (Status::Error, reply)
    }

    pub(crate) fn failed(
        &self,
        facts: MessageFacts,
        mut decision: DecisionFacts,
        credential: Option<&CredentialSource>,
        failure: &Failure,
    ) -> Ended {
        let code = failure.code();
        tracing::warn!(
            server = facts.server_id,
            code = code.as_str(),
            error = failure as &dyn std::error::Error,
            "a call failed"
        );
        decision.reason_codes.push(code);
        let status = if matches!(failure, Failure::TimedOut) {
            Status::Timeout
        } else {
            Status::Error
        };
        let reply = Prepared::refusal(Some(self.id.clone()), -32603, sentence(code), ErrorData::allowed(code));
        self.ended_called(facts, decision, credential, (status, failure.executed(), reply))
    }

    /// Taken to a server, with what came of it.
    pub(crate) fn ended_called(
        &self,
        message: MessageFacts,
        decision: DecisionFacts,
        credential: Option<&CredentialSource>,
        (status, executed, reply): (Status, Option<bool>, Prepared),
    ) -> Ended {
        let outcome = Outcome {
            status,
            executed,
            screening: reply.acts(),
        };
        Ended {
            ending: Ending::Called {
                who: self.asked.who.clone(),
                message,
                decision,
                credential: credential_facts(credential),
                outcome,
            },
            reply,
        }
    }

    pub(crate) fn verdict(&self, result: Verdict, policy_id: Arc<str>, reason_codes: Vec<ReasonCode>) -> DecisionFacts {
        let policy_set = Some(self.snapshot.policy.policy_set());
        DecisionFacts {
            result,
            policy_id,
            reason_codes,
            policy_set,
            epoch: self.snapshot.policy.epoch(),
        }
    }

    pub(crate) fn ended_refused(&self, facts: &MessageFacts, decision: DecisionFacts, reply: Prepared) -> Box<Ended> {
        let (who, message) = (self.asked.who.clone(), facts.clone());
        let ending = Ending::Refused { who, message, decision };
        Box::new(Ended { ending, reply })
    }
}

pub(crate) fn credential_facts(source: Option<&CredentialSource>) -> CredentialFacts {
    let (mode, source) = match source {
        None | Some(CredentialSource::None) => (TokenMode::None, TokenSource::None),
        Some(CredentialSource::Reference(_)) => (TokenMode::Vault, TokenSource::Reference),
    };
    CredentialFacts {
        mode,
        source,
        audience: None,
        audience_verified: None,
    }
}

/// What happened and what to do next, in one sentence.
pub(crate) fn sentence(code: ReasonCode) -> String {
    let remedy = code.remedy();
    format!("{}; {}", remedy.meaning, remedy.next)
}
