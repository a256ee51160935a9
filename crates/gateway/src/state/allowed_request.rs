//! A request of a server that its client may be asked: screened, decided, and with what its record will say.

use ledger::{Arrival, DecisionFacts, MessageFacts};
use mcp::mrtr::InputMethod;
use policy::{CallFacts, Decision, Grounds, Permit, Target};
use screening::result::ScreenedResult;
use vocabulary::json::Value;
use vocabulary::{Digest, ServerId};

use crate::context::RequestContext;
use crate::delivery::About;
use crate::snapshot::Snapshot;
use crate::state::event_budget::PassedOn;

/// See the module.
pub(crate) struct AllowedRequest {
    pub(crate) method: InputMethod,
    pub(crate) params: Option<ScreenedResult>,
    pub(crate) facts: MessageFacts,
    pub(crate) decision: DecisionFacts,
    pub(crate) arrival: Arrival,
    /// Whose question it is.
    pub(crate) server: ServerId,
    /// Held so that nothing is put to a client that no policy allowed.
    pub(crate) _permit: Permit,
}

impl AllowedRequest {
    /// What a client must be allowed, to be asked this.
    pub(crate) fn about(&self) -> About {
        About::Target(self.method.as_str().into(), Target::Server(self.server.clone()))
    }

    /// Whether it would be put now: the answer to it leaves only then.
    pub(crate) fn is_allowed_now(&self, in_force: &Snapshot, context: &RequestContext) -> bool {
        may_ask(in_force, context, &self.server, (self.method, b"")).is_ok()
    }

    /// Whether anything had to be changed about it.
    pub(crate) fn passed_on(&self) -> PassedOn {
        match &self.params {
            Some(params) if !params.acts().is_empty() => PassedOn::Troublesome,
            Some(_) | None => PassedOn::Unchanged,
        }
    }
}

/// What the rules in force say of a question of this server to this client.
pub(crate) fn may_ask(
    in_force: &Snapshot,
    context: &RequestContext,
    server: &ServerId,
    (method, params): (InputMethod, &[u8]),
) -> Result<(Permit, Grounds), Grounds> {
    let caller = in_force.policy.caller(&context.who);
    let target = Target::Server(server.clone());
    let known = in_force.policy.resolve_target(&caller, method.as_str(), &target);
    let known = known.map_err(|missing| Grounds::new(missing.policy_id, missing.code))?;
    let facts = CallFacts {
        arguments: &Value::Object(Vec::new()),
        args_hash: Digest::of(params),
        found: None,
        address: context.arrival.address,
    };
    match in_force.policy.decide_target(&caller, known, &facts) {
        Decision::Allow(permit, grounds) => Ok((permit, grounds)),
        Decision::RequireApproval(_, grounds) | Decision::Deny(grounds) => Err(grounds),
    }
}
