//! What is known about a request when it ends: each way of ending holds exactly the facts there are.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use vocabulary::canonical::Spelling;
use vocabulary::{Confinement, Digest, Principal, ReasonCode, ReceiptId, Risk, TraceId, Trust};

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

/// Which family of protocol versions the client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Era {
    /// With sessions: 2025-03-26 to 2025-11-25.
    Legacy,
    /// Stateless: 2026-07-28 and later.
    Modern,
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
    /// The tool's risk at decision time.
    pub risk: Option<Risk>,
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
    /// What stands around the server's process, by the launcher's own report; `None` for servers that are elsewhere.
    pub walls: Option<Arc<Confinement>>,
}

/// What was decided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// It may happen.
    Allow,
    /// It may not.
    Deny,
    /// A person must say so first.
    RequireApproval,
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
}

/// How the server's credential was come by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TokenMode {
    /// A token issued for this server.
    Exchanged,
    /// A kept secret.
    Vault,
    /// None was given out, and the call was refused for it.
    Blocked,
    /// The server is configured to take none.
    None,
}

/// Where the server's credential came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TokenSource {
    /// RFC 8693.
    Exchange,
    /// A Vault server.
    Vault,
    /// A secret reference of the configuration.
    Reference,
    /// The user's own grant.
    Oauth,
    /// The environment a local server was started with.
    LaunchEnvironment,
    /// Nowhere.
    None,
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

/// How a call turned out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// The server answered and the answer was passed on.
    Success,
    /// It failed, was refused, or its answer was withheld.
    Error,
    /// No answer in time.
    Timeout,
}

/// What came of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How it turned out.
    pub status: Status,
    /// Whether the server carried it out; `None` when that was never learnt.
    pub executed: Option<bool>,
    /// What screening did to the result.
    pub screening: Vec<&'static str>,
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

impl Era {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

impl Verdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RequireApproval => "require_approval",
        }
    }
}

impl TokenMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Exchanged => "exchanged",
            Self::Vault => "vault",
            Self::Blocked => "blocked",
            Self::None => "none",
        }
    }
}

impl TokenSource {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::Vault => "vault",
            Self::Reference => "reference",
            Self::Oauth => "oauth",
            Self::LaunchEnvironment => "launch_environment",
            Self::None => "none",
        }
    }
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Timeout => "timeout",
        }
    }
}
