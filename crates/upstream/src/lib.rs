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

mod companion;
mod credentials;
mod discover;
mod dispatch;
mod duplex;
mod era;
mod exchange;
mod failure;
mod http;
mod hush;
mod list;
mod listen;
mod message;
mod process;
mod server;
mod session;
mod standing;
mod task;
mod wire;

pub use companion::{Alone, Aside, Companion, Question, RawNotification, RawParams, Reply, Waiting};
pub use credentials::{CredentialSource, Reference, UpstreamCredential};
pub use discover::discover;
pub use dispatch::{Departure, Dispatched, Flight, RawError, RawResult, SeenWalls, embark};
pub use era::EraSetting;
pub use failure::{Failure, TlsFault};
pub use hush::{Hushable, ReadOn, hush};
pub use list::{ListKind, Listed, RawEntry, list};
pub use listen::{Topics, listen};
pub use process::{Berth, ComplaintBook, Drafts, OpenCase, Sighting, Watch};
pub use server::{Address, Caps, Isolation, Reach, Server, ServerSettings};
pub use session::{Guest, OwnStream, Owner, Relayed, SessionKey};
pub use task::TaskMode;
