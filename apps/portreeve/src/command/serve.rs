//! `serve` and `demo`: thin calls, once the logs have a place to go.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::config::{Config, variable};
use crate::wire_up::ServeOptions;

#[derive(clap::Args)]
pub(super) struct Serve {
    /// Write {"mcp", "admin", "ca"} here once both listeners answer
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

impl Serve {
    pub(super) async fn run(self, config: Config) -> anyhow::Result<ExitCode> {
        start_logging("info");
        for warning in config.warnings() {
            tracing::warn!(key = warning.key, line = warning.line, "{}", warning.message);
        }
        for obstacle in config.obstacles() {
            tracing::error!(
                key = obstacle.key,
                line = obstacle.line,
                "{}; this server does not start",
                obstacle.message
            );
        }
        crate::wire_up::serve(
            config,
            ServeOptions {
                ready_file: self.ready_file,
            },
        )
        .await?;
        Ok(ExitCode::SUCCESS)
    }
}

pub(super) async fn demo() -> anyhow::Result<ExitCode> {
    start_logging("warn");
    crate::demo::run().await?;
    Ok(ExitCode::SUCCESS)
}

/// Logs go to standard error, as text or (`PORTREEVE_LOG_FORMAT=json`) as JSON; `PORTREEVE_LOG` says how much.
pub(super) fn start_logging(level: &str) {
    let filter = EnvFilter::try_new(variable("PORTREEVE_LOG").unwrap_or_default());
    let filter = match (variable("PORTREEVE_LOG"), filter) {
        (Some(_), Ok(filter)) => filter,
        (Some(_), Err(_)) | (None, _) => EnvFilter::new(level),
    };
    let colour = std::io::stderr().is_terminal() && variable("NO_COLOR").is_none();
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour);
    // An error means that logging has begun already.
    let _ = match variable("PORTREEVE_LOG_FORMAT").as_deref() {
        Some("json") => logging.json().try_init(),
        Some(_) | None => logging.try_init(),
    };
}
