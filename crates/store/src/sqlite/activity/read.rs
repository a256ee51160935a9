//! What the index keeps of a record. Only that is taken out of a line; the rest is passed over.

use std::borrow::Cow;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use vocabulary::Timestamp;

use super::filter::{RecordType, Status};
use super::walk::{Escapes, Walk};

/// The facts a record is found by.
#[cfg_attr(test, derive(PartialEq, Debug))]
pub(super) struct Facts<'a> {
    pub(super) seq: u64,
    pub(super) ts: Timestamp,
    /// `None` for a type this release does not know.
    pub(super) kind: Option<RecordType>,
    pub(super) status: Option<Status>,
    /// Of several records of one receipt the highest is shown.
    pub(super) rank: u8,
    pub(super) receipt_id: Option<Text<'a>>,
    pub(super) server: Option<Text<'a>>,
    pub(super) tool: Option<Text<'a>>,
    pub(super) principal: Option<Text<'a>>,
    pub(super) session: Option<Text<'a>>,
    pub(super) run: Option<Text<'a>>,
}

/// Text of a line, borrowed where it has no escapes. The line was found to be UTF-8; SQLite asks no further.
#[cfg_attr(test, derive(PartialEq, Debug))]
pub(super) struct Text<'a>(Cow<'a, [u8]>);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(&self.0)))
    }
}

/// What stands between the quotes of a string; `None` for `null`, or where the record has no such member.
type Spelled<'a> = Option<&'a [u8]>;

#[derive(Default)]
struct Record<'a> {
    seq: Option<u64>,
    ts: Spelled<'a>,
    kind: Spelled<'a>,
    phase: Spelled<'a>,
    receipt_id: Spelled<'a>,
    mcp: Mcp<'a>,
    principal: Principal<'a>,
    decision: Decision<'a>,
    outcome: RecordedOutcome<'a>,
    // Of events:
    subject: Spelled<'a>,
    actor: Spelled<'a>,
    result: Spelled<'a>,
    // Of attempts to reach something:
    server_id: Spelled<'a>,
    tool_name: Spelled<'a>,
    session: Spelled<'a>,
    // Of decisions of the chokepoint:
    status: Spelled<'a>,
    // Of harness runs:
    agent: Spelled<'a>,
    run: Spelled<'a>,
    class: Spelled<'a>,
}

#[derive(Default)]
struct Mcp<'a> {
    server_id: Spelled<'a>,
    tool_name: Spelled<'a>,
    session: Spelled<'a>,
}

#[derive(Default)]
struct Principal<'a> {
    sub: Spelled<'a>,
    run: Spelled<'a>,
}

#[derive(Default)]
struct Decision<'a> {
    result: Spelled<'a>,
}

#[derive(Default)]
struct RecordedOutcome<'a> {
    status: Spelled<'a>,
}

impl<'a> Record<'a> {
    /// Takes what is wanted out of a line; gives what is left of it.
    fn take(&mut self, walk: Walk<'_>, line: &'a [u8]) -> Option<&'a [u8]> {
        walk.members(line, |name, value| match name {
            b"seq" => walk.number(value, &mut self.seq),
            b"ts" => walk.text(value, &mut self.ts),
            b"type" => walk.text(value, &mut self.kind),
            b"phase" => walk.text(value, &mut self.phase),
            b"receipt_id" => walk.text(value, &mut self.receipt_id),
            b"mcp" => walk.members(value, |name, value| match name {
                b"server_id" => walk.text(value, &mut self.mcp.server_id),
                b"tool_name" => walk.text(value, &mut self.mcp.tool_name),
                b"session" => walk.text(value, &mut self.mcp.session),
                _ => walk.pass(value),
            }),
            b"principal" => walk.members(value, |name, value| match name {
                b"sub" => walk.text(value, &mut self.principal.sub),
                b"run" => walk.text(value, &mut self.principal.run),
                _ => walk.pass(value),
            }),
            b"decision" => walk.text_within(value, b"result", &mut self.decision.result),
            b"outcome" => walk.text_within(value, b"status", &mut self.outcome.status),
            b"subject" => walk.text(value, &mut self.subject),
            b"actor" => walk.text(value, &mut self.actor),
            b"result" => walk.text(value, &mut self.result),
            b"server_id" => walk.text(value, &mut self.server_id),
            b"tool_name" => walk.text(value, &mut self.tool_name),
            b"session" => walk.text(value, &mut self.session),
            b"status" => walk.text(value, &mut self.status),
            b"agent" => walk.text(value, &mut self.agent),
            b"run" => walk.text(value, &mut self.run),
            b"class" => walk.text(value, &mut self.class),
            _ => walk.pass(value),
        })
    }
}

