//! A bridge between standard input and output and the gateway, for MCP clients that only spawn commands. It
//! forwards messages and judges none: every check is the gateway's, reached over Streamable HTTP like by any
//! client.
//!
//! The modules stand in the order of their imports: each knows only those above it.

// The client's side: lines, and the messages in them.
mod stdio;
#[cfg(feature = "fuzzing")]
pub use stdio::stdin_lines;

mod message;

// The gateway's side: where it is, who we are there, one exchange, what it answered.
mod endpoint;

mod credential;

mod gateway_client;

mod response;

// What is remembered between messages.
mod session;

mod tool_headers;

mod in_flight;

// From the gateway to the client, and from the client to the gateway.
mod deliver;

mod standalone_stream;

mod forward;

mod dispatch;

use std::path::Path;

use vocabulary::ServerId;

pub(crate) use self::credential::Credential;
use self::dispatch::Dispatcher;
use self::endpoint::Endpoint;
use self::forward::Forwarder;
use self::gateway_client::GatewayClient;
use self::stdio::{StdoutWriter, read_stdin};

/// Forwards messages until standard input ends; to one server, or to all.
pub(crate) async fn run(
    credential: Credential,
    config: Option<&Path>,
    server: Option<&ServerId>,
) -> anyhow::Result<()> {
    let endpoint = Endpoint::find(config, server)?;
    let lines = read_stdin(endpoint.max_request_bytes())?;
    let stdout = StdoutWriter::start()?;
    let client = GatewayClient::new(endpoint, credential);
    let forwarder = Forwarder::new(client, stdout.sender());
    Dispatcher::new(forwarder, stdout.sender()).serve(lines).await;
    stdout.finish().await;
    Ok(())
}
