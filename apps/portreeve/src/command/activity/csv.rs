//! Records as rows of a CSV table (RFC 4180), safe to open in a spreadsheet.

use serde_json::Value;

use crate::command::output::cell;

/// The names of the columns.
pub(super) fn heading() -> String {
    COLUMNS.map(|(name, _)| name).join(",")
}

/// One record.
pub(super) fn row(record: &Value) -> String {
    COLUMNS.map(|(_, pointer)| field(record, pointer)).join(",")
}

/// The first of these places (`/a|/b`) where the record says something.
fn field(record: &Value, pointers: &str) -> String {
    let says = |pointer: &&str| !matches!(record.pointer(pointer), None | Some(Value::Null));
    let Some(pointer) = pointers.split('|').find(says) else {
        return String::new();
    };
    let text = cell(record, pointer);
    // A spreadsheet would run these as formulas, and callers choose some of the texts.
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text
    };
    if text.contains([',', '"', '\n', '\r', '\'']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// Column names, and where each stands in a record.
const COLUMNS: [(&str, &str); 30] = [
    ("seq", "/seq"),
    ("ts", "/ts"),
    ("type", "/type"),
    ("phase", "/phase"),
    ("receipt_id", "/receipt_id"),
    ("trace_id", "/trace_id"),
    ("count", "/count"),
    ("sub", "/principal/sub"),
    ("actor_type", "/principal/actor_type"),
    ("client_id", "/principal/client_id"),
    ("org_id", "/principal/org_id"),
    ("authn", "/principal/authn"),
    ("method", "/mcp/method"),
    ("server_id", "/mcp/server_id|/server_id"),
    ("tool_name", "/mcp/tool_name|/tool_name"),
    ("trust_level", "/mcp/trust_level"),
    ("risk", "/mcp/risk"),
    ("decision", "/decision/result"),
    ("policy_id", "/decision/policy_id"),
    ("reason_codes", "/decision/reason_codes"),
    ("status", "/outcome/status|/status"),
    ("executed", "/outcome/executed"),
    ("size_bytes_in", "/request/size_bytes_in"),
    ("size_bytes_out", "/outcome/size_bytes_out"),
    ("duration_us", "/outcome/duration_us"),
    ("actor", "/actor"),
    ("action", "/action"),
    ("subject", "/subject"),
    ("message", "/message"),
    ("record_hash", "/record_hash"),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_quoted_and_run_nothing() {
        let record = json!({"a": "=cmd()", "b": "x,\"y\"", "c": null, "d": ["P", "Q"], "e": "plain", "f": -5});
        let shown = ["/a", "/b", "/c", "/d", "/e", "/f"].map(|pointer| field(&record, pointer));
        assert_eq!(shown, ["\"'=cmd()\"", "\"x,\"\"y\"\"\"", "", "P Q", "plain", "\"'-5\""]);
    }
}
