//! `activity summary`: what the requests of the log come to.

use control::ports::SummaryBy;
use serde_json::Value;

use super::{Filter, tell_if_behind};
use crate::command::access::Access;
use crate::command::output::{self, Form, cell, local_time};
use crate::config::units;

/// How the summary is made up.
pub(super) struct Arrangement {
    /// A line for each of these.
    pub(super) by: Option<String>,
    /// A line for each stretch of so many minutes.
    pub(super) bucket: Option<u32>,
}

/// The words of `--by`.
pub(super) fn by() -> [&'static str; 5] {
    SummaryBy::ALL.map(SummaryBy::as_str)
}

/// A length in whole minutes.
pub(super) fn bucket(text: &str) -> Result<u32, String> {
    let wrong = || "write whole minutes, hours or days, such as 15m, 1h, 1d".to_owned();
    let seconds = units::duration(text).ok_or_else(wrong)?.as_secs();
    match u32::try_from(seconds / 60) {
        Ok(minutes) if minutes > 0 && seconds % 60 == 0 => Ok(minutes),
        Ok(_) | Err(_) => Err(wrong()),
    }
}

/// Asks for the summary and prints it.
pub(super) async fn print(
    access: &Access,
    filter: &Filter,
    arrangement: &Arrangement,
    form: Form,
) -> anyhow::Result<()> {
    let further = [
        ("by", arrangement.by.clone()),
        ("bucket_minutes", arrangement.bucket.map(|minutes| minutes.to_string())),
    ];
    let answer = access
        .get(&format!("/activity/summary?{}", filter.query(&further)))
        .await?;
    let none = Vec::new();
    let lines = answer.get("summary").and_then(Value::as_array).unwrap_or(&none);
    if form.json {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        output::lines(lines.iter().map(String::as_str))?;
    } else {
        output::table(&HEADING, lines.iter().map(row))?;
    }
    tell_if_behind(answer.get("index_behind").and_then(Value::as_bool).unwrap_or_default());
    Ok(())
}

fn row(line: &Value) -> Vec<String> {
    let mut cells: Vec<String> = COLUMNS.iter().map(|name| cell(line, name)).collect();
    let bucket = cell(line, "/bucket");
    cells.insert(0, if bucket == "-" { bucket } else { local_time(&bucket) });
    cells
}

const HEADING: [&str; 9] = [
    "from", "key", "calls", "allowed", "denied", "errors", "pending", "p50_us", "p99_us",
];
const COLUMNS: [&str; 8] = [
    "/key", "/calls", "/allowed", "/denied", "/errors", "/pending", "/p50_us", "/p99_us",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_of_time_is_whole_minutes() {
        for (text, minutes) in [("1m", 1), ("90m", 90), ("1h", 60), ("7d", 7 * 24 * 60), ("120s", 2)] {
            assert_eq!(bucket(text), Ok(minutes), "{text}");
        }
        for text in ["0m", "30s", "90s", "1w", "", "-1h", "h"] {
            assert!(bucket(text).is_err(), "{text}");
        }
    }
}
