//! `connect`: a front on standard input and output for MCP clients that only spawn commands. It carries
//! messages and judges none: every check is the gateway's, reached over Streamable HTTP like by any client.

mod answer;
mod credential;
mod desk;
mod events;
mod exchange;
mod flights;
mod lines;
mod listen;
mod marks;
mod message;
mod place;
mod relay;
mod session;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vocabulary::ServerId;

use self::credential::Credential;
use self::desk::Desk;
use self::exchange::Exchange;
use self::lines::{Printer, read_stdin};
use self::place::Place;
use self::relay::Relay;
use super::{output, serve};

#[derive(clap::Args)]
pub(super) struct Connect {
    /// One server, its names unchanged [default: all servers, with names like server__tool]
    #[arg(long, value_name = "ID", value_parser = server_id)]
    server: Option<ServerId>,
    /// A file with the token, read again when the gateway refuses it [default: PORTREEVE_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Connect {
    pub(super) async fn run(self, config: Option<&Path>) -> anyhow::Result<ExitCode> {
        serve::start_logging("info");
        let credential = match Credential::find(self.token_file) {
            Ok(credential) => credential,
            Err(missing) => {
                output::note(&format!("error: {missing}"));
                return Ok(ExitCode::from(2));
            }
        };
        let place = Place::find(config, self.server.as_ref())?;
        let lines = read_stdin(place.longest_line())?;
        let printer = Printer::start()?;
        let relay = Relay::new(Exchange::new(place, credential), printer.out());
        Desk::new(relay).serve(lines).await;
        printer.finish().await;
        Ok(ExitCode::SUCCESS)
    }
}

fn server_id(text: &str) -> Result<ServerId, String> {
    ServerId::parse(text).map_err(|fault| fault.to_string())
}
