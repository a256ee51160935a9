//! The ways a request can end, each with its record and its answer: refused by a stage, answered here, or taken to a
//! server with what came of it. Each refusal says why.

use std::sync::Arc;

use ledger::{CredentialFacts, DecisionFacts, Ending, MessageFacts, Outcome, Status, TokenMode, TokenSource, Verdict};
use mcp::{ErrorCode, Method};
use policy::{Decision, Grounds, InFlight, OverLimit};
use screening::result::Withheld;
use upstream::{Blocked, Failure, Origin, OriginKind};
use vocabulary::json::Value;
use vocabulary::{Digest, ReasonCode, canonical};

use crate::context::{Ended, RequestContext, builtin};
use crate::message::OwnResult;
use crate::message::error_data::ErrorData;
use crate::reply::Prepared;
use crate::snapshot::Snapshot;
use crate::stages::{Decided, Stages, decision};

/// What came of a request that was taken to a server: what its record says, and what its caller is told.
pub(crate) struct CallOutcome {
    status: Status,
    executed: Option<bool>,
    /// Why the answer stays here, where it does.
    reason: Option<ReasonCode>,
    reply: Prepared,
}

impl CallOutcome {
    /// The server carried it out; this is passed on.
    pub(crate) fn answered(status: Status, reply: Prepared) -> Self {
        Self {
            status,
            executed: Some(true),
            reason: None,
            reply,
        }
    }

    /// It goes on: whether the server carries it out is not known yet.
    pub(crate) fn under_way(reply: Prepared) -> Self {
        Self {
            executed: None,
            ..Self::answered(Status::Success, reply)
        }
    }

    /// It goes no further than it has.
    pub(crate) fn stopped(reply: Prepared) -> Self {
        Self {
            status: Status::Error,
            executed: None,
            reason: None,
            reply,
        }
    }

    /// It was not kept, for this reason.
    pub(crate) fn not_kept(reason: ReasonCode, reply: Prepared) -> Self {
        Self {
            reason: Some(reason),
            ..Self::stopped(reply)
        }
    }

    /// There is no answer, or none that can be read.
    fn failed(failure: &Failure, reply: Prepared) -> Self {
        let status = if matches!(failure, Failure::TimedOut) {
            Status::Timeout
        } else {
            Status::Error
        };
        Self {
            status,
            executed: failure.executed(),
            reason: Some(failure.code()),
            reply,
        }
    }
}

/// What the record of a forwarded request says, whatever comes of it.
pub(crate) struct CallRecord {
    pub(crate) facts: MessageFacts,
    pub(crate) decision: DecisionFacts,
    pub(crate) credential: CredentialFacts,
}

