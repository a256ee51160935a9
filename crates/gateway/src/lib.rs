//! Walks one call through the stages, in order: identify, parse, resolve, preflight, decide,
//! credential, dispatch, screen, record, reply. [`answer`] reads as the table of contents.

pub mod answer;
mod asked;
mod call;
mod converse;
pub mod edge;
mod intake;
mod list;
mod reply;
mod route;
mod session;
mod town;
mod unstoppable;

pub use answer::Gateway;
pub use edge::authenticate::Identified;
pub use reply::{Answer, Prepared, release};
pub use route::ROUTES;
pub use town::{Limits, ServerState, Town, TownPlan};
