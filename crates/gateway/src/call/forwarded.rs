//! A request that was permitted and is on its way to a server: what its record and its answer will need.

use std::sync::Arc;

use ledger::{MessageFacts, Status, Verdict};
use mcp::translate::ResultKind;
use mcp::{Era, ErrorCode, Method};
use policy::{ApprovedCall, Grounds, InFlight, Target};
use screening::result::{ScreenedResult, Withheld};
use upstream::{Failure, SeenConfinement, Server};
use vocabulary::ReasonCode;

use crate::call::rounds::binding::Binding;
use crate::context::Ended;
use crate::delivery::{About, Asked};
use crate::message::Adapted;
use crate::message::error_data::ErrorData;
use crate::outcome::{CallOutcome, CallRecord, sentence};
use crate::reply::Prepared;
use crate::snapshot::Snapshot;
use crate::stages::{Stages, decision};

/// See the module.
pub(crate) struct Forwarded {
    pub(crate) server: Arc<Server>,
    /// The era its server speaks.
    pub(crate) era: Era,
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) kind: ResultKind,
    pub(crate) binding: Binding,
    pub(crate) task: TaskOfCall,
    pub(crate) record: CallRecord,
    /// What stands around the process it goes to.
    pub(crate) confinement: SeenConfinement,
    /// What was allowed, to be decided again while it goes on.
    pub(crate) asked: Arc<Asked>,
    /// What a person allowed, where one had to.
    pub(crate) approved: Option<ApprovedCall>,
    /// Held while the request is under way.
    pub(crate) slot: Option<InFlight>,
}

/// What a request has to do with a task that the client knows of.
pub(crate) enum TaskOfCall {
    /// Nothing.
    None,
    /// It is about a task, by the client's name for it.
    About(String),
    /// The same, of a server with sessions; the name is empty where the call is to become the task.
    OfSession(String),
}

impl TaskOfCall {
    /// The client's name for the task.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::None => "",
            Self::About(name) | Self::OfSession(name) => name,
        }
    }

    pub(crate) fn is_of_session(&self) -> bool {
        matches!(self, Self::OfSession(_))
    }
}

impl Forwarded {
    /// The tool, prompt or resource that was asked for.
    pub(crate) fn name(&self) -> Option<&str> {
        self.record.facts.tool_name.as_deref()
    }

    /// What whoever hears of it must be allowed.
    pub(crate) fn about(&self) -> About {
        About::Request(self.asked.clone())
    }

    /// How it ends.
    pub(crate) fn end(mut self, stages: &Stages<'_>, outcome: CallOutcome) -> Ended {
        let slot = self.slot.take();
        let mut ended = stages.called(self.arrived(), outcome);
        // Its seat is held until the answer has left.
        ended.reply = ended.reply.holding(slot);
        ended
    }

    /// It ends without an answer that can be used.
    pub(crate) fn fail(self, stages: &Stages<'_>, failure: &Failure) -> Ended {
        stages.failed(self.arrived(), failure)
    }

    /// It goes no further: the rules in force no longer allow it. What its server did so far nobody knows.
    pub(crate) fn stop(self, stages: &Stages<'_>, in_force: &Snapshot, verdict: Verdict, grounds: Grounds) -> Ended {
        let Grounds { policy_id, code, .. } = grounds;
        let record = CallRecord {
            decision: decision(in_force, verdict, policy_id, code),
            ..self.arrived()
        };
        let data = ErrorData {
            verdict,
            ..ErrorData::denied(ErrorCode::Denied, sentence(code), code)
        };
        let reply = Prepared::refusal(Some(stages.id.clone()), data);
        stages.called(record, CallOutcome::stopped(reply))
    }

    /// It ends with an answer that stays here.
    pub(crate) fn withhold(self, stages: &Stages<'_>, withheld: &Withheld) -> Ended {
        let outcome = stages.withheld(withheld);
        self.end(stages, outcome)
    }

    /// What its record says, once it has arrived.
    fn arrived(self) -> CallRecord {
        let CallRecord {
            facts,
            decision,
            credential,
        } = self.record;
        let facts = MessageFacts {
            walls: self.confinement.now(),
            ..facts
        };
        CallRecord {
            facts,
            decision,
            credential,
        }
    }
}

/// Answers that cannot be passed on for what they are, not for what they hold.
pub(crate) fn unusable() -> Withheld {
    withheld("the server's answer is not one of this protocol version")
}

pub(crate) fn withheld(message: &str) -> Withheld {
    Withheld {
        code: ReasonCode::ErrorUpstream,
        message: message.to_owned(),
    }
}

/// An adapted result, or none that can be used.
pub(crate) fn adapted(stages: &Stages<'_>, status: Status, adapted: Option<Adapted>) -> CallOutcome {
    match adapted {
        Some(adapted) => CallOutcome::answered(status, Prepared::adapted_result(stages.id.clone(), adapted)),
        None => stages.withheld(&unusable()),
    }
}

/// What a result says of the call.
pub(crate) fn status_of(result: &ScreenedResult) -> Status {
    if result.is_error() {
        Status::Error
    } else {
        Status::Success
    }
}
