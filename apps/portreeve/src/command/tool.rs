//! `tool`: what the servers offer, and the operator's word on it.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, encoded};
use super::output::{self, Form, cell, flatten};
use crate::config::Config;

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
    /// Approve a tool's definition as it is now
    Approve {
        #[arg(value_name = "SERVER/TOOL", value_parser = tool_id)]
        tool: ToolArgument,
        /// Only if the definition has this digest
        #[arg(long, value_name = "SHA256")]
        hash: Option<String>,
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
    pub(super) async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let access = Access::open(config).await?;
        let done = match self {
            Self::List {
                server,
                quarantined,
                form,
            } => list(&access, server.as_deref(), quarantined, form).await,
            Self::Show { tool, form } => show(&access, &tool, form).await,
            Self::Approve { tool, hash, form } => approve(&access, &tool, hash, form).await,
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
    let names = ["/id", "/risk", "/trust", "/standing", "/cause", "/output_schema"];
    let row = |tool: &Value| names.iter().map(|name| cell(tool, name)).collect();
    output::table(
        &["tool", "risk", "trust", "standing", "cause", "output schema"],
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

pub(super) fn tool_id(text: &str) -> Result<ToolArgument, String> {
    match text.split_once('/') {
        Some((server, name)) if !server.is_empty() && !name.is_empty() => Ok(ToolArgument {
            server: server.to_owned(),
            name: name.to_owned(),
        }),
        Some(_) | None => Err("write SERVER/TOOL, such as files/read_file".to_owned()),
    }
}
