//! What the control plane needs of the rest, as small traits; the app connects them to store, ledger and
//! gateway. Calls may block: the control plane makes them off the event loop.

mod steering;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ledger::{Event, Ledger, LedgerDown, Payload, PayloadKind, PayloadRef};
use policy::{ItemId, OperatorOrder, PolicySnapshot, Usage};
use vocabulary::{ActorType, Digest, ReceiptId, Risk, Role, ServerId, ServerScope, Timestamp, ToolName};

use crate::Operator;

pub use steering::{
    ApprovalWord, ApprovalsPort, EndOfIncident, IncidentsPort, NewIncident, NotDecided, NotEnded, NotStarted,
    ShownArguments,
};

/// Why the other side of a port did not do its work. The cause is for the log; operators see this sentence.
#[derive(Debug, thiserror::Error)]
#[error("the gateway's state cannot be read or changed")]
pub struct PortError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

impl PortError {
    /// Wraps a cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// Answers later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// All ports.
#[derive(Clone)]
pub struct Ports {
    /// Tokens of agents and operators.
    pub tokens: Arc<dyn Tokens>,
    /// The log, as far as it can be read.
    pub activity: Arc<dyn Activity>,
    /// What is kept of requests beside it.
    pub payloads: Arc<dyn Payloads>,
    /// What exists and who may use it.
    pub inventory: Arc<dyn Inventory>,
    /// What people are asked.
    pub approvals: Arc<dyn ApprovalsPort>,
    /// What is wrong at the moment.
    pub incidents: Arc<dyn IncidentsPort>,
    /// The running gateway itself.
    pub gateway: Arc<dyn Gateway>,
}

/// Writes records of what operators do.
pub trait Recorder: Send + Sync {
    /// Returns once the record is written.
    fn record(&self, event: Event) -> Later<'_, Result<(), LedgerDown>>;
}

impl Recorder for Ledger {
    fn record(&self, event: Event) -> Later<'_, Result<(), LedgerDown>> {
        Box::pin(async move { self.append_event(event).await.map(drop) })
    }
}

/// What kind of token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// For the data plane.
    Agent,
    /// For the control plane, and what its holder may do there.
    Admin(Role),
}

/// A token as operators see it: never the token itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenView {
    /// Its name.
    pub id: String,
    /// What it is good for.
    pub kind: TokenKind,
    /// Whom it stands for; of an admin token, the admin's name.
    pub sub: String,
    /// User, agent or system.
    pub actor_type: ActorType,
    /// The client it was made for.
    pub client_id: Option<String>,
    /// The organisation.
    pub org_id: Option<String>,
    /// Groups, as policies see them.
    pub groups: Vec<String>,
    /// The servers it is good for.
    pub servers: ServerScope,
    /// The harness run it was made for.
    pub run: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
    /// When an operator took it back.
    pub revoked: Option<Timestamp>,
}

/// What became of a revocation. It holds for the next request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Revocation {
    /// The token is revoked now, or was before.
    Revoked(Box<TokenView>),
    /// There is no such token.
    Unknown,
}

/// Keeps tokens.
pub trait Tokens: Send + Sync {
    /// Keeps a new token, known by the digest of its text from now on.
    ///
    /// # Errors
    /// When the store fails.
    fn add(&self, token: &TokenView, digest: Digest) -> Result<(), PortError>;

    /// Every token, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    fn list(&self) -> Result<Vec<TokenView>, PortError>;

    /// Takes a token back, from the next request on.
    ///
    /// # Errors
    /// When the store fails.
    fn revoke(&self, id: &str, at: Timestamp) -> Result<Revocation, PortError>;

    /// The admin token with this digest, whatever its standing.
    ///
    /// # Errors
    /// When the store fails.
    fn admin_token(&self, digest: &Digest) -> Result<Option<TokenView>, PortError>;
}

/// Which records are wanted. Text is compared exactly.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActivityFilter {
    /// `type` of the record.
    pub kind: Option<String>,
    /// One of [`crate::ports::STATUSES`].
    pub status: Option<String>,
    /// Server id.
    pub server: Option<String>,
    /// Tool name.
    pub tool: Option<String>,
    /// `principal.sub`.
    pub principal: Option<String>,
    /// Session id, or its digest as records have it.
    pub session: Option<String>,
    /// Harness run.
    pub run: Option<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// Not newer than this.
    pub until: Option<Timestamp>,
    /// Only records after this one.
    pub after: Option<u64>,
    /// Only records before this one.
    pub before: Option<u64>,
    /// How many at most.
    pub limit: usize,
}

