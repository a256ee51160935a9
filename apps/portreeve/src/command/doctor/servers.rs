//! The servers, as far as `doctor` can tell: how a running gateway found them, else what keeps them from starting.

use serde_json::Value;

use super::findings::{Finding, finding};
use crate::command::access::Access;
use crate::command::server::trouble;
use crate::config::{Config, Local, Reach};
use crate::reach::whereabouts;

/// One finding for each server that has something the matter; one for all where none has.
pub(super) async fn of(config: &Config) -> Vec<Finding> {
    let (count, ill) = match asked(config).await {
        Some(servers) => (servers.len(), servers.iter().filter_map(of_asked).collect()),
        None => (config.servers.len(), of_written(config)),
    };
    match ill.is_empty() {
        true => vec![finding(
            "servers",
            Some(true),
            format!("{count} configured, none is known to fail"),
        )],
        false => ill,
    }
}

/// What a running gateway says of them; `None` where none runs.
async fn asked(config: &Config) -> Option<Vec<Value>> {
    whereabouts(&config.state.dir)?;
    let access = Access::open(&Local::from(config)).await.ok()?;
    let answer = match access.is_running() {
        true => access.get("/servers").await.ok(),
        false => None,
    };
    access.close().await.ok()?;
    answer?.get("servers")?.as_array().cloned()
}

fn of_asked(server: &Value) -> Option<Finding> {
    let told = trouble::lines(server);
    let first = told.first()?;
    let rest: Vec<&str> = told.iter().skip(1).map(|line| line.trim()).collect();
    let detail = match rest.is_empty() {
        true => first.clone(),
        false => format!("{first}; {}", rest.join("; ")),
    };
    Some(Finding {
        remedy: Some("see `portreeve server show ID` and `portreeve server refresh ID`"),
        ..finding("server", Some(false), detail)
    })
}

fn of_written(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    for (id, server) in &config.servers {
        if let Reach::Process(process) = &server.reach {
            let scripts = process.unreadable_scripts(id, &config.state.dir);
            let ill = scripts
                .into_iter()
                .map(|script| finding("server", Some(false), format!("{id}: {script}")));
            found.extend(ill);
        }
    }
    found
}
