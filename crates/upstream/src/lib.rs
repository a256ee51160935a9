//! Carries a permitted call to a server with that server's own credential, and brings back raw
//! bytes. Requests are built from nothing: this room cannot import `gateway`, so it has no name
//! for a client's token or a client's headers.
//!
//! ```compile_fail,E0432
//! use portreeve_gateway::edge::ClientToken; // there is no road from here to the client's token
//! ```
//!
//! ```
//! use portreeve_upstream::CredentialSource; // the only credentials this room can name
//! ```

// In the order of a call: the server it is for,
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
// and how all of it can fail.
mod failure;

pub use call::dispatch::{Dispatched, OutgoingRequest, PreparedCall, RawError, RawResult, SeenConfinement, prepare};
pub use call::observer::{
    NoObserver, Observer, RawNotification, RawParams, RawServerRequest, Reply, ServerEvent, Waiting,
};
pub use call::task::TaskMode;
pub use credentials::{CredentialSource, Reference, UpstreamCredential};
pub use discover::discover;
pub use failure::{Failure, TlsFault};
pub use http::wakes::{SuppressedWake, WakeFilter, suppress_wakes};
pub use list::{ListKind, Listed, RawEntry, list};
pub use listen::{Topics, listen};
pub use process::{AccessAttempt, OpenCall, PlanSource, ProcessMonitor, ProcessSlot, StderrDirectory};
pub use server::{Address, Caps, Isolation, Reach, Server, ServerSettings};
pub use session::era::EraSetting;
pub use session::{Guest, OwnStream, Owner, Relayed, SessionKey};
