//! `activity watch`: the log as it grows, also while the gateway is restarted. What has been shown is known by its place in
//! the log, so that nothing is lost and nothing is repeated.

use std::process::ExitCode;
use std::time::Duration;

use super::{Filter, PAGE, parsed, row, seq};
use crate::command::access::{Access, Refused, page};
use crate::command::output::{self, Form};
use crate::config::Local;

/// Follows the log until the command is ended or the gateway refuses.
pub(super) async fn follow(config: &Local, access: Access, filter: &Filter, form: Form) -> anyhow::Result<ExitCode> {
    if !access.is_running() {
        access.close().await?;
        anyhow::bail!("no gateway runs, so there is nothing to follow");
    }
    let newest = access.get_raw("/activity?limit=1").await?;
    let mut after = page(&newest)?.records.first().map_or(0, |record| seq(record.get()));
    let mut way = Some(access);
    let mut is_told = false;
    loop {
        let found = match way.take() {
            Some(access) => Some(access),
            None => Access::running(config).await?,
        };
        if let Some(access) = found {
            match access.get_raw(&filter.path("after", Some(after), PAGE)).await {
                Ok(body) => {
                    after = show(&body, after, form)?;
                    way = Some(access);
                    is_told = false;
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(_) if is_told => {}
                Err(_) => {
                    output::note("the gateway has gone; its log is followed again as soon as it is back");
                    is_told = true;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Prints a page, oldest first; gives the place of the newest record shown.
fn show(body: &[u8], after: u64, form: Form) -> anyhow::Result<u64> {
    let mut newest = after;
    for record in page(body)?.records.iter().rev() {
        newest = newest.max(seq(record.get()));
        match form.json {
            true => output::line(record.get())?,
            false => {
                let cells: Vec<String> = row(&parsed(record.get()))
                    .iter()
                    .map(|cell| output::printable(cell))
                    .collect();
                output::line(&cells.join("  "))?;
            }
        }
    }
    Ok(newest)
}

/// Whether asking again would bring the same answer: a gateway that is going down may answer too, but with a fault of its own.
fn is_final(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Refused>()
        .is_some_and(|refused| (400..500).contains(&refused.status))
}

const PAUSE: Duration = Duration::from_millis(250);