impl<'a> Facts<'a> {
    /// Reads a record; `None` where the line is none.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        if !line.is_ascii() && std::str::from_utf8(line).is_err() {
            return None;
        }
        let escapes = Escapes::of(line);
        let walk = Walk::around(escapes.as_ref());
        let mut record = Record::default();
        if !record.take(walk, line)?.is_empty() {
            return None;
        }
        let text = |spelled: Spelled<'a>| match spelled {
            Some(inside) => walk.decode(inside).map(|text| Some(Text(text))),
            None => Some(None),
        };
        let kind = RecordType::spelled(record.kind?);
        let (server, tool, session) = match kind {
            Some(RecordType::Request) => (record.mcp.server_id, record.mcp.tool_name, record.mcp.session),
            Some(RecordType::Inventory) => {
                let (server, tool) = server_and_tool(record.subject);
                (server, tool, None)
            }
            Some(RecordType::Egress | RecordType::PolicyDecision | RecordType::Approval) => {
                (record.server_id, record.tool_name, record.session)
            }
            Some(RecordType::Incident | RecordType::HarnessAttempt | RecordType::HarnessResult | RecordType::Admin)
            | None => (None, None, None),
        };
        Some(Self {
            seq: record.seq?,
            ts: Timestamp::parse(std::str::from_utf8(record.ts?).ok()?)?,
            kind,
            status: status(&record),
            rank: match record.phase {
                Some(b"final") => 2,
                Some(_) => 1,
                None => 0,
            },
            receipt_id: text(record.receipt_id)?,
            server: text(server)?,
            tool: text(tool)?,
            principal: text(record.principal.sub.or(record.actor).or(record.agent))?,
            session: text(session)?,
            run: text(record.principal.run.or(record.run))?,
        })
    }

    /// The number its receipt is filed under.
    pub(super) fn receipt(&self) -> Option<i64> {
        self.receipt_id.as_ref().and_then(|id| receipt_number(&id.0))
    }

    /// Whether it says how a request ended.
    pub(super) fn is_final_request(&self) -> bool {
        self.kind == Some(RecordType::Request) && self.rank == 2
    }

    /// The numbers it is found by.
    pub(super) fn codes(&self) -> [Option<[u8; 8]>; 2] {
        let codes = [self.kind.map(RecordType::code), self.status.map(Status::code)];
        codes.map(|code| code.map(i64::to_be_bytes))
    }

    /// The texts it is found by.
    pub(super) fn texts(&self) -> [Option<&[u8]>; 5] {
        let texts = [&self.server, &self.tool, &self.principal, &self.session, &self.run];
        texts.map(|text| text.as_ref().map(|text| &*text.0))
    }

    /// Whether it belongs to the receipt `id`.
    pub(super) fn is_of(&self, id: &str) -> bool {
        self.receipt_id.as_ref().is_some_and(|own| *own.0 == *id.as_bytes())
    }
}

/// The number that a receipt is filed under: the first half of its id. It is quicker to sort in than the text, grows
/// with time as ids do, and few ids share one.
pub(super) fn receipt_number(id: &[u8]) -> Option<i64> {
    let half = id.strip_prefix(b"rcp_")?.first_chunk::<16>()?;
    half.iter().try_fold(0, |number, digit| match digit {
        b'0'..=b'9' => Some(number << 4 | i64::from(digit - b'0')),
        b'a'..=b'f' => Some(number << 4 | i64::from(digit - b'a' + 10)),
        _ => None,
    })
}

/// What came of it. The words are compared as they are spelled: none of them needs an escape.
fn status(record: &Record<'_>) -> Option<Status> {
    if record.kind.is_some_and(|kind| kind.starts_with(b"harness_")) {
        return status_of_harness(record);
    }
    if let Some(done) = record.status {
        return Status::spelled(done);
    }
    match (record.decision.result.or(record.result)?, record.outcome.status) {
        (b"allowed", _) => Some(Status::Allowed),
        (b"blocked", _) => Some(Status::Blocked),
        (b"deny", _) => Some(Status::Denied),
        (b"require_approval", _) => Some(Status::Pending),
        (b"allow", Some(b"error" | b"timeout")) => Some(Status::Error),
        (b"allow", _) => Some(Status::Allowed),
        _ => None,
    }
}

/// Of an attempt its class counts, of a run its status.
fn status_of_harness(record: &Record<'_>) -> Option<Status> {
    match record.status.or(record.class)? {
        b"ok" => Some(Status::Allowed),
        b"schema_violation" | b"not_json" | b"no_output" | b"guard_violation" => Some(Status::Blocked),
        b"failed" | b"runtime_exit" | b"timeout" | b"integrity" => Some(Status::Error),
        _ => None,
    }
}

/// Server and tool of an inventory record, from its subject `server` or `server/tool`.
fn server_and_tool(subject: Spelled<'_>) -> (Spelled<'_>, Spelled<'_>) {
    let mut halves = subject
        .into_iter()
        .flat_map(|subject| subject.splitn(2, |byte| *byte == b'/'));
    (halves.next(), halves.next())
}

#[cfg(test)]
mod tests;
