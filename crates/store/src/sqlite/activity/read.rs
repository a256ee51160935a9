//! What the index keeps of a record.

use vocabulary::Timestamp;
use vocabulary::json::{Limits, Value};

use super::filter::Status;

/// The facts a record is found by.
pub(super) struct Facts {
    pub(super) seq: u64,
    pub(super) ts: Timestamp,
    pub(super) kind: String,
    pub(super) status: Option<&'static str>,
    /// Of several records of one receipt the highest is shown.
    pub(super) rank: u8,
    pub(super) receipt_id: Option<String>,
    pub(super) server: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) principal: Option<String>,
    pub(super) session: Option<String>,
    pub(super) run: Option<String>,
}

impl Facts {
    /// Reads a record; `None` where the line is none.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let limits = Limits {
            max_bytes: usize::MAX,
            max_depth: 64,
            max_string: usize::MAX,
            max_items: usize::MAX,
        };
        let record = Value::parse(line, &limits).ok()?;
        let Some(Value::Number(seq)) = record.member("seq") else {
            return None;
        };
        let kind = text(&record, &["type"])?;
        let request = kind == "request";
        let (server, tool) = if request {
            (
                text(&record, &["mcp", "server_id"]),
                text(&record, &["mcp", "tool_name"]),
            )
        } else {
            subject(&record, &kind)
        };
        Some(Self {
            seq: seq.parse().ok()?,
            ts: Timestamp::parse(at(&record, &["ts"])?.as_str()?)?,
            status: status(&record).map(Status::as_str),
            rank: match at(&record, &["phase"]).and_then(Value::as_str) {
                Some("final") => 2,
                Some(_) => 1,
                None => 0,
            },
            receipt_id: text(&record, &["receipt_id"]),
            server,
            tool,
            principal: text(&record, &["principal", "sub"]).or_else(|| text(&record, &["actor"])),
            session: text(&record, &["mcp", "session"]),
            run: text(&record, &["principal", "run"]),
            kind,
        })
    }
}

fn status(record: &Value<'_>) -> Option<Status> {
    let result = at(record, &["decision", "result"])
        .or_else(|| at(record, &["result"]))
        .and_then(Value::as_str)?;
    match (result, at(record, &["outcome", "status"]).and_then(Value::as_str)) {
        ("deny", _) => Some(Status::Denied),
        ("require_approval", _) => Some(Status::Pending),
        ("allow", Some("error" | "timeout")) => Some(Status::Error),
        ("allow", _) => Some(Status::Allowed),
        _ => None,
    }
}

/// Server and tool of an inventory record, from its subject `server` or `server/tool`.
fn subject(record: &Value<'_>, kind: &str) -> (Option<String>, Option<String>) {
    match text(record, &["subject"]).filter(|_| kind == "inventory") {
        Some(subject) => match subject.split_once('/') {
            Some((server, tool)) => (Some(server.to_owned()), Some(tool.to_owned())),
            None => (Some(subject), None),
        },
        None => (None, None),
    }
}

fn at<'v, 'a>(record: &'v Value<'a>, path: &[&str]) -> Option<&'v Value<'a>> {
    path.iter().try_fold(record, |value, name| value.member(name))
}

fn text(record: &Value<'_>, path: &[&str]) -> Option<String> {
    at(record, path).and_then(Value::as_str).map(str::to_owned)
}
