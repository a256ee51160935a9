//! `admin`: people who look, decide and steer, each with a token and a role of their own.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, encoded};
use super::output::{self, Form, cell, local_time, printable};
use super::token::duration;
use crate::config::Local;

#[derive(Subcommand)]
pub(super) enum Admin {
    /// Make an admin token for a person and print it, this once
    Create(Create),
    /// List admin tokens, oldest first
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Take an admin token back, from the next request on
    Revoke {
        /// The token's id
        id: String,
        #[command(flatten)]
        form: Form,
    },
}

#[derive(clap::Args)]
pub(super) struct Create {
    /// The person's name, as records show it
    #[arg(long)]
    name: String,
    /// What the person may do: look, also decide on approvals, also steer
    #[arg(long, value_parser = ["viewer", "approver", "operator"])]
    role: String,
    /// How long the token lasts: 90s, 15m, 1h, 7d
    #[arg(long, default_value = "90d", value_parser = duration)]
    ttl: Duration,
    #[command(flatten)]
    form: Form,
}

impl Admin {
    pub(super) async fn run(self, config: &Local) -> anyhow::Result<ExitCode> {
        let access = Access::open(config).await?;
        let done = match self {
            Self::Create(create) => create.run(&access).await,
            Self::List { form } => list(&access, form).await,
            Self::Revoke { id, form } => revoke(&access, &id, form).await,
        };
        access.close().await?;
        done.map(|()| ExitCode::SUCCESS)
    }
}

impl Create {
    async fn run(self, access: &Access) -> anyhow::Result<()> {
        let body = json!({ "name": self.name, "role": self.role, "ttl_seconds": self.ttl.as_secs() });
        let made = access.post("/admins", &body).await?;
        if self.form.json {
            return output::line(&made.to_string());
        }
        output::line(&cell(&made, "/token"))?;
        output::note(&format!(
            "{} of {}, {}, is good until {}; it is shown this once",
            cell(&made, "/id"),
            printable(&cell(&made, "/name")),
            cell(&made, "/role"),
            local_time(&cell(&made, "/expires"))
        ));
        Ok(())
    }
}

async fn list(access: &Access, form: Form) -> anyhow::Result<()> {
    let answer = access.get("/admins").await?;
    let admins = answer.get("admins").and_then(Value::as_array);
    let admins = admins.map(Vec::as_slice).unwrap_or_default();
    if form.json {
        let lines: Vec<String> = admins.iter().map(ToString::to_string).collect();
        return output::lines(lines.iter().map(String::as_str));
    }
    let row = |admin: &Value| {
        let words = ["/id", "/name", "/role", "/standing"].map(|name| cell(admin, name));
        let expires = local_time(&cell(admin, "/expires"));
        words.into_iter().chain([expires]).collect()
    };
    output::table(&["id", "name", "role", "standing", "expires"], admins.iter().map(row))
}

async fn revoke(access: &Access, id: &str, form: Form) -> anyhow::Result<()> {
    let admin = access.delete(&format!("/admins/{}", encoded(id))).await?;
    match form.json {
        true => output::line(&admin.to_string()),
        false => {
            let name = cell(&admin, "/name");
            output::line(&format!("{} of {} is revoked", cell(&admin, "/id"), printable(&name)))
        }
    }
}
