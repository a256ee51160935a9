//! What the index keeps of a record. Only that is taken out of a line; the rest is passed over.

use std::borrow::Cow;

use serde::Deserialize;
use vocabulary::Timestamp;

use super::filter::Status;

/// The facts a record is found by.
pub(super) struct Facts<'a> {
    pub(super) seq: u64,
    pub(super) ts: Timestamp,
    pub(super) kind: Cow<'a, str>,
    pub(super) status: Option<&'static str>,
    /// Of several records of one receipt the highest is shown.
    pub(super) rank: u8,
    pub(super) receipt_id: Option<Cow<'a, str>>,
    pub(super) server: Option<Cow<'a, str>>,
    pub(super) tool: Option<Cow<'a, str>>,
    pub(super) principal: Option<Cow<'a, str>>,
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) run: Option<Cow<'a, str>>,
}

/// A string, borrowed from the line where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Record<'a> {
    seq: u64,
    #[serde(borrow)]
    ts: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_id: Option<Text<'a>>,
    #[serde(borrow)]
    mcp: Option<Mcp<'a>>,
    #[serde(borrow)]
    principal: Option<Principal<'a>>,
    #[serde(borrow)]
    decision: Option<Decision<'a>>,
    #[serde(borrow)]
    outcome: Option<Outcome<'a>>,
    // Of events:
    #[serde(borrow)]
    subject: Option<Text<'a>>,
    #[serde(borrow)]
    actor: Option<Text<'a>>,
    #[serde(borrow)]
    result: Option<Text<'a>>,
    // Of attempts to reach something:
    #[serde(borrow)]
    server_id: Option<Text<'a>>,
    #[serde(borrow)]
    tool_name: Option<Text<'a>>,
    #[serde(borrow)]
    session: Option<Text<'a>>,
    // Of decisions of the chokepoint:
    #[serde(borrow)]
    status: Option<Text<'a>>,
    // Of harness runs:
    #[serde(borrow)]
    agent: Option<Text<'a>>,
    #[serde(borrow)]
    run: Option<Text<'a>>,
    #[serde(borrow)]
    class: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Mcp<'a> {
    #[serde(borrow)]
    server_id: Option<Text<'a>>,
    #[serde(borrow)]
    tool_name: Option<Text<'a>>,
    #[serde(borrow)]
    session: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Principal<'a> {
    #[serde(borrow)]
    sub: Option<Text<'a>>,
    #[serde(borrow)]
    run: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Decision<'a> {
    #[serde(borrow)]
    result: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow)]
    status: Option<Text<'a>>,
}

impl<'a> Facts<'a> {
    /// Reads a record; `None` where the line is none.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        // As text: from bytes, each string would be checked for UTF-8 on its own.
        let record: Record<'a> = serde_json::from_str(std::str::from_utf8(line).ok()?).ok()?;
        let status = status(&record).map(Status::as_str);
        let (server, tool, session) = match (&*record.kind.0, record.mcp) {
            ("request", Some(mcp)) => (text(mcp.server_id), text(mcp.tool_name), text(mcp.session)),
            ("inventory", _) => {
                let (server, tool) = subject(text(record.subject));
                (server, tool, None)
            }
            ("egress" | "policy_decision", _) => (text(record.server_id), text(record.tool_name), text(record.session)),
            _ => (None, None, None),
        };
        let (sub, run) = record
            .principal
            .map_or((None, None), |principal| (text(principal.sub), text(principal.run)));
        Some(Self {
            seq: record.seq,
            ts: Timestamp::parse(&record.ts.0)?,
            kind: record.kind.0,
            status,
            rank: match record.phase.as_ref().map(|phase| &*phase.0) {
                Some("final") => 2,
                Some(_) => 1,
                None => 0,
            },
            receipt_id: text(record.receipt_id),
            server,
            tool,
            principal: sub.or_else(|| text(record.actor)).or_else(|| text(record.agent)),
            session,
            run: run.or_else(|| text(record.run)),
        })
    }
}

/// Of an attempt its class counts, of a run its status.
fn status_of_harness(record: &Record<'_>) -> Option<Status> {
    let word = record.status.as_ref().or(record.class.as_ref())?;
    match &*word.0 {
        "ok" => Some(Status::Allowed),
        "schema_violation" | "not_json" | "no_output" | "guard_violation" => Some(Status::Blocked),
        "failed" | "runtime_exit" | "timeout" | "integrity" => Some(Status::Error),
        _ => None,
    }
}

fn status(record: &Record<'_>) -> Option<Status> {
    if record.kind.0.starts_with("harness_") {
        return status_of_harness(record);
    }
    if let Some(done) = &record.status {
        return Status::parse(&done.0);
    }
    let decided = record.decision.as_ref().and_then(|decision| decision.result.as_ref());
    let status = record.outcome.as_ref().and_then(|outcome| outcome.status.as_ref());
    let result = decided.or(record.result.as_ref())?;
    match (&*result.0, status.map(|status| &*status.0)) {
        ("allowed", _) => Some(Status::Allowed),
        ("blocked", _) => Some(Status::Blocked),
        ("deny", _) => Some(Status::Denied),
        ("require_approval", _) => Some(Status::Pending),
        ("allow", Some("error" | "timeout")) => Some(Status::Error),
        ("allow", _) => Some(Status::Allowed),
        _ => None,
    }
}

/// Server and tool of an inventory record, from its subject `server` or `server/tool`.
fn subject(subject: Option<Cow<'_, str>>) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>) {
    match subject.as_ref().and_then(|subject| subject.split_once('/')) {
        Some((server, tool)) => (Some(server.to_owned().into()), Some(tool.to_owned().into())),
        None => (subject, None),
    }
}

fn text(text: Option<Text<'_>>) -> Option<Cow<'_, str>> {
    text.map(|text| text.0)
}
