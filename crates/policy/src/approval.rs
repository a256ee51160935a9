//! Approvals: what a person is asked to allow, bound to one caller, one definition and one set of arguments, and how such a
//! question ends. A permit comes of it only in [`Wanted::spend`], once and after the store said that nobody spent it before.
//! ADR 0140: what an approval is of. ADR 0141: how it ends.

use std::sync::Arc;
use std::time::Duration;

use vocabulary::json::Value;
use vocabulary::{Digest, Principal, Risk, ServerId, Timestamp, ToolName, canonical};

use crate::access::Target;
use crate::decide::Grounds;
use crate::entities::CALL_METHOD;
use crate::inventory::StoreError;
use crate::permit::Permit;

/// Exactly what is to be allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Who asks.
    pub sub: String,
    /// Who vouches for that.
    pub issuer: String,
    /// The client it was issued to.
    pub client_id: Option<String>,
    /// The organisation.
    pub org_id: Option<String>,
    /// The server.
    pub server: ServerId,
    /// The tool.
    pub tool: ToolName,
    /// The tool's definition.
    pub definition_hash: Digest,
    /// The arguments, by their canonical form.
    pub args_hash: Digest,
    /// What goes along beside the arguments.
    pub beside: Digest,
    /// How dangerous this call is.
    pub risk: Risk,
    /// The policy that asks for a person.
    pub policy_id: Arc<str>,
    /// All policies in force.
    pub policy_set: Digest,
}

impl Plan {
    /// What names this plan: two calls have the same key exactly when an approval of one is an approval of the other.
    #[must_use]
    pub fn key(&self) -> Digest {
        let mut text = self.canonical(None);
        text.extend_from_slice(self.beside.as_bytes());
        text.extend_from_slice(self.policy_set.as_bytes());
        Digest::of(&text)
    }

    /// The plan's name in records, with the time it is good until.
    #[must_use]
    pub fn hash(&self, expires: Timestamp) -> Digest {
        Digest::of(&self.canonical(Some(expires)))
    }

    /// Whether it is of the same caller and the same tool, whatever the arguments.
    #[must_use]
    pub fn is_about_the_same(&self, other: &Self) -> bool {
        self.owner() == other.owner() && (&self.server, &self.tool) == (&other.server, &other.tool)
    }

    /// Whether it is of the same person or agent, whatever the client.
    #[must_use]
    pub fn is_of_the_same_principal(&self, other: &Self) -> bool {
        let whose = |plan: &Self| (plan.sub.clone(), plan.issuer.clone(), plan.org_id.clone());
        whose(self) == whose(other)
    }

    /// Who asks, in one digest.
    #[must_use]
    pub fn owner(&self) -> Digest {
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, |text| Value::String(text.into()));
        let owner = Value::Array(vec![
            Value::String(self.sub.as_str().into()),
            Value::String(self.issuer.as_str().into()),
            text(&self.client_id),
            text(&self.org_id),
        ]);
        canonical::digest(&owner).0
    }

    fn canonical(&self, expires: Option<Timestamp>) -> Vec<u8> {
        let text = |text: &str| Value::String(text.to_owned().into());
        let maybe = |member: Option<&str>| member.map_or(Value::Null, text);
        let expires = expires.map(|time| time.to_string());
        let members = [
            ("sub", text(&self.sub)),
            ("issuer", text(&self.issuer)),
            ("client_id", maybe(self.client_id.as_deref())),
            ("org_id", maybe(self.org_id.as_deref())),
            ("server", text(self.server.as_str())),
            ("tool", text(self.tool.as_str())),
            ("definition_hash", text(&self.definition_hash.to_string())),
            ("args_hash", text(&self.args_hash.to_string())),
            ("risk", text(self.risk.as_str())),
            ("policy_id", text(&self.policy_id)),
            ("expires", maybe(expires.as_deref())),
        ];
        let members = members.map(|(name, value)| (name.into(), value));
        let mut out = Vec::with_capacity(512);
        canonical::write(&Value::Object(members.into()), &mut out);
        out
    }
}

vocabulary::words! {
    /// Where an approval stands. Only the first two can become anything else.
    pub enum ApprovalState {
        /// A person is asked.
        Pending = "pending",
        /// A person allowed it; it was not used yet.
        Approved = "approved",
        /// A person refused it.
        Denied = "denied",
        /// Nobody answered in time, or it was not used in time.
        Expired = "expired",
        /// The call was let through, once.
        Used = "used",
        /// What it was about is not what it was.
        Void = "void",
    }
}

