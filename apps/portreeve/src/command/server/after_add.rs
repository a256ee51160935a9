//! What `server add` says when its work is done: whether the server answers, and what is left to do.

use std::time::{Duration, Instant};

use serde_json::Value;
use vocabulary::ServerId;

use crate::command::access::Access;
use crate::command::next_steps;
use crate::command::output::{self, cell};
use crate::config::{Config, Local};

/// How long a new server is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a running gateway has asked the new server; how it was found.
pub(super) async fn found(config: &Config, id: &ServerId) -> anyhow::Result<Value> {
    let access = Access::open(&Local::from(config)).await?;
    let began = Instant::now();
    let found = loop {
        let server = super::find(&access, id.as_str()).await?;
        if cell(&server, "/reach") != "unknown" || began.elapsed() > PATIENCE {
            break server;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    access.close().await?;
    Ok(found)
}

/// What is left to do, as far as is known.
pub(super) fn next(config: &Config, id: &ServerId) -> Vec<String> {
    let steps = next_steps::discovered(config).map(|inventory| next_steps::of_server(config, &inventory, id));
    steps.unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// Whether it answers, for people.
pub(super) fn tell(server: &Value) {
    match cell(server, "/reach").as_str() {
        "up" => output::note(&format!("it answers: {} tools", cell(server, "/tools"))),
        "down" => super::trouble::tell([server]),
        _ => output::note("it has not answered yet; see `portreeve server list`"),
    }
}
