//! The log, as far as it can be read: records leave exactly as they are stored.

use serde_json::{Value, json};
use vocabulary::{ReceiptId, Timestamp};

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::ports::{ActivityFilter, Arrangement, RecordName, STATUSES, SummaryBy, SummaryView};

/// The query of a listing.
pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("type", "Type of the record: `request`, `admin`, `inventory` and so on."),
    (
        "status",
        "`allowed`, `denied`, `blocked`, `warning`, `redacted`, `stripped`, `pending` or `error`.",
    ),
    ("server", "Server id."),
    ("tool", "Tool name."),
    ("principal", "`sub` of the caller."),
    ("session", "Session id, or its digest as records have it."),
    ("run", "Harness run."),
    ("since", "Not older than this time (RFC 3339)."),
    ("until", "Not newer than this time (RFC 3339)."),
    (
        "after",
        "Only records after this `seq`: the oldest that follow, so that none is skipped.",
    ),
    ("before", "Only records before this `seq`."),
    ("limit", "How many at most: up to 100000; 50 if not said."),
];

/// The query of a summary: what narrows a listing narrows it too.
pub(super) const SUMMARY_PARAMETERS: &[(&str, &str)] = &[
    (
        "by",
        "A line for each `principal`, `tool`, `server`, `reason` or `method`; without it one for all, under `*`.",
    ),
    (
        "bucket_minutes",
        "Lines for each stretch of this many minutes, in UTC: up to 527040.",
    ),
    ("type", "As in a listing; only requests are counted."),
    ("status", "As in a listing."),
    ("server", "Server id."),
    ("tool", "Tool name."),
    ("principal", "`sub` of the caller."),
    ("session", "Session id, or its digest as records have it."),
    ("run", "Harness run."),
    ("since", "Not older than this time (RFC 3339)."),
    ("until", "Not newer than this time (RFC 3339)."),
    ("after", "Only records after this `seq`."),
    ("before", "Only records before this `seq`."),
];

pub(super) async fn list(call: Call) -> Result<Answer, Refusal> {
    let limit = number(&call, "limit")?.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Refusal::bad_request(format!("`limit` is from 1 to {MAX_LIMIT}")));
    }
    let filter = ActivityFilter {
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        ..filter(&call)?
    };
    let listed = call.ask(move |plane| {
        let activity = &plane.ports().activity;
        activity.list(&filter).map(|records| (records, activity.is_behind()))
    });
    let (records, is_behind) = listed.await?;
    Ok(Answer::raw(enclose(&records, is_behind)))
}

pub(super) async fn summary(call: Call) -> Result<Answer, Refusal> {
    let words = || SummaryBy::ALL.map(SummaryBy::as_str).join(", ");
    let by = call
        .query("by")
        .map(|word| SummaryBy::parse(word).ok_or_else(|| Refusal::bad_request(format!("`by` is one of {}", words()))))
        .transpose()?;
    let bucket_minutes = match number(&call, "bucket_minutes")? {
        None => None,
        Some(minutes) => match u32::try_from(minutes) {
            Ok(minutes @ 1..=LONGEST_BUCKET) => Some(minutes),
            Ok(_) | Err(_) => {
                return Err(Refusal::bad_request(format!(
                    "`bucket_minutes` is from 1 to {LONGEST_BUCKET}"
                )));
            }
        },
    };
    let (filter, arrangement) = (filter(&call)?, Arrangement { by, bucket_minutes });
    let summed = call.ask(move |plane| {
        let activity = &plane.ports().activity;
        let lines = activity.summary(&filter, arrangement)?;
        Ok((lines, activity.is_behind()))
    });
    let (lines, is_behind) = summed.await?;
    let mut body = json!({"summary": lines.iter().map(line).collect::<Vec<_>>()});
    if let (true, Some(members)) = (is_behind, body.as_object_mut()) {
        members.insert("index_behind".to_owned(), true.into());
    }
    Ok(Answer::json(&body))
}

fn line(of: &SummaryView) -> Value {
    let mut line = json!({"key": of.key, "calls": of.calls, "allowed": of.allowed, "denied": of.denied, "errors": of.errors,
        "pending": of.pending, "p50_us": of.p50_us, "p99_us": of.p99_us});
    if let (Some(bucket), Some(members)) = (of.bucket, line.as_object_mut()) {
        members.insert("bucket".to_owned(), bucket.to_string().into());
    }
    line
}

pub(super) async fn reindex(call: Call) -> Result<Answer, Refusal> {
    call.record(None, "the index of the log is made anew").await?;
    let records = call.ask(|plane| plane.ports().activity.reindex()).await?;
    Ok(Answer::json(&json!({"records": records})))
}

/// What narrows a listing, without its limit.
fn filter(call: &Call) -> Result<ActivityFilter, Refusal> {
    let text = |name: &str| call.query(name).map(str::to_owned);
    let time = |name: &str| {
        let wrong = || Refusal::bad_request(format!("`{name}` is not a time as RFC 3339 has it"));
        call.query(name)
            .map(|text| Timestamp::parse(text).ok_or_else(wrong))
            .transpose()
    };
    let status = text("status");
    if status
        .as_ref()
        .is_some_and(|status| !STATUSES.contains(&status.as_str()))
    {
        return Err(Refusal::bad_request(format!(
            "`status` is one of {}",
            STATUSES.join(", ")
        )));
    }
    Ok(ActivityFilter {
        kind: text("type"),
        status,
        server: text("server"),
        tool: text("tool"),
        principal: text("principal"),
        session: text("session"),
        run: text("run"),
        since: time("since")?,
        until: time("until")?,
        after: number(call, "after")?,
        before: number(call, "before")?,
        limit: 0,
    })
}

fn number(call: &Call, name: &str) -> Result<Option<u64>, Refusal> {
    let wrong = |_| Refusal::bad_request(format!("`{name}` is not a whole number"));
    call.query(name)
        .map(|text| text.parse::<u64>().map_err(wrong))
        .transpose()
}

pub(super) async fn show(call: Call) -> Result<Answer, Refusal> {
    Ok(Answer::raw(record(&call).await?.into_bytes()))
}

/// The record that the path names, exactly as stored.
pub(super) async fn record(call: &Call) -> Result<String, Refusal> {
    let id = call.part("id");
    let receipt = ReceiptId::parse(id).map(RecordName::Receipt);
    let name = receipt.or_else(|| id.parse().ok().map(RecordName::Seq));
    let unknown = || Refusal::not_found("there is no such record");
    let name = name.ok_or_else(unknown)?;
    let record = call.ask(move |plane| plane.ports().activity.show(name)).await?;
    record.ok_or_else(unknown)
}

/// `{"records":[…]}` around lines that are JSON already.
fn enclose(records: &[String], is_behind: bool) -> Vec<u8> {
    let size: usize = records.iter().map(|record| record.len() + 1).sum();
    let mut body = Vec::with_capacity(size + 16);
    body.extend_from_slice(b"{\"records\":[");
    for (index, record) in records.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(record.as_bytes());
    }
    body.extend_from_slice(if is_behind { br#"],"index_behind":true}"# } else { b"]}" });
    body
}

const DEFAULT_LIMIT: u64 = 50;
const MAX_LIMIT: u64 = 100_000;
/// A year and a day.
const LONGEST_BUCKET: u32 = 366 * 24 * 60;