vocabulary::words! {
    /// What is known of how an approver signed in.
    pub enum StepUp {
        /// The identity provider says that a second factor was shown, and when.
        Mfa = "mfa",
        /// Nothing.
        None = "none",
    }
}

impl ApprovalState {
    /// Whether it can still become something else.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::Approved => true,
            Self::Denied | Self::Expired | Self::Used | Self::Void => false,
        }
    }
}

/// What a person said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalVerdict {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why, in their words.
    pub reason: Option<String>,
    /// What is known of how they signed in.
    pub step_up: StepUp,
}

/// A question to a person, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Approval {
    /// Its name, `apr_…`.
    pub id: String,
    /// What is to be allowed.
    pub plan: Plan,
    /// Where it stands.
    pub state: ApprovalState,
    /// When it was asked.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
    /// What a person said, where one did.
    pub verdict: Option<ApprovalVerdict>,
}

/// Why a person's word was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApprovalFault {
    /// It is not waiting for a word.
    #[error("it is {0} already")]
    NotPending(ApprovalState),
    /// Whoever asks does not answer.
    #[error("whoever asked for it does not decide on it; another person has to")]
    OwnRequest,
}

/// Whether whoever asks may answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FourEyes {
    /// Somebody else has to.
    Needed,
    /// The same person may.
    NotNeeded,
}

impl Approval {
    /// A new question.
    #[must_use]
    pub fn ask(id: String, plan: Plan, now: Timestamp, ttl: Duration) -> Self {
        Self {
            id,
            plan,
            state: ApprovalState::Pending,
            created: now,
            expires: now.plus(ttl),
            verdict: None,
        }
    }

    /// The plan's name in records.
    #[must_use]
    pub fn plan_hash(&self) -> Digest {
        self.plan.hash(self.expires)
    }

    /// Where it stands at this time: what is open past its end is not.
    #[must_use]
    pub fn state_at(&self, now: Timestamp) -> ApprovalState {
        if self.state.is_open() && self.expires <= now {
            ApprovalState::Expired
        } else {
            self.state
        }
    }

    /// The same after a person's word.
    ///
    /// # Errors
    /// When it is not waiting for one, or not for theirs.
    pub fn decided(&self, state: Answered, verdict: ApprovalVerdict, eyes: FourEyes) -> Result<Self, ApprovalFault> {
        let stands = self.state_at(verdict.at);
        if stands != ApprovalState::Pending {
            return Err(ApprovalFault::NotPending(stands));
        }
        if eyes == FourEyes::Needed && is_same_person(&verdict.by, &self.plan.sub) {
            return Err(ApprovalFault::OwnRequest);
        }
        let state = match state {
            Answered::Yes => ApprovalState::Approved,
            Answered::No => ApprovalState::Denied,
        };
        Ok(Self {
            state,
            verdict: Some(verdict),
            ..self.clone()
        })
    }

    /// The same in another state, with everything else as it was.
    #[must_use]
    pub fn moved(&self, state: ApprovalState) -> Self {
        Self { state, ..self.clone() }
    }
}

/// Names that differ in case alone are not two people.
fn is_same_person(approver: &str, requester: &str) -> bool {
    approver.trim().to_lowercase() == requester.trim().to_lowercase()
}

/// A person's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// It may be done.
    Yes,
    /// It may not.
    No,
}

/// Where approvals are kept. Implemented by `store`.
pub trait ApprovalStore: Send + Sync {
    /// All that are open, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn open_approvals(&self) -> Result<Vec<Approval>, StoreError>;

    /// The newest of a plan.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn approval_of(&self, key: &Digest) -> Result<Option<Approval>, StoreError>;

    /// Moves one from a state to that of `to`, if it is in that state: whoever comes second is told `false`. What is kept of its
    /// arguments is gone once it is not open any more. On disk when this returns.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn move_approval(&self, from: ApprovalState, to: &Approval) -> Result<bool, StoreError>;
}

/// A call that policy allows once a person agrees: everything a permit needs but that.
///
/// Only [`crate::PolicySnapshot::decide`] and [`crate::PolicySnapshot::decide_target`] make one.
#[derive(Debug)]
pub struct Wanted {
    principal: Arc<Principal>,
    action: Arc<str>,
    target: Target,
    arguments: Digest,
    epoch: u64,
    risk: Risk,
    policy_set: Digest,
    policy_id: Arc<str>,
    beside: Digest,
}

