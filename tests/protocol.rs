//! The protocol in both eras on both faces: bytes that must not change, and input that must do no harm.

mod batches;
mod cancellation;
mod eras;
mod extensions;
mod federation;
mod fidelity;
mod generate;
mod headers;
mod lists;
mod progress;
mod questions;
mod requests;
mod responses;
mod resumption;
mod rounds;
mod seen_through;
mod sessions;
mod streams;
mod subscriptions;
mod tasks;
