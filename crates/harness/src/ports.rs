//! What the harness needs of the rest, as small traits; the app connects them to ledger, gateway and terminal.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use ledger::{AttemptClass, Event, RunReason, RunStatus};
use tokio::sync::watch;
use vocabulary::{Secret, ServerId};

/// Answers later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why something outside the harness did not do its work; nothing may go on that depends on it.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Unavailable {
    what: &'static str,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Unavailable {
    /// Says what did not work, and why.
    pub fn new(what: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            what,
            source: source.into(),
        }
    }
}

/// Writes records. What it announces has not happened before it returns.
pub trait Recorder: Send + Sync {
    /// Returns once the record is written.
    fn record(&self, event: Event) -> Later<'_, Result<(), Unavailable>>;
}

/// Makes tokens for runs and takes them back.
pub trait TokenIssuer: Send + Sync {
    /// Makes a token for one run of one agent.
    fn issue(&self, request: TokenRequest) -> Later<'_, Result<IssuedToken, Unavailable>>;

    /// Takes a token back, from the next request on.
    fn revoke(&self, id: String) -> Later<'_, Result<(), Unavailable>>;
}

/// What a token is to be good for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRequest {
    /// Whom it stands for.
    pub sub: String,
    /// The run it belongs to.
    pub run: String,
    /// The servers it opens.
    pub servers: Vec<ServerId>,
    /// How long it lasts.
    pub lasts: Duration,
}

/// A token, and where it is good.
#[derive(Debug)]
pub struct IssuedToken {
    /// Its name, by which it is revoked.
    pub id: String,
    /// The token.
    pub token: Secret,
    /// Where the gateway listens.
    pub address: SocketAddr,
    /// `http` or `https`.
    pub scheme: String,
    /// A name that the gateway answers to.
    pub host: String,
    /// The route.
    pub path: String,
    /// The certificate authority to trust.
    pub ca: Option<PathBuf>,
}

/// Whether a run is to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stop {
    /// It is.
    #[default]
    No,
    /// An agent that ran beside it failed: nothing is begun any more, but what applies a published output is finished.
    Beside,
    /// Whoever called does not want it any more.
    Caller,
}

impl Stop {
    /// Comes back when there is a reason to stop from `least` on. Whoever could give one may be gone; then nobody will.
    pub(crate) async fn from(least: Self, stop: &mut watch::Receiver<Self>) {
        let reached = |stop: &Self| match (least, stop) {
            (_, Self::Caller) | (Self::No | Self::Beside, Self::Beside) => true,
            (Self::Caller, Self::Beside) | (_, Self::No) => false,
        };
        if stop.wait_for(reached).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Hears how a run goes on, for people.
pub trait Progress: Send + Sync {
    /// Takes note. Must not block.
    fn tell(&self, step: Step);
}

/// A step of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// An agent was let go.
    Started {
        /// Who.
        agent: String,
    },
    /// A runtime was started.
    Attempt {
        /// Whose.
        agent: String,
        /// Which, from 1.
        number: u32,
        /// How many there may be.
        most: u32,
    },
    /// An attempt was judged.
    Judged {
        /// Whose.
        agent: String,
        /// Which.
        number: u32,
        /// What came of it.
        class: AttemptClass,
        /// How long it took.
        took: Duration,
    },
    /// An agent is done.
    Ended {
        /// Who.
        agent: String,
        /// What it came to.
        status: RunStatus,
        /// Why.
        reason: RunReason,
        /// How long all of it took.
        took: Duration,
    },
}

/// The harness's own environment: hooks get it, references name parts of it, a runtime gets none of it.
#[derive(Clone, Debug, Default)]
pub struct HostEnvironment(pub BTreeMap<String, Secret>);

impl HostEnvironment {
    /// A variable that is set and not empty.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&Secret> {
        self.0.get(name).filter(|value| !value.expose().is_empty())
    }
}