/// The values of [`ActivityFilter::status`].
pub const STATUSES: [&str; 8] = [
    "allowed", "denied", "blocked", "warning", "redacted", "stripped", "pending", "error",
];

/// Names a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordName {
    /// The receipt's id: its final record, or its intent while there is none.
    Receipt(ReceiptId),
    /// The place in the log.
    Seq(u64),
}

vocabulary::words! {
    /// What a summary has a line for each of.
    pub enum SummaryBy {
        /// The caller's `sub`.
        Principal = "principal",
        /// `server/tool`.
        Tool = "tool",
        /// The server's id.
        Server = "server",
        /// The first reason code.
        Reason = "reason",
        /// The MCP method.
        Method = "method",
    }
}

/// How a summary is made up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrangement {
    /// A line for each of these; without it one line for all, under the key `*`.
    pub by: Option<SummaryBy>,
    /// Whole minutes: lines are made for each stretch of this length, in UTC.
    pub bucket_minutes: Option<u32>,
}

/// What the requests under one key came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryView {
    /// When its stretch of time begins.
    pub bucket: Option<Timestamp>,
    /// Whose it is; `-` where a record names none.
    pub key: String,
    /// All requests: the sum of the others.
    pub calls: u64,
    /// Allowed, and did not fail.
    pub allowed: u64,
    /// Refused.
    pub denied: u64,
    /// Allowed, and failed.
    pub errors: u64,
    /// Waiting for a person.
    pub pending: u64,
    /// Half of them took no longer.
    pub p50_us: Option<u64>,
    /// All but one in a hundred took no longer.
    pub p99_us: Option<u64>,
}

/// Reads the log.
pub trait Activity: Send + Sync {
    /// Records, newest first, each a line exactly as stored. With `after` set, the oldest of those that
    /// follow it are taken, so that none is skipped.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn list(&self, filter: &ActivityFilter) -> Result<Vec<String>, PortError>;

    /// Whether the last listing may miss the newest records: what finds them could not be written.
    fn is_behind(&self) -> bool;

    /// One record, exactly as stored.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn show(&self, name: RecordName) -> Result<Option<String>, PortError>;

    /// What the requests that pass the filter come to, by time and key. Its limit does not matter.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn summary(&self, filter: &ActivityFilter, arrangement: Arrangement) -> Result<Vec<SummaryView>, PortError>;

    /// Makes what finds records anew; says how many there are.
    ///
    /// # Errors
    /// When the log cannot be read or the index cannot be written.
    fn reindex(&self) -> Result<u64, PortError>;
}

/// What is kept of requests beside their records.
pub trait Payloads: Send + Sync {
    /// What is kept under a reference of a record.
    ///
    /// # Errors
    /// When it cannot be read, or is not what was kept.
    fn read(&self, reference: PayloadRef, receipt: ReceiptId, kind: PayloadKind) -> Result<Payload, PortError>;

    /// Destroys the key of what is kept: nobody reads it again.
    ///
    /// # Errors
    /// When the disk fails.
    fn erase(&self, reference: PayloadRef) -> Result<(), PortError>;
}

/// What became of an approval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Approval {
    /// It holds from the next request on.
    Approved,
    /// The definition is not the one that was looked at; nothing was approved.
    Changed {
        /// The digest as it is now.
        now: Digest,
    },
    /// The server does not offer it.
    NotOffered,
    /// The definition cannot be used, approved or not; the text says why and quotes nothing.
    Unusable(String),
}

/// What became of an operator's word on one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heeded {
    /// It holds from the next request on.
    Done,
    /// The server has no such thing.
    NotOffered,
    /// It has no effect, and was not taken; the text says why and what to do instead.
    Refused(&'static str),
}

/// Knows what exists.
pub trait Inventory: Send + Sync {
    /// Inventory and policies as they stand.
    ///
    /// # Errors
    /// When they cannot be read.
    fn snapshot(&self) -> Result<Arc<PolicySnapshot>, PortError>;

