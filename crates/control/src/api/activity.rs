//! The log, as far as it can be read: records leave exactly as they are stored.

use vocabulary::{ReceiptId, Timestamp};

use super::call::Call;
use crate::answer::{Answer, Refusal};
use crate::ports::{ActivityFilter, RecordName, STATUSES};

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

pub(super) async fn list(call: Call) -> Result<Answer, Refusal> {
    let text = |name: &str| call.query(name).map(str::to_owned);
    let number = |name: &str| {
        let wrong = move |_| Refusal::bad_request(format!("`{name}` is not a whole number"));
        call.query(name)
            .map(|text| text.parse::<u64>().map_err(wrong))
            .transpose()
    };
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
    let limit = number("limit")?.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Refusal::bad_request(format!("`limit` is from 1 to {MAX_LIMIT}")));
    }
    let filter = ActivityFilter {
        kind: text("type"),
        status,
        server: text("server"),
        tool: text("tool"),
        principal: text("principal"),
        session: text("session"),
        run: text("run"),
        since: time("since")?,
        until: time("until")?,
        after: number("after")?,
        before: number("before")?,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let listed = call.ask(move |plane| {
        let activity = &plane.ports().activity;
        activity.list(&filter).map(|records| (records, activity.is_behind()))
    });
    let (records, is_behind) = listed.await?;
    Ok(Answer::raw(enclose(&records, is_behind)))
}

pub(super) async fn show(call: Call) -> Result<Answer, Refusal> {
    let id = call.part("id");
    let receipt = ReceiptId::parse(id).map(RecordName::Receipt);
    let name = receipt.or_else(|| id.parse().ok().map(RecordName::Seq));
    let unknown = || Refusal::not_found("there is no such record");
    let name = name.ok_or_else(unknown)?;
    let record = call.ask(move |plane| plane.ports().activity.show(name)).await?;
    Ok(Answer::raw(record.ok_or_else(unknown)?.into_bytes()))
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
