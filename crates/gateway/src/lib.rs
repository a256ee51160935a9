//! Walks one call through the stages, in order: identify, parse, resolve, preflight, decide,
//! credential, dispatch, screen, record, reply. [`answer`] reads as the table of contents.

pub mod answer;
mod asked;
mod bell;
mod cache;
mod call;
mod carry;
mod case;
mod chokepoint;
mod client;
mod converse;
mod dialogue;
pub mod edge;
mod errand;
mod escort;
mod gather;
mod intake;
mod introduce;
mod leaving;
mod list;
mod modern;
mod note;
mod outlet;
mod parked;
mod question;
mod read_cache;
mod reply;
mod route;
mod seal;
mod session;
mod streams;
mod subscribe;
mod subscription;
mod tasks;
mod town;
mod track;
mod unstoppable;

pub use answer::Gateway;
pub use cache::cache_key;
pub use edge::authenticate::Identified;
pub use outlet::ReplyBody;
pub use reply::{Answer, Prepared, release};
pub use route::ROUTES;
pub use streams::StaleServers;
pub use town::{ArgumentSecrets, Limits, ServerState, Town, TownPlan};