/// What came of asking for a permit.
#[derive(Debug)]
pub enum Spending {
    /// A person had allowed exactly this, and nobody had used it.
    Granted(Permit, ApprovedCall),
    /// Nobody has.
    Nothing(Box<Wanted>),
}

/// A call that a person allowed and that is under way: what it goes on with where its permit was overtaken, or where its server
/// has a question and it is sent once more.
///
/// Only [`Wanted::spend`] makes one. It cannot be copied, and lives as long as the call.
#[derive(Debug)]
pub struct ApprovedCall(Box<Approval>);

impl ApprovedCall {
    /// What was approved.
    #[must_use]
    pub fn approval(&self) -> &Approval {
        &self.0
    }
}

/// What [`Wanted`] is made of.
pub(crate) struct WantedParts {
    pub(crate) principal: Arc<Principal>,
    pub(crate) action: Arc<str>,
    pub(crate) target: Target,
    pub(crate) arguments: Digest,
    pub(crate) epoch: u64,
    pub(crate) risk: Risk,
    pub(crate) policy_set: Digest,
}

impl Wanted {
    pub(crate) fn new(parts: WantedParts, grounds: &Grounds) -> Box<Self> {
        let WantedParts {
            principal,
            action,
            target,
            arguments,
            epoch,
            risk,
            policy_set,
        } = parts;
        Box::new(Self {
            principal,
            action,
            target,
            arguments,
            epoch,
            risk,
            policy_set,
            policy_id: grounds.policy_id.clone(),
            beside: Digest::of(b""),
        })
    }

    /// The same with what goes along beside the arguments: who approves sees neither, so that what differs there is another plan.
    #[must_use]
    pub fn beside(mut self: Box<Self>, digest: Digest) -> Box<Self> {
        self.beside = digest;
        self
    }

    /// What a person would have to allow; `None` for what nobody is asked about: only calls of tools are.
    #[must_use]
    pub fn plan(&self) -> Option<Plan> {
        let entry = match &self.target {
            Target::Tool(entry) if &*self.action == CALL_METHOD => entry,
            Target::Tool(_) | Target::Resource { .. } | Target::Prompt { .. } | Target::Server(_) => return None,
        };
        let who = &self.principal;
        Some(Plan {
            sub: who.sub.clone(),
            issuer: who.issuer.clone(),
            client_id: who.client_id.clone(),
            org_id: who.org_id.clone(),
            server: entry.id.server.clone(),
            tool: entry.id.name.clone(),
            definition_hash: entry.definition_hash,
            args_hash: self.arguments,
            beside: self.beside,
            risk: self.risk,
            policy_id: self.policy_id.clone(),
            policy_set: self.policy_set,
        })
    }

    /// The permit, if a person allowed exactly this and nobody used that yet. It is used up before the permit is there. Blocks.
    ///
    /// # Errors
    /// When the store fails: then there is no permit.
    pub fn spend(self: Box<Self>, store: &dyn ApprovalStore, now: Timestamp) -> Result<Spending, StoreError> {
        let Some(plan) = self.plan() else {
            return Ok(Spending::Nothing(self));
        };
        let found = store.approval_of(&plan.key())?;
        let good = |known: &Approval| known.plan == plan && known.state_at(now) == ApprovalState::Approved;
        let Some(approval) = found.filter(good) else {
            return Ok(Spending::Nothing(self));
        };
        let used = approval.moved(ApprovalState::Used);
        if !store.move_approval(ApprovalState::Approved, &used)? {
            return Ok(Spending::Nothing(self));
        }
        let permit = Permit::grant(self.principal, self.action, self.target, self.arguments, self.epoch);
        Ok(Spending::Granted(permit, ApprovedCall(Box::new(used))))
    }

    /// Another permit for a call that was approved and is under way, if everything is still what was approved.
    #[must_use]
    pub fn going_on(self: Box<Self>, approved: &ApprovedCall) -> Option<Permit> {
        let same = self.plan().is_some_and(|plan| plan == approved.0.plan);
        same.then(|| Permit::grant(self.principal, self.action, self.target, self.arguments, self.epoch))
    }
}

#[cfg(test)]
mod tests;
