//! `incident`: stop what is dangerous, at once; see what is stopped; let it go on.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, encoded};
use super::output::{self, Form, cell, local_time, printable};
use crate::config::Local;
use crate::wire_up::INCIDENT_FILE;

#[derive(Subcommand)]
pub(super) enum Incident {
    /// Start one: it denies at once
    Start(Start),
    /// What is on
    Status {
        #[command(flatten)]
        form: Form,
    },
    /// End one; with `two_person_end` a second person has to say so too
    End {
        /// The incident's id
        id: String,
        /// Why, for the record
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        form: Form,
    },
}

#[derive(clap::Args)]
pub(super) struct Start {
    /// How much is still allowed: all but dangerous calls without a person's word, only low risk, nothing
    #[arg(long, default_value = "contain", value_parser = ["heightened", "contain", "lockdown"])]
    stage: String,
    /// Of what: all, server:ID, tool:SERVER/NAME, principal:SUB, client:ID, risk:low|medium|high|critical
    #[arg(long, default_value = "all")]
    scope: String,
    /// Why, for the record
    #[arg(long)]
    reason: String,
    /// When it ends by itself: 90s, 15m, 1h, 7d
    #[arg(long)]
    ttl: Option<String>,
    #[command(flatten)]
    form: Form,
}

impl Incident {
    pub(super) async fn run(self, config: &Local) -> anyhow::Result<ExitCode> {
        let access = match Access::open(config).await {
            Ok(access) => access,
            Err(error) => {
                return match self {
                    Self::Start(start) => start.by_file(config, &error),
                    Self::Status { .. } | Self::End { .. } => Err(error),
                };
            }
        };
        let done = match self {
            Self::Start(start) => start.run(&access).await,
            Self::Status { form } => status(&access, form).await,
            Self::End { id, reason, form } => end(&access, (&id, &reason), form).await,
        };
        access.close().await?;
        done.map(|()| ExitCode::SUCCESS)
    }
}

impl Start {
    async fn run(self, access: &Access) -> anyhow::Result<()> {
        let body = json!({ "stage": self.stage, "scope": self.scope, "reason": self.reason, "ttl": self.ttl });
        let started = access.post("/incidents", &body).await?;
        if self.form.json {
            return output::line(&started.to_string());
        }
        output::line(&format!(
            "{} is on: {} of {}",
            cell(&started, "/id"),
            cell(&started, "/stage"),
            printable(&cell(&started, "/scope"))
        ))
    }

    /// Where the gateway does not answer, the file that it looks for says the same, as far as a file can.
    fn by_file(self, config: &Local, error: &anyhow::Error) -> anyhow::Result<ExitCode> {
        let file = config.state.dir.join(INCIDENT_FILE);
        if (self.stage.as_str(), self.scope.as_str(), &self.ttl) != ("contain", "all", &None) {
            anyhow::bail!(
                "{error:#}; a gateway that does not answer takes `contain` of all alone: without --stage, --scope and --ttl this \
                 command leaves it the file `{}`",
                file.display()
            );
        }
        let aside = config.state.dir.join(format!("{INCIDENT_FILE}.new"));
        std::fs::write(&aside, &self.reason)?;
        std::fs::rename(&aside, &file)?;
        output::note(&format!(
            "the gateway does not answer ({error:#}), so it is left the file `{}`",
            file.display()
        ));
        output::note("it denies from the moment it reads that; look with `portreeve incident status`");
        Ok(ExitCode::SUCCESS)
    }
}

async fn status(access: &Access, form: Form) -> anyhow::Result<()> {
    let answer = access.get("/incidents").await?;
    let incidents = answer.get("incidents").and_then(Value::as_array);
    let incidents = incidents.map(Vec::as_slice).unwrap_or_default();
    if form.json {
        let lines: Vec<String> = incidents.iter().map(ToString::to_string).collect();
        return output::lines(lines.iter().map(String::as_str));
    }
    let row = |incident: &Value| {
        vec![
            cell(incident, "/id"),
            cell(incident, "/stage"),
            printable(&cell(incident, "/scope")),
            printable(&cell(incident, "/reason")),
            local_time(&cell(incident, "/started")),
            local_time(&cell(incident, "/expires")),
            printable(&cell(incident, "/end_wanted_by")),
        ]
    };
    let heading = ["id", "stage", "scope", "reason", "started", "expires", "end wanted by"];
    output::table(&heading, incidents.iter().map(row))
}

async fn end(access: &Access, (id, reason): (&str, &str), form: Form) -> anyhow::Result<()> {
    let path = format!("/incidents/{}/end", encoded(id));
    let ended = access.post(&path, &json!({ "reason": reason })).await?;
    if form.json {
        return output::line(&ended.to_string());
    }
    let what = match ended.get("ended") == Some(&Value::Bool(true)) {
        true => "is over",
        false => "goes on until a second person ends it too",
    };
    output::line(&format!("{} {what}", cell(&ended, "/id")))
}
