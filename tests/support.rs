//! What the tests stand on: a gateway process, a wire with every byte under control, and the parties around it.

pub(crate) mod agent;
pub(crate) mod certificates;
pub(crate) mod environment;
pub(crate) mod front;
pub(crate) mod gateway;
pub(crate) mod harbour;
pub(crate) mod issuer;
pub(crate) mod left_behind;
pub(crate) mod modern;
pub(crate) mod peer;
pub(crate) mod records;
pub(crate) mod server;
pub(crate) mod setup;
pub(crate) mod stand;
pub(crate) mod stream;
pub(crate) mod token_endpoint;
pub(crate) mod town;
pub(crate) mod walk;
pub(crate) mod wire;
pub(crate) mod workshop;

pub(crate) use agent::{Agent, Answer};
pub(crate) use front::Front;
pub(crate) use gateway::Gateway;
pub(crate) use harbour::Harbour;
pub(crate) use issuer::Issuer;
pub(crate) use modern::Modern;
pub(crate) use peer::{Beat, Peer, Speaks, Turn};
pub(crate) use server::{Act, Server, tool};
pub(crate) use setup::Setup;
pub(crate) use stand::Stand;
pub(crate) use town::Town;
pub(crate) use wire::{Ask, Reply};

/// Asks again until the answer is yes; fails the test when it stays no. What takes a second on a quiet machine can take
/// many on a busy one: nobody is given up on within a minute, and a test that passes waits no longer for it.
pub(crate) async fn eventually(what: &str, seconds: u64, holds: impl AsyncFn() -> bool) {
    let (began, patience) = (std::time::Instant::now(), seconds.max(60));
    while !holds().await {
        assert!(began.elapsed().as_secs() < patience, "not within {patience} s: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
