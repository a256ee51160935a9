//! The path of a request through the gateway, in one process: requests go in by [`portreeve_gateway::handle`] without a
//! socket, servers are scripted on loopback, the log is a real one in a directory of its own.
//!
//! These tests rely on a process of their own, which `cargo nextest` gives each of them: the full disk of `ledger_disk`
//! is a limit on every file of the process.

#[cfg(test)]
mod path {
    // What the tests stand on.
    mod client;
    mod ending;
    mod ledger_disk;
    mod scripted_server;
    mod setup;

    // The stages, in order.
    mod identify;
    mod read;
    mod protocol;
    mod resolve;
    mod preflight;
    mod decide;
    mod dispatch;
    mod failures;
    mod screen;
    mod snapshots;

    // What a log that cannot be written means to each of them.
    mod unwritable;
    mod writable_again;
}
