//! One request on its way through the stages after its message was read: what every stage looks at.

use std::sync::Arc;

use ledger::{DecisionFacts, Verdict};
use mcp::{Request, RequestId};
use policy::{Caller, InFlight, Permit};
use vocabulary::ReasonCode;

use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::snapshot::Snapshot;

/// See the module. The snapshot is the one that was in force when the request began.
pub(crate) struct Stages<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) context: &'a RequestContext,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) id: RequestId,
}

/// What was decided, kept for the record while the permit is spent.
pub(crate) struct Decided {
    pub(crate) permit: Permit,
    pub(crate) facts: DecisionFacts,
    /// Held while the request is under way.
    pub(crate) slot: InFlight,
}

impl<'a> Stages<'a> {
    pub(crate) fn new(
        gateway: &'a Gateway,
        context: &'a RequestContext,
        snapshot: Arc<Snapshot>,
        request: &Request,
    ) -> Self {
        Self {
            gateway,
            context,
            caller: snapshot.policy.caller(&context.who),
            snapshot,
            id: request.id().clone(),
        }
    }

    /// A decision by this request's snapshot.
    pub(crate) fn decision(&self, result: Verdict, policy_id: Arc<str>, reason: ReasonCode) -> DecisionFacts {
        decision(&self.snapshot, result, policy_id, reason)
    }
}

/// A decision by a snapshot's policies.
pub(crate) fn decision(snapshot: &Snapshot, result: Verdict, policy_id: Arc<str>, reason: ReasonCode) -> DecisionFacts {
    DecisionFacts {
        result,
        policy_id,
        reason_codes: vec![reason],
        policy_set: Some(snapshot.policy.policy_set()),
        epoch: snapshot.policy.epoch(),
    }
}
