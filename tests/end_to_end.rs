//! What the product promises, shown by the shipped binary over real sockets.

mod activity;
mod certificates;
mod configuration;
mod connect;
mod control;
mod demo;
mod discovery;
mod doctor;
mod edge;
mod full_disk;
mod harness;
mod identity;
mod inventory;
mod ledger;
mod limits;
pub(crate) mod packages;
mod policy;
mod preflight;
mod readme;
mod receipts;
mod results;
mod sessions;
mod shutdown;
mod start_up;
mod stdio;
mod tls;
mod tokens;
