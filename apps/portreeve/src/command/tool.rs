//! `tool`: what the servers offer, and the operator's word on it.

mod approve;
mod diff;

use std::process::ExitCode;

use clap::Subcommand;
use policy::ItemKind;
use serde_json::{Value, json};
use vocabulary::Risk;

use super::access::{Access, encoded};
use super::output::{self, Form, cell, flatten};
use crate::config::Local;
use approve::Approve;

#[derive(Subcommand)]
pub(super) enum Tool {
    /// List what servers offer, with risk, trust and standing
    List {
        /// Only what this server offers
        #[arg(long, value_name = "ID")]
        server: Option<String>,
        /// Only what waits for approval
        #[arg(long)]
        quarantined: bool,
        /// Only this kind: tool, prompt, resource, template or instructions
        #[arg(long, value_name = "KIND", value_parser = kind)]
        kind: Option<ItemKind>,
        #[command(flatten)]
        form: Form,
    },
    /// Show one in full, with its definition
    Show {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        form: Form,
    },
    /// Tell what changed in a definition since it was approved
    Diff {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        form: Form,
    },
    /// Approve definitions as they are now; what changed in them is told first
    Approve(Approve),
    /// Say how dangerous a tool is; the configuration file's word stands above this one
    Classify {
        #[arg(value_name = "SERVER/TOOL", value_parser = item_id)]
        tool: ItemArgument,
        /// low, medium, high or critical
        #[arg(long, value_name = "RISK", value_parser = risk)]
        risk: Risk,
        #[command(flatten)]
        form: Form,
    },
    /// Take something out of every list and deny its use
    Disable {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        form: Form,
    },
    /// Let something that was disabled be used again, as far as its pin does
    Enable {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        form: Form,
    },
}

/// Names one thing that a server offers.
#[derive(Clone, clap::Args)]
pub(super) struct Named {
    /// SERVER/NAME, SERVER/URI or SERVER/TEMPLATE; the server alone for its instructions
    #[arg(value_name = "ID", value_parser = item_id)]
    id: ItemArgument,
    /// tool, prompt, resource, template or instructions, where several share the id
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<ItemKind>,
}

impl Named {
    /// Where it is in the API; `act` is what is asked of it, such as `/diff`.
    fn path(&self, act: &str) -> String {
        let (server, name) = (
            encoded(&self.id.server),
            encoded(self.id.name.as_deref().unwrap_or(INSTRUCTIONS)),
        );
        let kind = match self.id.name {
            Some(_) => self.kind,
            None => Some(ItemKind::Instructions),
        };
        let query = kind.map_or_else(String::new, |kind| format!("?kind={kind}"));
        format!("/tools/{server}/{name}{act}{query}")
    }
}

/// `SERVER/NAME`; server ids hold no `/`, so the first one splits. A server alone stands for its instructions.
#[derive(Clone)]
pub(super) struct ItemArgument {
    server: String,
    name: Option<String>,
}

/// `SERVER/TOOL`.
#[derive(Clone)]
pub(super) struct ToolArgument {
    pub(super) server: String,
    pub(super) name: String,
}

impl Tool {
    pub(super) async fn run(self, config: &Local) -> anyhow::Result<ExitCode> {
        let access = Access::open(config).await?;
        let done = self.act(&access).await;
        access.close().await?;
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn act(self, access: &Access) -> anyhow::Result<()> {
        match self {
            Self::List {
                server,
                quarantined,
                kind,
                form,
            } => {
                let server = server.map(|server| format!("server={}", encoded(&server)));
                let standing = quarantined.then(|| "standing=quarantined".to_owned());
                let kind = kind.map(|kind| format!("kind={kind}"));
                let query: Vec<String> = server.into_iter().chain(standing).chain(kind).collect();
                list(access, &query.join("&"), form).await
            }
            Self::Show { named, form } => show(access, &named, form).await,
            Self::Diff { named, form } => diff::tell(access, &named, form).await,
            Self::Approve(approve) => approve.run(access).await,
            Self::Classify { tool, risk, form } => {
                let kind = Some(ItemKind::Tool);
                let body = json!({ "risk": risk.as_str() });
                order(access, &Named { id: tool, kind }, ("classify", body), form).await
            }
            Self::Disable { named, form } => order(access, &named, ("disable", json!({})), form).await,
            Self::Enable { named, form } => order(access, &named, ("enable", json!({})), form).await,
        }
    }
}

/// What the API lists.
async fn listed(access: &Access, query: &str) -> anyhow::Result<Vec<Value>> {
    let answer = access.get(&format!("/tools?{query}")).await?;
    let tools = answer.get("tools").and_then(Value::as_array);
    Ok(tools.cloned().unwrap_or_default())
}

async fn list(access: &Access, query: &str, form: Form) -> anyhow::Result<()> {
    let tools = listed(access, query).await?;
    if form.json {
        let texts: Vec<String> = tools.iter().map(ToString::to_string).collect();
        return output::lines(texts.iter().map(String::as_str));
    }
    let names = [
        "/id",
        "/kind",
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
            "id",
            "kind",
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

async fn show(access: &Access, named: &Named, form: Form) -> anyhow::Result<()> {
    let shown = access.get(&named.path("")).await?;
    match form.json {
        true => output::line(&shown.to_string()),
        false => output::sheet(&flatten(&shown)),
    }
}

/// Gives an order about one thing, and tells how it stands then.
async fn order(access: &Access, named: &Named, order: (&str, Value), form: Form) -> anyhow::Result<()> {
    let (word, body) = order;
    let now = access.post(&named.path(&format!("/{word}")), &body).await?;
    match form.json {
        true => output::line(&now.to_string()),
        false => output::line(&format!(
            "{} is {}, its risk is {}",
            output::printable(&cell(&now, "/id")),
            cell(&now, "/standing"),
            cell(&now, "/risk")
        )),
    }
}

fn risk(word: &str) -> Result<Risk, String> {
    Risk::parse(word).ok_or_else(|| "it is one of low, medium, high and critical".to_owned())
}

fn kind(word: &str) -> Result<ItemKind, String> {
    ItemKind::parse(word).ok_or_else(|| "it is one of tool, prompt, resource, template and instructions".to_owned())
}

fn item_id(text: &str) -> Result<ItemArgument, String> {
    match text.split_once('/') {
        Some((server, name)) if !server.is_empty() && !name.is_empty() => Ok(ItemArgument {
            server: server.to_owned(),
            name: Some(name.to_owned()),
        }),
        None if !text.is_empty() => Ok(ItemArgument {
            server: text.to_owned(),
            name: None,
        }),
        Some(_) | None => {
            Err("write SERVER/NAME, such as files/read_file, or a server for its instructions".to_owned())
        }
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

/// Stands in the path of the API for what has no name.
const INSTRUCTIONS: &str = "instructions";
