//! `server`: the configured servers and how they were found last; adding one and taking one out.

mod add;
mod after_add;
mod lock;
mod remove;
mod show;
pub(super) mod trouble;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, encoded};
use super::output::{self, Form, cell, local_time};
use crate::config::{Config, Local, find_file};

#[derive(Subcommand)]
pub(super) enum Server {
    /// List configured servers
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Add a server to the configuration; a package is installed first
    Add(add::Add),
    /// Take a server out of the configuration, and its package off the disk; its workspace stays
    Remove(remove::Remove),
    /// Write down in servers.lock what every server is now
    Lock(lock::Lock),
    /// Write servers.lock and sign it
    Sign(lock::Sign),
    /// Check the signature of servers.lock, and whether the servers are what it says
    Verify(lock::Verify),
    /// Show one server in full
    Show {
        /// The server's id
        id: String,
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
    pub(super) async fn run(self, file: Option<&Path>) -> anyhow::Result<ExitCode> {
        let file = find_file(file)?;
        match self {
            Self::Add(add) => add.run(&file).await,
            Self::Remove(remove) => remove.run(&file).await,
            Self::Lock(lock) => lock.run(&file).await,
            Self::Sign(sign) => sign.run(&file).await,
            Self::Verify(verify) => verify.run(&file),
            Self::List { form } => with(&file, async |access, _| list(access, form).await).await,
            Self::Show { id, form } => {
                with(&file, async |access, config| {
                    show::show(access, config, &id, form).await
                })
                .await
            }
            Self::Refresh { id, form } => with(&file, async |access, _| refresh(access, &id, form).await).await,
        }
    }
}

/// Does something with the state of the gateway of this configuration.
async fn with(
    file: &Path,
    act: impl AsyncFnOnce(&Access, &Local) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let config = super::local(file)?;
    let access = Access::open(&config).await?;
    let done = act(&access, &config).await;
    access.close().await?;
    done
}

/// Makes a running gateway read its configuration again; whether one runs.
async fn reload(config: &Config) -> anyhow::Result<bool> {
    // A state directory that nobody made has no gateway, and asking must not make one.
    if !config.state.dir.exists() {
        return Ok(false);
    }
    let access = Access::open(&Local::from(config)).await?;
    let running = access.is_running();
    let done = match running {
        // The watch on the file may have come first.
        true => access
            .post("/reload", &json!({"only_if_changed": true}))
            .await
            .map(drop),
        false => Ok(()),
    };
    access.close().await?;
    done.map(|()| running)
}

/// What became of a change, for people.
fn told(running: bool) -> &'static str {
    match running {
        true => "the running gateway has read its configuration again",
        false => "no gateway runs; it will be there at the next start",
    }
}

async fn list(access: &Access, form: Form) -> anyhow::Result<ExitCode> {
    let answer = access.get("/servers").await?;
    let servers = answer
        .get("servers")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if form.json {
        let texts: Vec<String> = servers.iter().map(ToString::to_string).collect();
        output::lines(texts.iter().map(String::as_str))?;
    } else {
        output::table(&HEADING, servers.iter().map(row))?;
        trouble::tell(servers);
    }
    Ok(ExitCode::SUCCESS)
}

/// One server as the gateway, or the state directory, knows it.
async fn find(access: &Access, id: &str) -> anyhow::Result<Value> {
    let answer = access.get("/servers").await?;
    let servers = answer.get("servers").and_then(Value::as_array);
    let mut servers = servers.into_iter().flatten();
    let found = servers.find(|server| server.get("id").and_then(Value::as_str) == Some(id));
    match found {
        Some(server) => Ok(server.clone()),
        None => anyhow::bail!("no server `{}` is configured", output::printable(id)),
    }
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
        false => {
            output::table(&HEADING, [row(&server)])?;
            trouble::tell([&server]);
        }
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
