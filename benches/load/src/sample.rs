//! What is said in every conversation: one tool, its arguments, and results of exact sizes. All of
//! it is compact with sorted members, so that even a proxy that writes the JSON again sends it
//! byte for byte, and every answer can be compared.

use anyhow::{Context, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The revision both ends speak.
pub(crate) const VERSION: &str = "2025-11-25";
/// The upstream's name in the gateway's configuration.
pub(crate) const SERVER: &str = "bench";
/// A tool that declares nothing about its output.
pub(crate) const TOOL: &str = "echo";
/// The same with an output schema.
pub(crate) const DECLARED_TOOL: &str = "report";
/// The caller.
pub(crate) const AGENT: &str = "bench";

/// The sizes of results, in units of 1024 bytes.
pub(crate) const SMALL: u32 = 1;
pub(crate) const LARGE: u32 = 100;

/// `initialize`, as a client sends it.
pub(crate) fn initialize() -> Bytes {
    let client = json!({"name": "portreeve-load", "version": "1"});
    let params = json!({"capabilities": {}, "clientInfo": client, "protocolVersion": VERSION});
    request("initialize", &params)
}

/// `notifications/initialized`
pub(crate) fn initialized() -> Bytes {
    Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
}

fn request(method: &str, params: &Value) -> Bytes {
    json!({"id": 0, "jsonrpc": "2.0", "method": method, "params": params})
        .to_string()
        .into()
}

/// What is asked for, and so what has to come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// A result that comes back as it was sent.
    Plain,
    /// One of a tool with an output schema, whose text comes back in a fence.
    Fenced,
}

impl Ask {
    fn tool(self) -> &'static str {
        match self {
            Self::Plain => TOOL,
            Self::Fenced => DECLARED_TOOL,
        }
    }

    /// The result that has to come back.
    pub(crate) fn result(self, kilobytes: u32) -> Result<Bytes> {
        let sent = result(kilobytes)?;
        Ok(match self {
            Self::Plain => sent,
            Self::Fenced => {
                let mark = format!("untrusted:{SERVER}/{DECLARED_TOOL}");
                let fenced = format!("«{mark}»\\n{TEXT}\\n«/{mark}»");
                String::from_utf8(sent.into())?.replacen(TEXT, &fenced, 1).into()
            }
        })
    }
}

