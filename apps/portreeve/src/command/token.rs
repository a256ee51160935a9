//! `token`: agent tokens, shown once.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, encoded};
use super::output::{self, Form, cell, local_time};
use crate::config::{Local, units};

#[derive(Subcommand)]
pub(super) enum Token {
    /// Make an agent token and print it, this once
    Create(Create),
    /// List tokens, oldest first
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Take a token back, from the next request on
    Revoke {
        /// The token's id
        id: String,
        #[command(flatten)]
        form: Form,
    },
}

#[derive(clap::Args)]
pub(super) struct Create {
    /// Whom the token stands for
    #[arg(long, value_name = "NAME")]
    sub: String,
    /// What kind of actor that is
    #[arg(long, value_name = "KIND", default_value = "agent", value_parser = ["user", "agent", "system"])]
    actor: String,
    /// The client it is for
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// The organisation
    #[arg(long, value_name = "ID")]
    org: Option<String>,
    /// A group, as policies see it; may be given several times
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// A server it is good for; may be given several times [default: every server that policy allows]
    #[arg(long = "server", value_name = "ID")]
    servers: Vec<String>,
    /// How long it lasts: 90s, 15m, 1h, 7d
    #[arg(long, default_value = "1h", value_parser = duration)]
    ttl: Duration,
    #[command(flatten)]
    form: Form,
}

impl Token {
    pub(super) async fn run(self, config: &Local) -> anyhow::Result<ExitCode> {
        let access = Access::open(config).await?;
        let done = match self {
            Self::Create(create) => create.run(&access, config).await,
            Self::List { form } => list(&access, form).await,
            Self::Revoke { id, form } => revoke(&access, &id, form).await,
        };
        access.close().await?;
        done.map(|()| ExitCode::SUCCESS)
    }
}

impl Create {
    async fn run(self, access: &Access, config: &Local) -> anyhow::Result<()> {
        let mut body = json!({ "sub": self.sub, "actor": self.actor, "ttl_seconds": self.ttl.as_secs() });
        if let Some(members) = body.as_object_mut() {
            let text = |value: Option<String>| value.map(Value::from);
            let list = |values: Vec<String>| (!values.is_empty()).then(|| Value::from(values));
            let given = [
                ("client_id", text(self.client)),
                ("org_id", text(self.org)),
                ("groups", list(self.groups)),
                ("servers", list(self.servers)),
            ];
            members.extend(
                given
                    .into_iter()
                    .filter_map(|(name, value)| Some((name.to_owned(), value?))),
            );
        }
        let made = access.post("/tokens", &body).await?;
        if config.tokens_enabled == Some(false) {
            output::note("note: this configuration has `identity.tokens` switched off, so the token is not accepted");
        }
        match self.form.json {
            true => output::line(&made.to_string()),
            false => {
                output::line(&cell(&made, "/token"))?;
                let expires = local_time(&cell(&made, "/expires"));
                output::note(&format!(
                    "{} is good until {expires}; it is shown this once",
                    cell(&made, "/id")
                ));
                Ok(())
            }
        }
    }
}

async fn list(access: &Access, form: Form) -> anyhow::Result<()> {
    let answer = access.get("/tokens").await?;
    let tokens = answer
        .get("tokens")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if form.json {
        return output::lines(
            tokens
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str),
        );
    }
    let row = |token: &Value| {
        let words = [
            "/id",
            "/kind",
            "/sub",
            "/actor_type",
            "/groups",
            "/servers",
            "/standing",
        ]
        .map(|name| cell(token, name));
        words
            .into_iter()
            .chain([local_time(&cell(token, "/expires"))])
            .collect()
    };
    output::table(
        &["id", "kind", "sub", "actor", "groups", "servers", "standing", "expires"],
        tokens.iter().map(row),
    )
}

async fn revoke(access: &Access, id: &str, form: Form) -> anyhow::Result<()> {
    let token = access.delete(&format!("/tokens/{}", encoded(id))).await?;
    match form.json {
        true => output::line(&token.to_string()),
        false => output::line(&format!(
            "{} of {} is revoked",
            cell(&token, "/id"),
            output::printable(&cell(&token, "/sub"))
        )),
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    units::duration(text).ok_or_else(|| "write 90s, 15m, 1h or 7d".to_owned())
}
