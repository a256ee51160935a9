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

mod credentials;
mod discover;
mod dispatch;
mod failure;
mod http;
mod server;
mod session;

pub use credentials::{CredentialSource, Reference, UpstreamCredential};
pub use discover::discover;
pub use dispatch::{Departure, Dispatched, RawError, RawResult, dispatch};
pub use failure::{Failure, TlsFault};
pub use server::{Caps, Isolation, Server, ServerSettings};
pub use session::SessionKey;
