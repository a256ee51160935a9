//! `connect`: a front on standard input and output for MCP clients that only spawn commands.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vocabulary::ServerId;

use super::{output, serve};
use crate::bridge::{self, Credential};

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
        bridge::run(credential, config, self.server.as_ref()).await?;
        Ok(ExitCode::SUCCESS)
    }
}

fn server_id(text: &str) -> Result<ServerId, String> {
    ServerId::parse(text).map_err(|fault| fault.to_string())
}
