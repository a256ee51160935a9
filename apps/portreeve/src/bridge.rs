//! A bridge between standard input and output and the gateway, for MCP clients that only spawn commands. It
//! forwards messages and judges none: every check is the gateway's, reached over Streamable HTTP like by any
//! client.

mod credential;
mod dispatch;
mod endpoint;
mod forward;
mod gateway_client;
mod in_flight;
mod message;
mod response;
mod session;
mod standalone_stream;
mod stdio;
mod tool_headers;

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
    let forwarder = Forwarder::new(GatewayClient::new(endpoint, credential), stdout.sender());
    Dispatcher::new(forwarder).serve(lines).await;
    stdout.finish().await;
    Ok(())
}
