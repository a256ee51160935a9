//! Walks one call through the stages, in order: identify, parse, resolve, preflight, decide,
//! credential, dispatch, screen, record, reply. [`receive`] reads as the table of contents.

pub mod edge;
pub mod receive;
mod era;
mod session;
mod context;
mod snapshot;
mod call;
mod list;
mod stream;
mod truncated;
mod events;
mod screen;
mod outcome;
mod reply;
mod state;

pub use edge::authenticate::Identified;
pub use edge::route::ROUTES;
pub use receive::Gateway;
pub use reply::pieces::Pieces;
pub use reply::stream::ReplyBody;
pub use reply::{Answer, Prepared, release};
pub use snapshot::{ArgumentSecrets, Limits, ServerState, Snapshot, SnapshotParts};
pub use state::truncated::cache_key;
pub use stream::standing::StaleServers;
