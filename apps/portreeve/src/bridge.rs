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
use self::dispatch::Desk;
use self::endpoint::Place;
use self::forward::Relay;
use self::gateway_client::Exchange;
use self::stdio::{Printer, read_stdin};

/// Carries messages until standard input ends; to one server, or to all.
pub(crate) async fn run(
    credential: Credential,
    config: Option<&Path>,
    server: Option<&ServerId>,
) -> anyhow::Result<()> {
    let place = Place::find(config, server)?;
    let lines = read_stdin(place.longest_line())?;
    let printer = Printer::start()?;
    let relay = Relay::new(Exchange::new(place, credential), printer.out());
    Desk::new(relay).serve(lines).await;
    printer.finish().await;
    Ok(())
}
