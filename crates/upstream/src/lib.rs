//! Carries a permitted call to a server with that server's own credential, and brings back raw
//! bytes. Requests are built from nothing: this room cannot import `gateway`, so it has no name
//! for a client's token or a client's headers.
//!
//! ```compile_fail,E0433
//! use portreeve_gateway::edge::ClientToken; // there is no road from here to the client's token
//! ```
//!
//! ```
//! use portreeve_upstream::CredentialSource; // the only credentials this room can name
//! ```

// In the order of a call: the server it is for, and what it may cost us,
mod caps;
mod server;
// that server's own credential,
mod credentials;
// the call itself,
mod call;
// the session it is made in,
mod session;
// and what it travels over.
mod http;
mod process;
// What is asked of a server beside calls,
mod discover;
mod list;
mod listen;
// how all of it can fail, and how it is waited for.
mod failure;
mod waiting;

pub use call::answer::{Dispatched, RawError, RawResult};
pub use call::confinement::SeenConfinement;
pub use call::dispatch::{OutgoingRequest, PreparedCall, RoundInput, RoundPermit, prepare};
pub use call::observer::{NoObserver, Observer, RawNotification, RawParams, RawServerRequest, Reply, ServerEvent};
pub use call::task::TaskMode;
pub use caps::Caps;
pub use credentials::token_endpoint::{Asking, NoAnswer, TokenAnswer, TokenClient, TokenEndpoint, TokenForm};
pub use credentials::{
    Behalf, CredentialEpoch, CredentialSource, Grant, GrantSettings, InboundCredential, Origin, OriginKind, Reference,
    Unavailable, UpstreamCredential,
};
pub use discover::{discover, discover_items};
pub use failure::{Blocked, Failure, TlsFault};
pub use http::address::{Address, ClientIdentity};
pub use http::connections::bound_connections;
pub use http::wakes::{SuppressedWake, WakeFilter, suppress_wakes};
pub use list::{Cut, ListKind, Listed, RawEntry, list};
pub use listen::{Topics, listen};
pub use process::files::{Files, Grounds, GroundsSource, Maker};
pub use process::monitor::{AccessAttempt, ProcessMonitor};
pub use process::open_calls::OpenCall;
pub use process::stderr::StderrDirectory;
pub use process::trace::ProcessTrace;
pub use process::{PlanSource, ProcessSlot};
pub use server::{EraSetting, Isolation, Reach, Server, ServerSettings};
pub use session::guest::{Guest, OwnStream, Owner, Relayed, SessionKey};
pub use waiting::Waiting;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use process::fuzzing;
