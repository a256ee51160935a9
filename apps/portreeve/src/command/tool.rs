//! `tool`: what the servers offer, and the operator's word on it.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
use vocabulary::Risk;

use super::access::{Access, encoded};
use super::output::{self, Form, cell, flatten};
use crate::config::Local;

#[derive(Subcommand)]
pub(super) enum Tool {
    /// List tools with risk, trust and standing
    List {
        /// Only tools of this server
        #[arg(long, value_name = "ID")]
        server: Option<String>,
        /// Only tools that wait for approval
        #[arg(long)]
        quarantined: bool,
        #[command(flatten)]
        form: Form,
    },
    /// Show one tool with its definition
    Show {
        #[arg(value_name = "SERVER/TOOL", value_parser = tool_id)]
        tool: ToolArgument,
        #[command(flatten)]
        form: Form,
    },
    /// Approve a tool's definition as it is now, or with `SERVER/*` all of a server that wait
    Approve {
        #[arg(value_name = "SERVER/TOOL", value_parser = tool_id)]
        tool: ToolArgument,
        /// Only if the definition has this digest
        #[arg(long, value_name = "SHA256")]
        hash: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Say how dangerous a tool is; the configuration file's word stands above this one
    Classify {
        #[arg(value_name = "SERVER/TOOL", value_parser = tool_id)]
        tool: ToolArgument,
        /// low, medium, high or critical
        #[arg(long, value_name = "RISK", value_parser = risk)]
        risk: Risk,
        #[command(flatten)]
        form: Form,
    },
    /// Take a tool out of every list and deny its calls
    Disable {
        #[arg(value_name = "SERVER/TOOL", value_parser = tool_id)]
        tool: ToolArgument,
        #[command(flatten)]
        form: Form,
    },
    /// Let a disabled tool be used again, as far as its pin does
    Enable {
        #[arg(value_name = "SERVER/TOOL", value_parser = tool_id)]
        tool: ToolArgument,
        #[command(flatten)]
        form: Form,
    },
}

/// `SERVER/TOOL`; server ids hold no `/`, so the first one splits.
#[derive(Clone)]
pub(super) struct ToolArgument {
    pub(super) server: String,
    pub(super) name: String,
}

impl ToolArgument {
    fn path(&self) -> String {
        format!("/tools/{}/{}", encoded(&self.server), encoded(&self.name))
    }
}

impl Tool {
    pub(super) async fn run(self, config: &Local) -> anyhow::Result<ExitCode> {
        let access = Access::open(config).await?;
        let done = match self {
            Self::List {
                server,
                quarantined,
                form,
            } => list(&access, server.as_deref(), quarantined, form).await,
            Self::Show { tool, form } => show(&access, &tool, form).await,
            Self::Approve { tool, hash, form } if tool.name == "*" => approve_all(&access, &tool, hash, form).await,
            Self::Approve { tool, hash, form } => approve(&access, &tool, hash, form).await,
            Self::Classify { tool, risk, form } => {
                order(&access, &tool, ("classify", json!({ "risk": risk.as_str() })), form).await
            }
            Self::Disable { tool, form } => order(&access, &tool, ("disable", json!({})), form).await,
            Self::Enable { tool, form } => order(&access, &tool, ("enable", json!({})), form).await,
        };
        access.close().await?;
        done.map(|()| ExitCode::SUCCESS)
    }
}

async fn list(access: &Access, server: Option<&str>, quarantined: bool, form: Form) -> anyhow::Result<()> {
    let server = server.map(|server| format!("server={}", encoded(server)));
    let standing = quarantined.then(|| "standing=quarantined".to_owned());
    let query: Vec<String> = server.into_iter().chain(standing).collect();
    let answer = access.get(&format!("/tools?{}", query.join("&"))).await?;
    let tools = answer
        .get("tools")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if form.json {
        return output::lines(
            tools
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str),
        );
    }
    let names = [
        "/id",
        "/risk",
        "/trust",
        "/standing",
        "/cause",
        "/input_schema",
        "/output_schema",
    ];
    let row = |tool: &Value| names.iter().map(|name| cell(tool, name)).collect();
    output::table(
        &[
            "tool",
            "risk",
            "trust",
            "standing",
            "cause",
            "input schema",
            "output schema",
        ],
        tools.iter().map(row),
    )
}

async fn show(access: &Access, tool: &ToolArgument, form: Form) -> anyhow::Result<()> {
    let shown = access.get(&tool.path()).await?;
    match form.json {
        true => output::line(&shown.to_string()),
        false => output::sheet(&flatten(&shown)),
    }
}

async fn approve(access: &Access, tool: &ToolArgument, hash: Option<String>, form: Form) -> anyhow::Result<()> {
    let body = hash.map_or_else(|| json!({}), |hash| json!({ "definition_hash": hash }));
    let approved = access.post(&format!("{}/approve", tool.path()), &body).await?;
    match form.json {
        true => output::line(&approved.to_string()),
        false => output::line(&format!(
            "{} is approved as {}",
            cell(&approved, "/id"),
            cell(&approved, "/approved_hash")
        )),
    }
}

/// Gives an order about one tool, and tells how it stands then.
async fn order(access: &Access, tool: &ToolArgument, order: (&str, Value), form: Form) -> anyhow::Result<()> {
    let (word, body) = order;
    let now = access.post(&format!("{}/{word}", tool.path()), &body).await?;
    match form.json {
        true => output::line(&now.to_string()),
        false => output::line(&format!(
            "{} is {}, its risk is {}",
            cell(&now, "/id"),
            cell(&now, "/standing"),
            cell(&now, "/risk")
        )),
    }
}

fn risk(word: &str) -> Result<Risk, String> {
    Risk::parse(word).ok_or_else(|| "it is one of low, medium, high and critical".to_owned())
}

/// Approves every tool of a server that waits, each as it is listed now.
async fn approve_all(access: &Access, of: &ToolArgument, hash: Option<String>, form: Form) -> anyhow::Result<()> {
    anyhow::ensure!(hash.is_none(), "`--hash` is about one tool; name it");
    let servers = access.get("/servers").await?;
    let servers = servers.get("servers").and_then(Value::as_array);
    let is_known = servers.is_some_and(|servers| servers.iter().any(|server| cell(server, "/id") == of.server));
    anyhow::ensure!(is_known, "no server `{}` is configured", output::printable(&of.server));
    let path = format!("/tools?server={}&standing=quarantined", encoded(&of.server));
    let answer = access.get(&path).await?;
    let waiting = answer
        .get("tools")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if waiting.is_empty() {
        output::note(&format!("no tool of {} waits for approval", of.server));
    }
    let mut refused = 0;
    for tool in waiting {
        let one = ToolArgument {
            server: of.server.clone(),
            name: cell(&tool, "/name"),
        };
        // A definition that changes while this runs is another one, which nobody looked at.
        let seen = Some(cell(&tool, "/definition_hash"));
        if let Err(error) = approve(access, &one, seen, form).await {
            output::note(&format!("{}: {error}", cell(&tool, "/id")));
            refused += 1;
        }
    }
    anyhow::ensure!(refused == 0, "{refused} could not be approved");
    Ok(())
}

pub(super) fn tool_id(text: &str) -> Result<ToolArgument, String> {
    match text.split_once('/') {
        Some((server, name)) if !server.is_empty() && !name.is_empty() => Ok(ToolArgument {
            server: server.to_owned(),
            name: name.to_owned(),
        }),
        Some(_) | None => Err("write SERVER/TOOL, such as files/read_file".to_owned()),
    }
}