impl Stages<'_> {
    /// What the policies said: a permit with its slot, or the end of the request.
    pub(crate) fn decided(
        &self,
        decision: Decision,
        slot: InFlight,
        facts: &MessageFacts,
    ) -> Result<Decided, Box<Ended>> {
        match decision {
            Decision::Allow(permit, Grounds { policy_id, code, .. }) => Ok(Decided {
                permit,
                facts: self.decision(Verdict::Allow, policy_id, code),
                approved: None,
                slot,
            }),
            Decision::RequireApproval(_, grounds) => Err(self.nobody_asked(facts, grounds)),
            Decision::Deny(grounds) => Err(self.denied(facts, Verdict::Deny, grounds)),
        }
    }

    pub(crate) fn denied(&self, facts: &MessageFacts, verdict: Verdict, grounds: Grounds) -> Box<Ended> {
        self.denied_by(&self.snapshot, facts, verdict, grounds)
    }

    /// A policy wants a person's word, and nobody is asked about such.
    pub(crate) fn nobody_asked(&self, facts: &MessageFacts, grounds: Grounds) -> Box<Ended> {
        let decision = self.decision(Verdict::RequireApproval, grounds.policy_id, grounds.code);
        let data = ErrorData {
            verdict: Verdict::RequireApproval,
            ..ErrorData::denied(ErrorCode::Denied, NOBODY_ASKED, grounds.code)
        };
        self.refused_as(facts, decision, data)
    }

    /// Denied by the rules of another snapshot than that of the request.
    pub(crate) fn denied_by(
        &self,
        in_force: &Snapshot,
        facts: &MessageFacts,
        verdict: Verdict,
        grounds: Grounds,
    ) -> Box<Ended> {
        let message = match &grounds.unseen {
            Some(place) => unseen(place),
            None => sentence(grounds.code),
        };
        let data = ErrorData {
            verdict,
            ..ErrorData::denied(ErrorCode::Denied, message, grounds.code)
        };
        let decision = decision(in_force, verdict, grounds.policy_id, grounds.code);
        self.refused_as(facts, decision, data)
    }

    /// A JSON-RPC error of the protocol's own.
    pub(crate) fn malformed(&self, code: ErrorCode, message: &str) -> Box<Ended> {
        let reason = ReasonCode::DenyMalformed;
        let reply = Prepared::refusal(Some(self.id.clone()), ErrorData::denied(code, message, reason));
        Box::new(self.context.refused(reason, reply))
    }

    /// An incident denies it.
    pub(crate) fn by_incident(&self, facts: &MessageFacts) -> Box<Ended> {
        let code = ReasonCode::DenyKillSwitch;
        let decision = self.decision(Verdict::Deny, BY_INCIDENT.into(), code);
        self.refused_as(
            facts,
            decision,
            ErrorData::denied(ErrorCode::Denied, sentence(code), code),
        )
    }

    /// What came of a request that an incident denies by now: it is on record, and nothing of it is told.
    pub(crate) fn dropped(&self, ended: Ended) -> Ended {
        let code = ReasonCode::DenyKillSwitch;
        let told = |verdict| ErrorData {
            verdict,
            ..ErrorData::denied(ErrorCode::Denied, sentence(code), code)
        };
        let mut ending = ended.ending;
        let verdict = match &mut ending {
            Ending::Called { decision, outcome, .. } => {
                decision.reason_codes.push(code);
                outcome.status = Status::Error;
                outcome.screening = Vec::new();
                decision.result
            }
            Ending::Unidentified { .. }
            | Ending::Unreadable { .. }
            | Ending::Refused { .. }
            | Ending::Answered { .. } => Verdict::Deny,
        };
        Ended {
            ending,
            reply: Prepared::refusal(Some(self.id.clone()), told(verdict)),
        }
    }

    pub(crate) fn over_limit(&self, facts: &MessageFacts, over: &OverLimit) -> Box<Ended> {
        if over.code == ReasonCode::DenyReceiptUnavailable {
            return self.unrecordable(facts);
        }
        let decision = self.decision(Verdict::Deny, "builtin:limits".into(), over.code);
        let data = ErrorData {
            retry_after_ms: over.retry_after_ms(),
            ..ErrorData::denied(ErrorCode::Denied, sentence(over.code), over.code)
        };
        self.refused_as(facts, decision, data)
    }

    /// What is about to happen cannot be put on record, so it does not happen.
    pub(crate) fn unrecordable(&self, facts: &MessageFacts) -> Box<Ended> {
        let code = ReasonCode::DenyReceiptUnavailable;
        let decision = self.decision(Verdict::Deny, "builtin:protocol".into(), code);
        self.refused_as(
            facts,
            decision,
            ErrorData::denied(ErrorCode::InternalError, sentence(code), code),
        )
    }

    /// Keeps the arguments of a request, in their canonical form, where the operator wants them kept: what cannot be goes no
    /// further.
    pub(crate) fn keep_arguments(&self, facts: &mut MessageFacts, arguments: &Value<'_>) -> Result<(), Box<Ended>> {
        let spelled = || {
            let mut spelled = Vec::new();
            canonical::write(arguments, &mut spelled);
            spelled
        };
        let receipt = self.context.arrival.receipt_id;
        match self.gateway.ledger.keep_arguments(receipt, spelled) {
            Ok(kept) => {
                facts.args_ref = kept;
                Ok(())
            }
            Err(_) => Err(self.unrecordable(facts)),
        }
    }

    /// Refused, told as a JSON-RPC error.
    pub(crate) fn refused_as(&self, facts: &MessageFacts, decision: DecisionFacts, data: ErrorData) -> Box<Ended> {
        self.refused(facts, decision, Prepared::refusal(Some(self.id.clone()), data))
    }

    /// Refused in a way that a model can act on: an error result of a tool, an error of any other method.
    pub(crate) fn refused_to_model(
        &self,
        facts: &MessageFacts,
        decision: DecisionFacts,
        data: ErrorData,
    ) -> Box<Ended> {
        self.refused(facts, decision, self.told_to_model(data))
    }

    fn refused(&self, facts: &MessageFacts, decision: DecisionFacts, reply: Prepared) -> Box<Ended> {
        let (who, message) = (self.context.who.clone(), facts.clone());
        let ending = Ending::Refused { who, message, decision };
        Box::new(Ended { ending, reply })
    }

    fn told_to_model(&self, data: ErrorData) -> Prepared {
        let id = self.id.clone();
        if self.context.method == Method::ToolsCall {
            Prepared::error_result(id, self.context.client.era(), data)
        } else {
            Prepared::refusal(Some(id), data)
        }
    }

    /// What is said where the server answered but its answer stays here.
    pub(crate) fn withheld_reply(&self, withheld: &Withheld) -> Prepared {
        self.told_to_model(ErrorData::allowed(
            ErrorCode::InternalError,
            withheld.message.clone(),
            withheld.code,
        ))
    }

    /// The server answered, but its answer stays here.
    pub(crate) fn withheld(&self, withheld: &Withheld) -> CallOutcome {
        CallOutcome {
            status: Status::Error,
            executed: Some(true),
            reason: Some(withheld.code),
            reply: self.withheld_reply(withheld),
        }
    }

    /// The server gave no answer that can be used.
    pub(crate) fn failed(&self, record: CallRecord, failure: &Failure) -> Ended {
        if let Some(blocked) = failure.blocked() {
            return self.blocked(record, (blocked, failure.executed()));
        }
        let code = failure.code();
        tracing::warn!(
            server = record.facts.server_id,
            code = code.as_str(),
            error = failure as &dyn std::error::Error,
            "a call failed"
        );
        let data = ErrorData::allowed(ErrorCode::InternalError, sentence(code), code);
        let reply = Prepared::refusal(Some(self.id.clone()), data);
        self.called(record, CallOutcome::failed(failure, reply))
    }

    /// What was to leave holds the caller's own credential: nobody need be asked whether it may.
    pub(crate) fn blocked_at_home(&self, facts: &MessageFacts) -> Ended {
        let code = ReasonCode::DenyPassthroughBlocked;
        let record = CallRecord {
            facts: facts.clone(),
            decision: self.decision(Verdict::Deny, "builtin:credentials".into(), code),
            credential: no_credential(),
        };
        self.blocked(record, (Blocked::Passthrough, Some(false)))
    }

    /// There is no credential that may go along, so nothing was sent, or nothing more.
    fn blocked(&self, record: CallRecord, (blocked, executed): (Blocked, Option<bool>)) -> Ended {
        let code = blocked.code();
        tracing::warn!(
            server = record.facts.server_id,
            code = code.as_str(),
            error = &blocked as &dyn std::error::Error,
            "a call was blocked"
        );
        let shape = match blocked {
            Blocked::Passthrough => ErrorCode::Denied,
            Blocked::Unavailable(_) => ErrorCode::InternalError,
        };
        let reply = Prepared::refusal(Some(self.id.clone()), ErrorData::denied(shape, sentence(code), code));
        Ended {
            ending: Ending::Called {
                who: self.context.who.clone(),
                message: record.facts,
                decision: self.decision(Verdict::Deny, "builtin:credentials".into(), code),
                credential: CredentialFacts {
                    mode: TokenMode::Blocked,
                    ..record.credential
                },
                outcome: Outcome {
                    status: Status::Error,
                    executed,
                    screening: Vec::new(),
                },
            },
            reply,
        }
    }

    /// Taken to a server, with what came of it.
    pub(crate) fn called(&self, record: CallRecord, outcome: CallOutcome) -> Ended {
        let CallRecord {
            facts,
            mut decision,
            credential,
        } = record;
        decision.reason_codes.extend(outcome.reason);
        Ended {
            ending: Ending::Called {
                who: self.context.who.clone(),
                message: facts,
                decision,
                credential,
                outcome: Outcome {
                    status: outcome.status,
                    executed: outcome.executed,
                    screening: outcome.reply.acts(),
                },
            },
            reply: outcome.reply,
        }
    }

    /// Answered here, with a result of our own.
    pub(crate) fn answered(&self, result: OwnResult) -> Ended {
        answered_here(self.context, &self.snapshot, Prepared::own(self.id.clone(), result))
    }

    /// Answered here, with a list of exactly this.
    pub(crate) fn listed(&self, result: OwnResult, catalog: Digest) -> Ended {
        Ended {
            ending: Ending::Answered {
                who: self.context.who.clone(),
                message: self.context.facts(),
                decision: answered_by_itself(&self.snapshot),
                catalog: Some(catalog),
            },
            reply: Prepared::own(self.id.clone(), result),
        }
    }
}

