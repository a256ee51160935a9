//! One request on its way through the stages after its message was read: what every stage looks at.

use std::sync::{Arc, OnceLock};

use ledger::{DecisionFacts, Verdict};
use mcp::{Method, Request, RequestId};
use policy::{ApprovedCall, Caller, Class, InFlight, OverLimit, Permit, Subject, Target};
use vocabulary::{ReasonCode, Risk, ServerId, ToolId};

use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::snapshot::Snapshot;
use crate::state::incidents::Says;

/// See the module. The snapshot is the one that was in force when the request began.
pub(crate) struct Stages<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) context: &'a RequestContext,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) id: RequestId,
    /// What it is about and how dangerous that is, once it was permitted.
    pub(crate) about: OnceLock<(Target, Risk)>,
}

/// What was decided, kept for the record while the permit is spent.
pub(crate) struct Decided {
    pub(crate) permit: Permit,
    pub(crate) facts: DecisionFacts,
    /// What a person allowed, where one had to.
    pub(crate) approved: Option<ApprovedCall>,
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
            about: OnceLock::new(),
        }
    }

    /// Counts the request in, as one that goes to a server and, where it calls one, to a tool.
    pub(crate) async fn admit(&self, server: &ServerId, tool: Option<&ToolId>) -> Result<InFlight, OverLimit> {
        let request = policy::Request {
            who: &self.context.who,
            session: self.context.session().map(|session| session.digest),
            server: Some(server),
            tool,
            class: class_of(&self.context.method),
        };
        self.snapshot.limiter.admit(&request, server).await
    }

    /// What incidents say of this request, if it is about this.
    pub(crate) fn incident_says(&self, target: &Target, risk: Risk) -> Says {
        self.gateway.incidents.of(&self.subject(target, risk))
    }

    /// Whether an incident denies what was permitted.
    pub(crate) fn is_denied_by_incident(&self) -> bool {
        let says = |(target, risk): &(Target, Risk)| self.incident_says(target, *risk) == Says::Denied;
        self.about.get().is_some_and(says)
    }

    /// Completes once an incident denies what was permitted.
    pub(crate) async fn denied_by_incident(&self) {
        match self.about.get() {
            Some((target, risk)) => self.gateway.incidents.denies(&self.subject(target, *risk)).await,
            None => std::future::pending().await,
        }
    }

    fn subject<'s>(&'s self, target: &'s Target, risk: Risk) -> Subject<'s> {
        Subject {
            who: &self.context.who,
            server: Some(target.server()),
            tool: target.entry().map(|entry| &entry.id),
            risk,
        }
    }

    /// A decision by this request's snapshot.
    pub(crate) fn decision(&self, result: Verdict, policy_id: Arc<str>, reason: ReasonCode) -> DecisionFacts {
        decision(&self.snapshot, result, policy_id, reason)
    }
}

/// What a method counts as: does it do something, or ask what there is?
pub(crate) fn class_of(method: &Method) -> Class {
    match method {
        Method::ToolsCall
        | Method::ResourcesRead
        | Method::PromptsGet
        | Method::TasksGet
        | Method::TasksUpdate
        | Method::TasksCancel
        | Method::TasksResult
        | Method::Other(_) => Class::Call,
        Method::Initialize
        | Method::Discover
        | Method::Ping
        | Method::ToolsList
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::PromptsList
        | Method::TasksList
        | Method::SetLevel
        | Method::Listen
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::Complete => Class::List,
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
        approval: None,
    }
}
