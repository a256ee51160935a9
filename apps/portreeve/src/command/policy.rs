//! `policy`: finds mistakes without a gateway, explains decisions with what is known.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use policy::{Inventory, InventoryStore as _};
use serde_json::{Map, Value, json};
use store::Store;

use super::access::Access;
use super::check;
use super::output::{self, Form, cell};
use super::tool::{ToolArgument, tool_id};
use crate::config::{Config, Local};
use crate::wire_up::{facts, launcher_now};

#[derive(Subcommand)]
pub(super) enum Policy {
    /// Read all policies and look for mistakes; needs no gateway
    Check {
        /// Exit with 1 on warnings too
        #[arg(long)]
        strict: bool,
        #[command(flatten)]
        form: Form,
    },
    /// Show what would be decided of a call, and which policies say so
    Explain(Box<Explain>),
}

#[derive(clap::Args)]
pub(super) struct Explain {
    /// Who calls
    #[arg(long, value_name = "NAME")]
    sub: String,
    /// What kind of actor that is
    #[arg(long, value_name = "KIND", default_value = "agent", value_parser = ["user", "agent", "system"])]
    actor: String,
    /// How the caller proved it
    #[arg(long, value_name = "KIND", default_value = "token", value_parser = ["jwt", "token", "mtls"])]
    authn: String,
    /// A group of the caller; may be given several times
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// A claim of the caller; JSON, else text; may be given several times
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = claim)]
    claims: Vec<(String, Value)>,
    /// What is called
    #[arg(long, value_name = "SERVER/TOOL", value_parser = tool_id)]
    tool: ToolArgument,
    /// With which arguments
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// From where
    #[arg(long, value_name = "IP")]
    address: Option<std::net::IpAddr>,
    #[command(flatten)]
    form: Form,
}

impl Policy {
    pub(super) async fn run(self, config: Option<&Path>) -> anyhow::Result<ExitCode> {
        match self {
            Self::Check { strict, form } => look(config, strict, form),
            Self::Explain(explain) => {
                let config = check::load(config)?;
                let access = Access::open(&Local::from(&config)).await?;
                let done = explain.run(&access).await;
                access.close().await?;
                done.map(|()| ExitCode::SUCCESS)
            }
        }
    }
}

fn look(config: Option<&Path>, strict: bool, form: Form) -> anyhow::Result<ExitCode> {
    let config = match check::load(config) {
        Ok(config) => config,
        Err(faults) => {
            check::report("fault", faults.as_slice(), form)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let rules = &config.policy.rules;
    let warnings = rules.check_types(&known(&config)?);
    for warning in &warnings {
        let object = json!({ "level": "warning", "policy_id": warning.policy_id.as_ref(), "message": warning.message });
        match form.json {
            true => output::line(&object.to_string())?,
            false => output::line(&format!("warning: {}", output::printable(&warning.to_string())))?,
        }
    }
    let ours = config
        .warnings()
        .iter()
        .filter(|warning| warning.key.starts_with("policy."));
    check::report("warning", &ours.cloned().collect::<Vec<_>>(), form)?;
    output::note(&format!(
        "{} policies, {} warnings",
        rules.ids().count(),
        warnings.len()
    ));
    Ok(if strict && !warnings.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// What was discovered so far; nothing is made where no gateway ever ran.
fn known(config: &Config) -> anyhow::Result<Inventory> {
    let stored = match config.state.dir.join("state.db").exists() {
        true => Store::open(&config.state.dir)?.load()?,
        false => Vec::new(),
    };
    Ok(Inventory::assemble(
        &facts(&config.servers, launcher_now(&Local::from(config)).as_deref()),
        &stored,
        &|name, description| config.risk.of_tool(name, description),
    ))
}

impl Explain {
    async fn run(self, access: &Access) -> anyhow::Result<()> {
        let arguments: Value = serde_json::from_str(&self.args).context("--args is not JSON")?;
        let server = self.tool.server.clone();
        let claims: Map<String, Value> = self.claims.into_iter().collect();
        let mut question = json!({
            "principal": { "sub": self.sub, "actor": self.actor, "authn": self.authn, "groups": self.groups, "claims": claims },
            "server": self.tool.server,
            "tool": self.tool.name,
            "arguments": arguments,
        });
        if let (Some(address), Some(members)) = (self.address, question.as_object_mut()) {
            members.insert("address".to_owned(), address.to_string().into());
        }
        let explained = access.post("/policy/explain", &question).await?;
        if self.form.json {
            return output::line(&explained.to_string());
        }
        if let Some(note) = standing_note(&server, &cell(&explained, "/standing")) {
            output::note(&note);
        }
        let [decision, policy, code] = ["/decision", "/policy_id", "/reason_code"].map(|name| cell(&explained, name));
        output::line(&format!("{decision} by {} ({code})", output::printable(&policy)))?;
        if explained.get("visible") == Some(&Value::Bool(false)) {
            output::line(&format!(
                "the caller cannot see the tool and is told {}",
                cell(&explained, "/told_to_caller")
            ))?;
        }
        let policies = explained
            .get("policies")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let names = ["/policy_id", "/effect", "/finding", "/error"];
        let row = |policy: &Value| names.iter().map(|name| cell(policy, name)).collect();
        match policies.is_empty() {
            true => output::line("no policy is about this call"),
            false => output::table(&["policy", "effect", "finding", "error"], policies.iter().map(row)),
        }
    }
}

/// What a reader of an explanation has to know of the tool.
fn standing_note(server: &str, standing: &str) -> Option<String> {
    let note = match standing {
        "undiscovered" => format!(
            "`{server}` was not discovered yet; this is how policies judge the tool if it is offered, approved, and of the risk \
             you gave it, else `high`"
        ),
        "not_offered" => format!("`{server}` offers no such tool; see `portreeve tool list --server {server}`"),
        "disabled" => format!("the tool is disabled; see `portreeve tool enable '{server}/…'`"),
        "quarantined" => format!("the tool waits for approval; see `portreeve tool approve '{server}/*'`"),
        "server_not_configured" => format!("no server `{server}` is configured"),
        _ => return None,
    };
    Some(note)
}

fn claim(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "write NAME=VALUE".to_owned())?;
    Ok((
        name.to_owned(),
        serde_json::from_str(value).unwrap_or_else(|_| value.into()),
    ))
}
