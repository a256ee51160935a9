//! What the tests stand on: a gateway process, a wire with every byte under control, and the parties around it.

pub mod agent;
pub mod certificates;
pub mod environment;
pub mod front;
pub mod gateway;
pub mod harbour;
pub mod issuer;
pub mod modern;
pub mod peer;
pub mod records;
pub mod server;
pub mod setup;
pub mod stand;
pub mod stream;
pub mod town;
pub mod wire;
pub mod workshop;

pub use agent::{Agent, Answer};
pub use front::Front;
pub use gateway::Gateway;
pub use harbour::Harbour;
pub use issuer::Issuer;
pub use modern::Modern;
pub use peer::{Beat, Peer, Speaks, Turn};
pub use server::{Act, Server, tool};
pub use setup::Setup;
pub use stand::Stand;
pub use town::Town;
pub use wire::{Ask, Reply};

/// Asks again until the answer is yes; fails the test when it stays no.
pub async fn eventually(what: &str, seconds: u64, holds: impl AsyncFn() -> bool) {
    let began = std::time::Instant::now();
    while !holds().await {
        assert!(began.elapsed().as_secs() < seconds, "not within {seconds} s: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
