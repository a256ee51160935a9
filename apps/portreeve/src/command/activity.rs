//! `activity`: the log, listed, shown, followed and exported. Records are printed exactly as stored.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
use vocabulary::{Clock, Timestamp};

use super::access::{Access, Page, encoded, page};
use super::output::{self, Form, cell, flatten, local_time};
use crate::config::{Local, units};

mod csv;
mod summary;
mod watch;

#[derive(Subcommand)]
pub(super) enum Activity {
    /// List records, newest first
    List {
        #[command(flatten)]
        filter: Filter,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
        #[command(flatten)]
        form: Form,
    },
    /// Show one record with every field
    Show {
        /// A receipt id, or a record's place in the log
        id: String,
        /// The arguments that were kept for it (`[audit] record_arguments`), for operators
        #[arg(long, conflicts_with = "result")]
        arguments: bool,
        /// The answer that was kept for it (`[audit] record_results`), for operators
        #[arg(long)]
        result: bool,
        #[command(flatten)]
        form: Form,
    },
    /// Destroy what was kept of a request's arguments and answer; its record stays
    Erase {
        /// A receipt id, or a record's place in the log
        id: String,
        /// Why; it is recorded
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        form: Form,
    },
    /// Sum up requests: how many, what came of them, how long they took
    Summary {
        #[command(flatten)]
        filter: Filter,
        /// A line for each of these
        #[arg(long, value_parser = summary::by())]
        by: Option<String>,
        /// A line for each stretch of this length: whole minutes (15m, 1h, 1d)
        #[arg(long, value_name = "DURATION", value_parser = summary::bucket)]
        bucket: Option<u32>,
        #[command(flatten)]
        form: Form,
    },
    /// Make the index of the log anew
    Reindex {
        #[command(flatten)]
        form: Form,
    },
    /// Follow the log of a running gateway, also while it is restarted
    Watch {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        form: Form,
    },
    /// Export records, oldest first
    Export {
        #[command(flatten)]
        filter: Filter,
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
    },
}

/// Which records are wanted.
#[derive(clap::Args)]
pub(super) struct Filter {
    /// Type of the record
    #[arg(long = "type", value_name = "TYPE", value_parser = TYPES)]
    kind: Option<String>,
    /// What came of it
    #[arg(long, value_parser = control::ports::STATUSES)]
    status: Option<String>,
    /// Server id
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Tool name
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// `sub` of the caller
    #[arg(long, value_name = "SUB")]
    principal: Option<String>,
    /// Session id, or its digest as records have it
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Harness run
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Not older than this: an RFC 3339 time, or how long ago (15m, 7d)
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Not newer than this
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
}

/// What an export looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Format {
    /// One record per line, exactly as stored
    Jsonl,
    /// A table with the most asked-for fields
    Csv,
}

impl Activity {
    pub(super) async fn run(self, config: &Local) -> anyhow::Result<ExitCode> {
        let access = Access::open(config).await?;
        let done = match self {
            Self::List { filter, limit, form } => list(&access, &filter, limit, form).await,
            Self::Show {
                id,
                arguments: true,
                form,
                ..
            } => kept(&access, &id, "arguments", form).await,
            Self::Show {
                id, result: true, form, ..
            } => kept(&access, &id, "result", form).await,
            Self::Show { id, form, .. } => show(&access, &id, form).await,
            Self::Erase { id, reason, form } => erase(&access, &id, &reason, form).await,
            Self::Summary {
                filter,
                by,
                bucket,
                form,
            } => {
                let arrangement = summary::Arrangement { by, bucket };
                summary::print(&access, &filter, &arrangement, form).await
            }
            Self::Reindex { form } => reindex(&access, form).await,
            Self::Watch { filter, form } => return watch::follow(config, access, &filter, form).await,
            Self::Export { filter, format } => export(&access, &filter, format).await,
        };
        access.close().await?;
        done.map(|()| ExitCode::SUCCESS)
    }
}

async fn list(access: &Access, filter: &Filter, limit: u64, form: Form) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let (mut left, mut before, mut is_behind) = (limit, None, false);
    while left > 0 {
        let body = access.get_raw(&filter.path("before", before, left.min(PAGE))).await?;
        let Page {
            records: page,
            index_behind,
        } = page(&body)?;
        is_behind |= index_behind;
        match form.json {
            true => output::lines(page.iter().map(|record| record.get()))?,
            false => rows.extend(page.iter().map(|record| row(&parsed(record.get())))),
        }
        let count = u64::try_from(page.len()).unwrap_or(u64::MAX);
        before = page.last().map(|record| seq(record.get()));
        if count < left.min(PAGE) {
            break;
        }
        left = left.saturating_sub(count);
    }
    if !form.json {
        output::table(&HEADING, rows)?;
    }
    tell_if_behind(is_behind);
    Ok(())
}

/// What is missing is told beside what is there.
fn tell_if_behind(is_behind: bool) {
    if is_behind {
        output::note(
            "the index of the log is behind: the newest records may be missing here. Make room on the disk of the state \
             directory; the log itself is whole and can be read in `ledger/`",
        );
    }
}

async fn show(access: &Access, id: &str, form: Form) -> anyhow::Result<()> {
    let body = access.get_raw(&format!("/activity/{}", encoded(id))).await?;
    let record = String::from_utf8(body)?;
    match form.json {
        true => output::line(&record),
        false => output::sheet(&flatten(&serde_json::from_str(&record)?)),
    }
}

/// What was kept beside a record.
async fn kept(access: &Access, id: &str, what: &str, form: Form) -> anyhow::Result<()> {
    let kept = String::from_utf8(access.get_raw(&format!("/activity/{}/{what}", encoded(id))).await?)?;
    match form.json {
        true => output::line(&kept),
        false => output::sheet(&flatten(&serde_json::from_str(&kept)?)),
    }
}