    /// Inventory and policies as if `server`, which is configured, offered `tool`; `None` if it is not configured.
    ///
    /// # Errors
    /// When they cannot be read.
    fn supposing(&self, server: &ServerId, tool: &ToolName) -> Result<Option<Arc<PolicySnapshot>>, PortError>;

    /// What rules on risk find in a call's arguments.
    fn risk_of_arguments(&self, arguments: &vocabulary::json::Value<'_>) -> Option<Risk>;

    /// Approves a definition, if it is still the one with the digest `seen`; leaves an `inventory` record.
    ///
    /// # Errors
    /// When the store or the log fails.
    fn approve(&self, item: &ItemId, seen: Digest, operator: &Operator) -> Result<Approval, PortError>;

    /// Takes an operator's word on one thing; leaves an `inventory` record.
    ///
    /// # Errors
    /// When the store or the log fails.
    fn heed(&self, item: &ItemId, order: OperatorOrder, operator: &Operator) -> Result<Heeded, PortError>;
}

/// How a server was found last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerHealth {
    /// Nobody has asked yet, or no gateway runs.
    Unknown,
    /// It answered.
    Up,
    /// It answered, but not all of it could be read.
    Degraded(Box<Trouble>),
    /// It did not.
    Down(Box<Trouble>),
}

/// Why a server does not answer. What a process wrote is shown without secrets and terminal sequences.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trouble {
    /// In one sentence, which quotes nothing that the server said.
    pub reason: String,
    /// How its process ended, where it is one that did.
    pub ending: Option<String>,
    /// The last lines that its process wrote to standard error.
    pub stderr: Vec<String>,
    /// The file that has all of them.
    pub log: Option<String>,
    /// What is wrong with how it is configured, as far as that can be seen.
    pub hints: Vec<String>,
}

impl Trouble {
    /// A reason and nothing more.
    #[must_use]
    pub fn of(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            reason: reason.into(),
            ..Self::default()
        })
    }
}

/// A server as operators see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerView {
    /// Its id.
    pub id: ServerId,
    /// Its address.
    pub url: String,
    /// How it was found last.
    pub reach: ServerHealth,
}

/// The gateway as operators see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayStatus {
    /// URL of the `/mcp` route; `None` while no gateway runs.
    pub mcp: Option<String>,
    /// When it started; `None` while no gateway runs.
    pub started: Option<Timestamp>,
    /// The log's name.
    pub log: String,
    /// The place of the newest record.
    pub last_seq: u64,
    /// Whether the log can be written.
    pub ledger_healthy: bool,
}

/// When a configuration is read again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadWhen {
    /// In any case: what its references point to may have changed.
    Always,
    /// If its files say something else than what is in force.
    Changed,
}

/// What became of asking for a reload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reload {
    /// The new configuration is in force.
    Done {
        /// What deserves a second look, one sentence each.
        warnings: Vec<String>,
    },
    /// The old one stays; these are the faults of the new one.
    Refused {
        /// One sentence each.
        faults: Vec<String>,
    },
    /// No gateway runs; its next start reads the configuration.
    NotRunning,
}

/// The running gateway, or its absence.
pub trait Gateway: Send + Sync {
    /// Has the log hand over to a new key, and gives back its public half. The record of it is the log's own.
    ///
    /// # Errors
    /// When the key cannot be made, or the handover cannot be recorded and signed.
    fn rotate_key(&self, operator: &Operator) -> Result<String, PortError>;

    /// How it stands.
    ///
    /// # Errors
    /// When it cannot be told.
    fn status(&self) -> Result<GatewayStatus, PortError>;

    /// Every configured server, in order of id.
    ///
    /// # Errors
    /// When it cannot be told.
    fn servers(&self) -> Result<Vec<ServerView>, PortError>;

    /// Who has used how much of what limits allow: those who used most of it first, at most so many. Names are fit to be shown.
    ///
    /// # Errors
    /// When it cannot be told.
    fn limits(&self, most: usize) -> Result<Vec<Usage>, PortError>;

    /// Reads the configuration again: the whole new one or nothing.
    fn reload(&self, when: ReloadWhen) -> Later<'_, Result<Reload, PortError>>;

    /// Discovers a server's tools again; `None` if no such server is configured.
    fn refresh(&self, server: &ServerId) -> Later<'_, Result<Option<ServerHealth>, PortError>>;
}
