//! Hostile clients and hostile servers, each trying one thing.

mod caps;
mod credentials;
mod messages;
mod passthrough;
mod planted;
mod revocation;
mod sandbox;
mod servers;
mod streams;
mod tenants;