/// Answered here, with whatever the reply is.
pub(crate) fn answered_here(context: &RequestContext, snapshot: &Snapshot, reply: Prepared) -> Ended {
    Ended {
        ending: Ending::Answered {
            who: context.who.clone(),
            message: context.facts(),
            decision: answered_by_itself(snapshot),
            catalog: None,
        },
        reply,
    }
}

/// Allowed, because the gateway answers this by itself.
pub(crate) fn answered_by_itself(snapshot: &Snapshot) -> DecisionFacts {
    builtin(Verdict::Allow, ReasonCode::AllowBuiltin, snapshot.policy.epoch())
}

/// What is on record of a server's credential.
pub(crate) fn credential_facts(origin: &Origin) -> CredentialFacts {
    let (mode, source) = match origin.kind {
        OriginKind::None => (TokenMode::None, TokenSource::None),
        OriginKind::Reference => (TokenMode::Vault, TokenSource::Reference),
        OriginKind::Exchange => (TokenMode::Exchanged, TokenSource::Exchange),
        OriginKind::Certificate => (TokenMode::Vault, TokenSource::Mtls),
        OriginKind::ClientCredentials => (TokenMode::Exchanged, TokenSource::ClientCredentials),
    };
    CredentialFacts {
        mode,
        source,
        audience: origin.audience.clone(),
        audience_verified: origin.audience_verified,
    }
}

/// Where no server was reached.
pub(crate) fn no_credential() -> CredentialFacts {
    CredentialFacts {
        mode: TokenMode::None,
        source: TokenSource::None,
        audience: None,
        audience_verified: None,
    }
}

/// What happened and what to do next, in one sentence.
pub(crate) fn sentence(code: ReasonCode) -> String {
    let remedy = code.remedy();
    format!("{}; {}", remedy.meaning, remedy.next)
}

/// The policy id of what incidents deny.
pub(crate) const BY_INCIDENT: &str = "builtin:incident";

/// Approvals are of calls of tools.
const NOBODY_ASKED: &str = "a policy wants a person's approval for this, and people are asked about calls of tools alone; let the \
                            operator permit it without `@require(\"approval\")`";

/// What a caller is told of an argument that the policies read and cannot see; the place is in the policies' own names.
fn unseen(place: &str) -> String {
    let place = if place.is_empty() { "the arguments" } else { place };
    format!(
        "the policies look at {place} and cannot see the value there; send a whole number of 64 bits, a number of at most four \
         decimal places, a string, or leave it out instead of null"
    )
}

/// The policy id of a preflight refusal.
pub(crate) fn by_preflight() -> Arc<str> {
    "builtin:preflight".into()
}
