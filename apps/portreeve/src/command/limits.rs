//! `limits`: who has used how much of what is allowed.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

use super::access::Access;
use super::output::{self, Form, cell, local_time};
use crate::config::Local;

#[derive(Subcommand)]
pub(super) enum Limits {
    /// Show who has used how much of their rates and quotas, those first who used most
    Show {
        /// How many at most, up to 100,000
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
        #[command(flatten)]
        form: Form,
    },
}

impl Limits {
    pub(super) async fn run(self, config: &Local) -> anyhow::Result<ExitCode> {
        let Self::Show { limit, form } = self;
        let access = Access::open(config).await?;
        let done = show(&access, limit, form).await;
        access.close().await?;
        done.map(|()| ExitCode::SUCCESS)
    }
}

async fn show(access: &Access, limit: u32, form: Form) -> anyhow::Result<()> {
    let answer = access.get(&format!("/limits?limit={limit}")).await?;
    let limits = answer.get("limits").and_then(Value::as_array);
    let limits = limits.map(Vec::as_slice).unwrap_or_default();
    if form.json {
        let lines: Vec<String> = limits.iter().map(ToString::to_string).collect();
        return output::lines(lines.iter().map(String::as_str));
    }
    let row = |limit: &Value| {
        let [kind, per, key, window, methods] =
            ["/kind", "/per", "/key", "/window", "/methods"].map(|name| cell(limit, name));
        let used = format!("{} of {}", cell(limit, "/used"), cell(limit, "/calls"));
        let resets = local_time(&cell(limit, "/resets"));
        vec![kind, per, key, used, window, methods, resets]
    };
    output::table(
        &["kind", "per", "key", "used", "window", "counts", "resets"],
        limits.iter().map(row),
    )
}
