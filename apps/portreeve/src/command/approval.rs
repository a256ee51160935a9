//! `approval`: what waits for a person, and their word on it. One at a time: there is no way to approve everything.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, Refused, encoded};
use super::output::{self, Form, cell, local_time, printable};
use crate::config::Local;

#[derive(Subcommand)]
pub(super) enum Approval {
    /// List approvals, newest first
    List {
        /// Only those that stand so
        #[arg(long, value_parser = ["pending", "approved", "denied", "expired", "used", "void"])]
        state: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Show one in full: who asks, for what, with which arguments, and what changed since the last time
    Show {
        /// The approval's id
        id: String,
        #[command(flatten)]
        form: Form,
    },
    /// Let exactly this call be made, once
    Approve(Word),
    /// Refuse exactly this call
    Deny(Word),
    /// Follow what begins to wait, and what becomes of it
    Watch {
        #[command(flatten)]
        form: Form,
    },
}

#[derive(clap::Args)]
pub(super) struct Word {
    /// The approval's id
    id: String,
    /// Why, for the record
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    form: Form,
}

impl Approval {
    pub(super) async fn run(self, config: &Local) -> anyhow::Result<ExitCode> {
        let access = Access::open(config).await?;
        let done = match self {
            Self::List { state, form } => list(&access, state.as_deref(), form).await,
            Self::Show { id, form } => show(&access, &id, form).await,
            Self::Approve(word) => word.say(&access, "approve").await,
            Self::Deny(word) => word.say(&access, "deny").await,
            Self::Watch { form } => return watch(config, access, form).await,
        };
        access.close().await?;
        match done {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error),
        }
    }
}

impl Word {
    async fn say(self, access: &Access, word: &str) -> anyhow::Result<()> {
        let body = json!({ "reason": self.reason });
        let path = format!("/approvals/{}/{word}", encoded(&self.id));
        let decided = access.post(&path, &body).await?;
        if self.form.json {
            return output::line(&decided.to_string());
        }
        output::line(&format!(
            "{} is {}: {}/{} for {}",
            cell(&decided, "/id"),
            cell(&decided, "/state"),
            cell(&decided, "/server"),
            printable(&cell(&decided, "/tool")),
            printable(&cell(&decided, "/principal")),
        ))
    }
}

async fn list(access: &Access, state: Option<&str>, form: Form) -> anyhow::Result<()> {
    let approvals = ask(access, state).await?;
    if form.json {
        let lines: Vec<String> = approvals.iter().map(ToString::to_string).collect();
        return output::lines(lines.iter().map(String::as_str));
    }
    let heading = [
        "id",
        "state",
        "who",
        "call",
        "risk",
        "arguments",
        "expires",
        "decided by",
    ];
    output::table(&heading, approvals.iter().map(row))
}

async fn ask(access: &Access, state: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let query = state.map(|state| format!("?state={state}")).unwrap_or_default();
    let mut answer = access.get(&format!("/approvals{query}")).await?;
    let approvals = answer.get_mut("approvals").map(Value::take);
    Ok(match approvals {
        Some(Value::Array(approvals)) => approvals,
        Some(_) | None => Vec::new(),
    })
}

fn row(approval: &Value) -> Vec<String> {
    let who = match cell(approval, "/client_id").as_str() {
        "" | "-" => cell(approval, "/principal"),
        client => format!("{} ({client})", cell(approval, "/principal")),
    };
    let arguments = match approval.get("arguments") {
        Some(arguments @ Value::Object(_)) => short(&arguments.to_string()),
        Some(_) | None => "-".to_owned(),
    };
    vec![
        cell(approval, "/id"),
        cell(approval, "/state"),
        printable(&who),
        format!("{}/{}", cell(approval, "/server"), printable(&cell(approval, "/tool"))),
        cell(approval, "/risk"),
        printable(&arguments),
        local_time(&cell(approval, "/expires")),
        printable(&cell(approval, "/decided_by")),
    ]
}

/// The beginning; `show` has all of it.
fn short(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.split_at(end).0),
    }
}

async fn show(access: &Access, id: &str, form: Form) -> anyhow::Result<()> {
    let approval = access.get(&format!("/approvals/{}", encoded(id))).await?;
    if form.json {
        return output::line(&approval.to_string());
    }
    output::sheet(&output::flatten(&approval))
}

/// Prints what waits, then every change of what is kept, until the command is ended or the gateway refuses.
async fn watch(config: &Local, access: Access, form: Form) -> anyhow::Result<ExitCode> {
    if !access.is_running() {
        access.close().await?;
        anyhow::bail!("no gateway runs, so there is nothing to follow");
    }
    let mut way = Some(access);
    let mut known: Vec<(String, String)> = Vec::new();
    let mut is_first = true;
    loop {
        let found = match way.take() {
            Some(access) => Some(access),
            None => Access::running(config).await?,
        };
        if let Some(access) = found {
            match ask(&access, None).await {
                Ok(approvals) => {
                    tell(&approvals, &known, is_first, form)?;
                    known = approvals.iter().map(standing).collect();
                    is_first = false;
                    way = Some(access);
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(_) => {}
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Oldest first; of what was there at the beginning only what waits.
fn tell(approvals: &[Value], known: &[(String, String)], is_first: bool, form: Form) -> anyhow::Result<()> {
    for approval in approvals.iter().rev() {
        let standing = standing(approval);
        if known.contains(&standing) || (is_first && standing.1 != "pending") {
            continue;
        }
        match form.json {
            true => output::line(&approval.to_string())?,
            false => output::line(&row(approval).join("  "))?,
        }
    }
    Ok(())
}

fn standing(approval: &Value) -> (String, String) {
    (cell(approval, "/id"), cell(approval, "/state"))
}

fn is_final(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<Refused>();
    refused.is_some_and(|refused| (400..500).contains(&refused.status))
}

const PAUSE: Duration = Duration::from_millis(500);
