//! How a call towards a server can fail. None of these quotes what the server sent.

use mcp::server::Nonsense;
use vocabulary::ReasonCode;

use crate::credentials::Unavailable;

/// A TLS setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// The trust roots cannot be loaded.
    #[error("the trust roots for this server cannot be used")]
    Roots(#[source] rustls::Error),
    /// The name that its certificate must hold is none.
    #[error("the name that this server's certificate must hold is none")]
    Name,
    /// The certificate that it is to be shown cannot be used.
    #[error("the certificate that this server is to be shown cannot be used")]
    Identity(#[source] rustls::Error),
}

/// Why nothing was sent: there is no credential that could go along.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Blocked {
    /// What was to leave holds the credential that the caller showed.
    #[error("the caller's own credential would have left")]
    Passthrough,
    /// There is no credential for the server.
    #[error("the server's credential cannot be had: {0}")]
    Unavailable(Unavailable),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing was sent.
    #[error("nothing was sent: {0}")]
    Blocked(Blocked),
    /// The call had begun; what was to be sent next was not.
    #[error("the call went no further: {0}")]
    BlockedLater(Blocked),
    /// No connection: nothing was sent.
    #[error("the server cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke after something may have been sent.
    #[error("the connection to the server broke")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server took longer than the limit.
    #[error("the server did not answer in time")]
    TimedOut,
    /// The caller no longer waits.
    #[error("the caller cancelled")]
    Cancelled,
    /// Too much of what the server said beside its answer had to be changed, withheld or refused.
    #[error("too much of what the server said beside its answer could not be passed on as it came")]
    TooManyEvents,
    /// A redirect, which is never followed.
    #[error("the server redirects, which is not followed")]
    Redirected,
    /// Another HTTP status than success.
    #[error("the server answered with HTTP status {0}")]
    Status(u16),
    /// The answer is larger than the limit.
    #[error("the server's answer is larger than the limit")]
    TooLarge,
    /// The answer cannot be used.
    #[error(transparent)]
    Nonsense(#[from] Nonsense),
    /// The server refused a request that every server must take.
    #[error("the server refused `{0}`")]
    Refused(&'static str),
    /// The server chose a protocol version that we do not speak.
    #[error("the server chose a protocol version that this gateway does not speak")]
    Version,
    /// A list leads back to a page before.
    #[error("the server's list leads back to itself")]
    EndlessList,
    /// A task that the call became cannot be seen through.
    #[error("the server's task cannot be seen through: {0}")]
    Task(&'static str),
    /// The permit does not fit what was to be sent.
    #[error("the permit does not fit this call")]
    Permit,
    /// The session has ended and could not be opened again.
    #[error("the server ends its sessions at once")]
    SessionGone,
    /// The confinement that a process needs cannot be built here: it was not started.
    #[error("the server's sandbox cannot be built")]
    Sandbox(#[source] Box<sandbox::LaunchFailure>),
    /// The process could not be started as configured.
    #[error("the server cannot be started: {0}")]
    NotStarted(String),
    /// It keeps ending; it is not started again before this time has passed.
    #[error("the server keeps ending soon after its start; it is started again in {} s", .0.as_secs().max(1))]
    CrashLoop(std::time::Duration),
    /// Its process ended while an answer was waited for.
    #[error("the server's process {0}")]
    Ended(&'static str),
    /// As many processes as there may be are at work.
    #[error("the server runs as many processes as it may")]
    TooMany,
}

impl Blocked {
    /// The code for the receipt.
    #[must_use]
    pub fn code(self) -> ReasonCode {
        match self {
            Self::Passthrough => ReasonCode::DenyPassthroughBlocked,
            Self::Unavailable(_) => ReasonCode::DenyCredentialUnavailable,
        }
    }
}

impl Failure {
    /// Whether it was refused for want of a credential that may go along.
    #[must_use]
    pub fn blocked(&self) -> Option<Blocked> {
        match self {
            Self::Blocked(blocked) | Self::BlockedLater(blocked) => Some(*blocked),
            Self::Unreachable(_)
            | Self::Broken(_)
            | Self::TimedOut
            | Self::Cancelled
            | Self::TooManyEvents
            | Self::Redirected
            | Self::Status(_)
            | Self::TooLarge
            | Self::Nonsense(_)
            | Self::Refused(_)
            | Self::Version
            | Self::EndlessList
            | Self::Task(_)
            | Self::Permit
            | Self::SessionGone
            | Self::Sandbox(_)
            | Self::NotStarted(_)
            | Self::CrashLoop(_)
            | Self::Ended(_)
            | Self::TooMany => None,
        }
    }

    /// Whether the tool ran: `None` where nobody can know.
    #[must_use]
    pub fn executed(&self) -> Option<bool> {
        match self {
            Self::Unreachable(_)
            | Self::Blocked(_)
            | Self::Permit
            | Self::SessionGone
            | Self::Version
            | Self::EndlessList
            | Self::Sandbox(_)
            | Self::NotStarted(_)
            | Self::CrashLoop(_)
            | Self::TooMany => Some(false),
            // Whatever status a server shows, it may have run the tool first.
            Self::Broken(_)
            | Self::BlockedLater(_)
            | Self::Redirected
            | Self::TimedOut
            | Self::Cancelled
            | Self::TooManyEvents
            | Self::Status(_)
            | Self::TooLarge
            | Self::Nonsense(_)
            | Self::Ended(_)
            | Self::Refused(_)
            | Self::Task(_) => None,
        }
    }

    /// The code for the receipt.
    #[must_use]
    pub fn code(&self) -> ReasonCode {
        match self {
            Self::TimedOut => ReasonCode::ErrorTimeout,
            Self::Cancelled => ReasonCode::ErrorCancelled,
            Self::Sandbox(_) => ReasonCode::DenySandboxUnavailable,
            Self::Blocked(blocked) | Self::BlockedLater(blocked) => blocked.code(),
            Self::Unreachable(_)
            | Self::Broken(_)
            | Self::Redirected
            | Self::TooManyEvents
            | Self::Status(_)
            | Self::TooLarge
            | Self::Nonsense(_)
            | Self::Refused(_)
            | Self::Version
            | Self::EndlessList
            | Self::Task(_)
            | Self::Permit
            | Self::NotStarted(_)
            | Self::CrashLoop(_)
            | Self::Ended(_)
            | Self::TooMany
            | Self::SessionGone => ReasonCode::ErrorUpstream,
        }
    }
}
