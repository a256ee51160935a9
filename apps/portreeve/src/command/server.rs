//! `server`: the configured servers and how they were found last.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, encoded};
use super::output::{self, Form, cell, local_time};
use crate::config::Config;

#[derive(Subcommand)]
pub(super) enum Server {
    /// List configured servers
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Discover a server's tools again, now; needs a running gateway
    Refresh {
        /// The server's id
        id: String,
        #[command(flatten)]
        form: Form,
    },
}

impl Server {
    pub(super) async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let access = Access::open(config).await?;
        let done = match self {
            Self::List { form } => list(&access, form).await.map(|()| ExitCode::SUCCESS),
            Self::Refresh { id, form } => refresh(&access, &id, form).await,
        };
        access.close().await?;
        done
    }
}

async fn list(access: &Access, form: Form) -> anyhow::Result<()> {
    let answer = access.get("/servers").await?;
    let servers = answer
        .get("servers")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if form.json {
        return output::lines(
            servers
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str),
        );
    }
    output::table(&HEADING, servers.iter().map(row))
}

async fn refresh(access: &Access, id: &str, form: Form) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        access.is_running(),
        "no gateway runs; it discovers its servers when it starts"
    );
    let server = access
        .post(&format!("/servers/{}/refresh", encoded(id)), &json!({}))
        .await?;
    match form.json {
        true => output::line(&server.to_string())?,
        false => output::table(&HEADING, [row(&server)])?,
    }
    Ok(if cell(&server, "/reach") == "down" {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn row(server: &Value) -> Vec<String> {
    let words = ["/id", "/url", "/trust", "/reach", "/tools", "/quarantined"].map(|name| cell(server, name));
    words
        .into_iter()
        .chain([local_time(&cell(server, "/discovered")), cell(server, "/reason")])
        .collect()
}

const HEADING: [&str; 8] = [
    "id",
    "url",
    "trust",
    "reach",
    "tools",
    "quarantined",
    "discovered",
    "reason",
];