/// A call for a result of `kilobytes`.
pub(crate) fn call(id: u64, kilobytes: u32, ask: Ask) -> Bytes {
    let tool = ask.tool();
    let arguments = format!(r#"{{"kilobytes":{kilobytes},"path":"/srv/agents/files/report-2026.txt"}}"#);
    let params = format!(r#"{{"arguments":{arguments},"name":"{tool}"}}"#);
    format!(r#"{{"id":{id},"jsonrpc":"2.0","method":"tools/call","params":{params}}}"#).into()
}

/// Whether these raw arguments ask for the large result.
pub(crate) fn asks_for_large(arguments: &[u8]) -> bool {
    arguments.starts_with(br#"{"kilobytes":100,"#)
}

/// The list of tools, as the upstream sends it.
pub(crate) fn tools() -> Value {
    let properties = json!({
        "kilobytes": {"enum": [SMALL, LARGE], "type": "integer"},
        "path": {"maxLength": 256, "type": "string"},
    });
    let schema = json!({"properties": properties, "required": ["kilobytes", "path"], "type": "object"});
    let description = "Answers with a report of the size asked for.";
    let tool = json!({"description": description, "inputSchema": schema, "name": TOOL});
    let declared = json!({"description": description, "inputSchema": schema, "name": DECLARED_TOOL, "outputSchema": output_schema()});
    json!({"tools": [tool, declared]})
}

/// What the results are.
fn output_schema() -> Value {
    let item = json!({
        "additionalProperties": false,
        "properties": {
            "active": {"type": "boolean"},
            "amount_cents": {"minimum": 0, "type": "integer"},
            "id": {"type": "integer"},
            "name": {"maxLength": 200, "type": "string"},
            "path": {"type": "string"},
            "tags": {"items": {"type": "string"}, "type": "array"},
        },
        "required": ["id", "name", "path"],
        "type": "object",
    });
    let items = json!({"items": item, "type": "array"});
    let properties = json!({"items": items, "note": {"type": "string"}});
    json!({"properties": properties, "required": ["items"], "type": "object"})
}

const TEXT: &str = "The report lists what was found; see the structured content.";

/// A result of exactly `kilobytes` times 1024 bytes: a sentence, and structured content.
pub(crate) fn result(kilobytes: u32) -> Result<Bytes> {
    let wanted = 1024 * usize::try_from(kilobytes)?;
    let whole = |items: &[Value], note: &str| {
        let content = json!({"items": items, "note": note});
        json!({"content": [{"text": TEXT, "type": "text"}], "structuredContent": content}).to_string()
    };
    let mut items = Vec::new();
    let mut size = whole(&items, "").len();
    for number in 0.. {
        let item = item(number);
        let larger = size + item.to_string().len() + usize::from(!items.is_empty());
        if larger > wanted {
            break;
        }
        items.push(item);
        size = larger;
    }
    let missing = wanted.checked_sub(size).context("a result cannot be that small")?;
    Ok(whole(&items, &"-".repeat(missing)).into())
}

fn item(number: u64) -> Value {
    json!({
        "active": !number.is_multiple_of(3),
        "amount_cents": 1_000 + 37 * number % 9_000,
        "id": number,
        "name": format!("Entry number {number}, “Straße”\n"),
        "path": format!("/srv/agents/files/part-{number}.txt"),
        "tags": ["north", "harbour"],
    })
}

/// The answers to call `id` that count as right: as the upstream spells them, and as the gateway
/// does, which writes the envelope around the untouched result.
pub(crate) fn is_answer(id: u64, result: &[u8], answer: &[u8]) -> bool {
    let spelled = [
        format!(r#"{{"id":{id},"jsonrpc":"2.0","result":"#),
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#),
    ];
    let rest = spelled.iter().find_map(|head| answer.strip_prefix(head.as_bytes()));
    rest.and_then(|rest| rest.strip_suffix(b"}")) == Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_exactly_their_size_and_survive_being_written_again() {
        for kilobytes in [SMALL, LARGE] {
            let result = result(kilobytes).unwrap();
            assert_eq!(result.len(), 1024 * kilobytes as usize);
            let tree: Value = serde_json::from_slice(&result).unwrap();
            assert_eq!(tree.to_string().as_bytes(), result);
        }
    }

    #[test]
    fn a_fenced_result_differs_by_its_fence_alone() {
        let (sent, fenced) = (Ask::Plain.result(SMALL).unwrap(), Ask::Fenced.result(SMALL).unwrap());
        let tree: Value = serde_json::from_slice(&fenced).unwrap();
        let text = tree["content"][0]["text"].as_str().unwrap();
        assert_eq!(
            text,
            format!("«untrusted:bench/report»\n{TEXT}\n«/untrusted:bench/report»")
        );
        assert_eq!(
            tree["structuredContent"],
            serde_json::from_slice::<Value>(&sent).unwrap()["structuredContent"]
        );
    }

    #[test]
    fn a_changed_byte_or_id_is_noticed() {
        let right = br#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#;
        assert!(is_answer(7, br#"{"a":1}"#, right));
        assert!(!is_answer(8, br#"{"a":1}"#, right));
        assert!(!is_answer(7, br#"{"a":2}"#, right));
        assert!(!is_answer(7, br#"{"a":1}"#, b"{}"));
    }

    #[test]
    fn the_upstream_recognises_what_the_generator_asks_for() {
        for (kilobytes, large) in [(SMALL, false), (LARGE, true)] {
            let body: Value = serde_json::from_slice(&call(1, kilobytes, Ask::Plain)).unwrap();
            let arguments = body["params"]["arguments"].to_string();
            assert_eq!(asks_for_large(arguments.as_bytes()), large);
        }
    }
}
