//! What is known about a request when it ends: each way of ending holds exactly the facts there are.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use vocabulary::canonical::Spelling;
use vocabulary::{Confinement, Digest, Era, Principal, ReasonCode, ReceiptId, Risk, Timestamp, TraceId, Trust, words};

use crate::payload::PayloadRef;
use crate::screening::ScreeningAct;

/// What is known the moment a request arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The name its receipt will have; a folded flood shares the name of its first request.
    pub receipt_id: ReceiptId,
    /// The trace it belongs to.
    pub trace_id: TraceId,
    /// Where it came from. Floods are told apart by it; it is not recorded.
    pub address: IpAddr,
    /// Bytes of its body.
    pub size_bytes_in: u64,
    /// When it arrived.
    pub began: Instant,
}

/// What was read of an MCP message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MessageFacts {
    /// The method, empty where the request has none (`DELETE`); recorded without control characters and at most
    /// 128 bytes of it.
    pub method: String,
    /// The server's inventory id; `*` for lists over several servers.
    pub server_id: Option<String>,
    /// The tool. Where `definition_hash` is `None` it is the caller's own text, and is bounded when recorded.
    pub tool_name: Option<String>,
    /// The server's trust at decision time.
    pub trust: Option<Trust>,
    /// The risk at decision time: the tool's, or what the arguments raised it to.
    pub risk: Option<Risk>,
    /// The rule that raised it.
    pub risk_rule: Option<Arc<str>>,
    /// The definition that was decided on.
    pub definition_hash: Option<Digest>,
    /// The client's protocol family.
    pub era: Option<Era>,
    /// The digest of the session id.
    pub session: Option<Digest>,
    /// The digest of the arguments' canonical form.
    pub args_hash: Option<Digest>,
    /// Which canonical spelling that was.
    pub args_canon: Option<Spelling>,
    /// Where the arguments are kept, if they are.
    pub args_ref: Option<PayloadRef>,
    /// What stands around the server's process, by the launcher's own report; `None` for servers that are elsewhere.
    pub walls: Option<Arc<Confinement>>,
}

words! {
    /// What was decided.
    pub enum Verdict {
        /// It may happen.
        Allow = "allow",
        /// It may not.
        Deny = "deny",
        /// A person must say so first.
        RequireApproval = "require_approval",
    }
}

/// What was decided, by which rule, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecisionFacts {
    /// The decision.
    pub result: Verdict,
    /// The `@id` of the policy that decided, or a `builtin:` name.
    pub policy_id: Arc<str>,
    /// Why; at least one code for a denial.
    pub reason_codes: Vec<ReasonCode>,
    /// The digest of the loaded policies, where they were asked.
    pub policy_set: Option<Digest>,
    /// The epoch the decision holds for.
    pub epoch: u64,
    /// The approval that the decision asked for or rests on.
    pub approval: Option<Box<ApprovalFacts>>,
}

/// What a request's record says of its approval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalFacts {
    /// Its name.
    pub id: String,
    /// The plan's digest.
    pub plan_hash: Digest,
    /// Who allowed it, and when: only where somebody did.
    pub approved: Option<(String, Timestamp)>,
    /// What is known of how they signed in.
    pub step_up: StepUp,
}

words! {
    /// What is known of how an approver signed in.
    pub enum StepUp {
        /// A second factor, by the identity provider's own word.
        Mfa = "mfa",
        /// Nothing.
        None = "none",
    }
}

words! {
    /// How the server's credential was come by.
    pub enum TokenMode {
        /// A token issued for this server.
        Exchanged = "exchanged",
        /// A kept secret.
        Vault = "vault",
        /// None was given out, and the call was refused for it.
        Blocked = "blocked",
        /// The server is configured to take none.
        None = "none",
    }
}

words! {
    /// Where the server's credential came from.
    pub enum TokenSource {
        /// RFC 8693.
        Exchange = "exchange",
        /// The gateway's own word at an authorisation server.
        ClientCredentials = "client_credentials",
        /// A Vault server.
        Vault = "vault",
        /// A secret reference of the configuration.
        Reference = "reference",
        /// A client certificate of the gateway's.
        Mtls = "mtls",
        /// The user's own grant.
        Oauth = "oauth",
        /// The environment a local server was started with.
        LaunchEnvironment = "launch_environment",
        /// Nowhere.
        None = "none",
    }
}

/// What was done about the server's credential.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CredentialFacts {
    /// How it was come by.
    pub mode: TokenMode,
    /// Where it came from.
    pub source: TokenSource,
    /// The audience it was issued for.
    pub audience: Option<String>,
    /// Whether that audience was read from the token itself.
    pub audience_verified: Option<bool>,
}

words! {
    /// How a call turned out.
    pub enum Status {
        /// The server answered and the answer was passed on.
        Success = "success",
        /// It failed, was refused, or its answer was withheld.
        Error = "error",
        /// No answer in time.
        Timeout = "timeout",
    }
}

/// What came of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How it turned out.
    pub status: Status,
    /// Whether the server carried it out; `None` when that was never learnt.
    pub executed: Option<bool>,
    /// What screening did to the result.
    pub screening: Vec<ScreeningAct>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// Nobody was identified; nothing the caller wrote is recorded.
    Unidentified {
        /// Why not.
        reason: ReasonCode,
    },
    /// The caller is known, but no method was read.
    Unreadable {
        /// The caller.
        who: Arc<Principal>,
        /// Why not.
        reason: ReasonCode,
        /// The server the route names.
        server_id: Option<String>,
    },
    /// Refused before anything left.
    Refused {
        /// The caller.
        who: Arc<Principal>,
        /// What was asked.
        message: MessageFacts,
        /// Why it was refused.
        decision: DecisionFacts,
    },
    /// Answered by the gateway itself: `initialize`, `ping`, lists, the end of a session.
    Answered {
        /// The caller.
        who: Arc<Principal>,
        /// What was asked.
        message: MessageFacts,
        /// Why it was answered.
        decision: DecisionFacts,
        /// For lists: the digest of exactly what this caller was sent, all pages.
        catalog: Option<Digest>,
    },
    /// Taken to a server.
    Called {
        /// The caller.
        who: Arc<Principal>,
        /// What was asked.
        message: MessageFacts,
        /// Why it was allowed.
        decision: DecisionFacts,
        /// With which credential.
        credential: CredentialFacts,
        /// What came of it.
        outcome: Outcome,
    },
}

impl Ending {
    /// Who asked, where that is known.
    #[must_use]
    pub fn who(&self) -> Option<&Arc<Principal>> {
        match self {
            Self::Unidentified { .. } => None,
            Self::Unreadable { who, .. }
            | Self::Refused { who, .. }
            | Self::Answered { who, .. }
            | Self::Called { who, .. } => Some(who),
        }
    }
}

/// A call of medium or higher risk that is about to leave.
#[derive(Clone, Debug)]
pub struct Intent {
    /// The caller.
    pub who: Arc<Principal>,
    /// What was asked.
    pub message: MessageFacts,
    /// Why it is allowed.
    pub decision: DecisionFacts,
}
