//! Lets operators see and steer: the admin API on a listener of its own, with credentials of its own.
//! It reaches the gateway through state (tokens, pins, snapshots), never by calling it; what it needs is
//! declared in [`ports`] and connected by the app. Every change and every refusal leaves an `admin` record.

mod answer;
mod api;
mod authenticate;
mod flood;
mod openapi;
mod plane;
pub mod ports;
mod rate;

pub use authenticate::{
    ADMIN_PREFIX, AGENT_PREFIX, FIRST_ADMIN, MintedToken, Operator, mint_admin_token, mint_agent_token,
};
pub use openapi::document as openapi_document;
pub use plane::{ControlPlane, HostRule};