async fn erase(access: &Access, id: &str, reason: &str, form: Form) -> anyhow::Result<()> {
    let path = format!("/activity/{}/erase", encoded(id));
    let answer = access.post(&path, &json!({"reason": reason})).await?;
    match form.json {
        true => output::line(&answer.to_string()),
        false => output::line(&format!(
            "what was kept for {} is gone; its record stays",
            cell(&answer, "/id")
        )),
    }
}

async fn reindex(access: &Access, form: Form) -> anyhow::Result<()> {
    let answer = access.post("/activity/reindex", &json!({})).await?;
    match form.json {
        true => output::line(&answer.to_string()),
        false => output::line(&format!("{} records are in the index", cell(&answer, "/records"))),
    }
}

async fn export(access: &Access, filter: &Filter, format: Format) -> anyhow::Result<()> {
    if format == Format::Csv {
        output::line(&csv::heading())?;
    }
    let mut after = 0;
    loop {
        let body = access.get_raw(&filter.path("after", Some(after), PAGE)).await?;
        let Page {
            records: page,
            index_behind,
        } = page(&body)?;
        match format {
            Format::Jsonl => output::lines(page.iter().rev().map(|record| record.get()))?,
            Format::Csv => {
                let rows: Vec<String> = page
                    .iter()
                    .rev()
                    .map(|record| csv::row(&parsed(record.get())))
                    .collect();
                output::lines(rows.iter().map(String::as_str))?;
            }
        }
        let Some(newest) = page.first() else {
            tell_if_behind(index_behind);
            return Ok(());
        };
        after = seq(newest.get());
    }
}

impl Filter {
    /// The listing's path, with one bound on the place in the log.
    fn path(&self, bound: &str, seq: Option<u64>, limit: u64) -> String {
        let further = [
            (bound, seq.map(|seq| seq.to_string())),
            ("limit", Some(limit.to_string())),
        ];
        format!("/activity?{}", self.query(&further))
    }

    /// The query that narrows a listing or a summary, and what else it has.
    fn query(&self, further: &[(&str, Option<String>)]) -> String {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let parts = [
            ("type", self.kind.clone()),
            ("status", self.status.clone()),
            ("server", self.server.clone()),
            ("tool", self.tool.clone()),
            ("principal", self.principal.clone()),
            ("session", self.session.clone()),
            ("run", self.run.clone()),
            ("since", time(self.since)),
            ("until", time(self.until)),
        ];
        let parts = parts
            .iter()
            .chain(further)
            .filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_deref()?))));
        parts.collect::<Vec<_>>().join("&")
    }
}

/// A record as a row: when, what, who, on what, how it ended, and under which name.
fn row(record: &Value) -> Vec<String> {
    let first = |names: &[&str]| {
        let found = names.iter().map(|name| cell(record, name)).find(|text| text != "-");
        found.unwrap_or_else(|| "-".to_owned())
    };
    let server = match (
        first(&["/mcp/server_id", "/server_id"]).as_str(),
        first(&["/mcp/tool_name", "/tool_name"]).as_str(),
    ) {
        ("-", "-") => first(&["/subject", "/run"]),
        (server, "-") => server.to_owned(),
        (server, tool) => format!("{server}/{tool}"),
    };
    // Whoever tried to reach something is who, and what it tried to reach is what it was on.
    let (who, target) = match cell(record, "/type").as_str() {
        "egress" => {
            let who = Some(first(&["/agent"])).filter(|agent| agent != "-").unwrap_or(server);
            (
                who,
                format!("{}:{}", cell(record, "/dst/host"), cell(record, "/dst/port")),
            )
        }
        _ => (first(&["/principal/sub", "/actor", "/agent"]), server),
    };
    let result = match (
        cell(record, "/phase").as_str(),
        cell(record, "/outcome/status").as_str(),
    ) {
        ("intent", _) => "intent".to_owned(),
        (_, "error") if cell(record, "/decision/result") == "allow" => "error".to_owned(),
        (_, "timeout") => "timeout".to_owned(),
        _ => first(&["/decision/result", "/result", "/status", "/class"]),
    };
    vec![
        cell(record, "/seq"),
        local_time(&cell(record, "/ts")),
        cell(record, "/type"),
        who,
        first(&["/mcp/method", "/action", "/stage", "/event"]),
        target,
        result,
        first(&["/decision/reason_codes", "/message", "/reason", "/guard"]),
        cell(record, "/receipt_id"),
    ]
}

fn parsed(record: &str) -> Value {
    serde_json::from_str(record).unwrap_or_default()
}

fn seq(record: &str) -> u64 {
    parsed(record).get("seq").and_then(Value::as_u64).unwrap_or_default()
}

fn time(text: &str) -> Result<Timestamp, String> {
    let ago = || {
        let back = i64::try_from(units::duration(text)?.as_micros()).ok()?;
        Some(Timestamp::from_micros(
            Clock::system().now().as_micros().saturating_sub(back),
        ))
    };
    Timestamp::parse(text)
        .or_else(ago)
        .ok_or_else(|| "write a time such as 2026-11-15T12:00:00Z, or 15m, 7d".to_owned())
}

const HEADING: [&str; 9] = ["seq", "time", "type", "who", "what", "on", "result", "why", "receipt"];
/// Records asked for at once; longer listings are asked for in pages.
const PAGE: u64 = 1_000;
/// Record types of the log.
const TYPES: [&str; 9] = [
    "request",
    "policy_decision",
    "egress",
    "approval",
    "incident",
    "inventory",
    "harness_attempt",
    "harness_result",
    "admin",
];
