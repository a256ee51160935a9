//! Steps of an approval: asked for, answered, used, over.

use vocabulary::{Digest, ReceiptId, Risk, Timestamp, words};

use crate::ending::{StepUp, Verdict};

words! {
    /// What became of an approval.
    pub enum ApprovalAction {
        /// A call asked for it.
        Requested = "requested",
        /// A person allowed the call.
        Approved = "approved",
        /// A person refused the call.
        Denied = "denied",
        /// The call was let through.
        Used = "used",
        /// Nobody answered in time, or the answer was not used in time.
        Expired = "expired",
        /// What it was about is not what it was.
        Void = "void",
    }
}

impl ApprovalAction {
    /// Whether the call may be made now.
    pub(crate) fn result(self) -> Verdict {
        match self {
            Self::Requested => Verdict::RequireApproval,
            Self::Approved | Self::Used => Verdict::Allow,
            Self::Denied | Self::Expired | Self::Void => Verdict::Deny,
        }
    }

    /// What it says of the call, where it says anything.
    pub(crate) fn verdict(self) -> Option<&'static str> {
        match self {
            Self::Approved | Self::Used => Some("ALLOW"),
            Self::Denied => Some("DENY"),
            Self::Requested | Self::Expired | Self::Void => None,
        }
    }
}

/// One step. The arguments are in it as a digest alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalStep {
    /// What became of it.
    pub action: ApprovalAction,
    /// Who did that: the caller, the approver, or `system`.
    pub actor: String,
    /// Its name.
    pub id: String,
    /// The plan's digest.
    pub plan_hash: Digest,
    /// What is known of how the approver signed in.
    pub step_up: StepUp,
    /// Why, in the approver's words.
    pub reason: Option<String>,
    /// Who asked.
    pub sub: String,
    /// Who vouches for that.
    pub issuer: String,
    /// The client it was issued to.
    pub client_id: Option<String>,
    /// The organisation.
    pub org_id: Option<String>,
    /// The server.
    pub server_id: String,
    /// The tool.
    pub tool_name: String,
    /// The tool's definition.
    pub definition_hash: Digest,
    /// The arguments.
    pub args_hash: Digest,
    /// How dangerous the call is.
    pub risk: Risk,
    /// The policy that asks for a person.
    pub policy_id: String,
    /// All policies in force.
    pub policy_set: Digest,
    /// When it ends.
    pub expires: Timestamp,
    /// The request it belongs to, if it was one.
    pub receipt_id: Option<ReceiptId>,
}
