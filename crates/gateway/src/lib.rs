//! Walks one call through the stages, in order: identify, parse, resolve, preflight, decide, credential, dispatch, screen,
//! record, reply. `receive` and `call` read as the table of contents; the modules stand in the order of the flow, and
//! none imports one that leads back to it.

// A request comes in: who calls, and what is asked.
pub mod edge;
mod receive;
mod era;
mod session;
mod context;

// What it looks at, and what is kept between requests.
mod gateway;
mod snapshot;
mod offers;
mod state;

// What is done about it.
mod stages;
mod call;
mod list;
mod stream;
mod truncated;
mod events;

// What comes of it: screened, recorded, said.
mod screen;
mod outcome;
mod message;
mod reply;
mod delivery;

pub use edge::authenticate::AuthenticatedHead;
pub use edge::route::ROUTES;
pub use gateway::Gateway;
pub use message::pieces::Pieces;
pub use message::{Adapted, ClientMessage, Event, OwnResult};
pub use receive::{handle, record_unparsable};
pub use reply::body::{EventBody, ReplyBody};
pub use reply::{Answer, Prepared, release};
pub use screening::arguments::secrets::OutgoingPlace;
pub use snapshot::tool::input_fault;
pub use snapshot::{ArgumentSecrets, Limits, ServerFields, ServerState, Snapshot, SnapshotParts};
pub use state::approvals::{ApprovalAnswer, ApprovalLater, ApprovalQuestion, Approvals, NobodyToAsk};
pub use state::truncated::cache_key;
pub use stream::change::{StaleServers, hear_changes, stale_servers};
