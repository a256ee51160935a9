//! The headers that mirror a modern message: which arguments of which tools they hold (`x-mcp-header`) is learned
//! from the lists that pass through.

use std::collections::HashMap;
use std::sync::Mutex;

use http::HeaderMap;
use mcp::envelope::text_of;
use mcp::headers::{self, Marks, Named};
use mcp::members::Members;
use mcp::span::DEEPEST;
use serde_json::value::RawValue;
use vocabulary::lock;

use super::message::Mirrored;

/// The header marks of the tools that were listed.
#[derive(Default)]
pub(super) struct ToolHeaders(Mutex<HashMap<String, Marks>>);

impl ToolHeaders {
    /// Takes the marks from the result of `tools/list`.
    pub(super) fn learn(&self, result: &[u8]) {
        let Ok(members) = Members::read(result, DEEPEST) else {
            return;
        };
        let tools: Vec<&RawValue> = members
            .get("tools")
            .and_then(|tools| serde_json::from_slice(tools).ok())
            .unwrap_or_default();
        let mut known = lock(&self.0);
        for tool in tools {
            let Ok(tool) = Members::read(tool.get().as_bytes(), DEEPEST) else {
                continue;
            };
            let Some(name) = tool.get("name").and_then(text_of) else {
                continue;
            };
            // A tool without marks, or with bad ones, has no headers: what was known of it goes.
            let marks = tool.get("inputSchema").and_then(|schema| Marks::read(schema).ok());
            match marks.filter(|marks| !marks.is_empty()) {
                Some(marks) if known.len() < MAX_TOOLS || known.contains_key(name.as_ref()) => {
                    known.insert(name.into_owned(), marks);
                }
                Some(_) => {}
                None => drop(known.remove(name.as_ref())),
            }
        }
    }

    /// The headers of a modern message.
    pub(super) fn headers(&self, mirrored: &Mirrored) -> HeaderMap {
        let named = Named {
            version: &mirrored.version,
            method: &mirrored.method,
            name: mirrored.name.as_deref(),
        };
        let marks = match (mirrored.method.as_str(), &mirrored.name) {
            ("tools/call", Some(name)) => self.marks_of(name),
            (_, _) => Marks::default(),
        };
        let mut headers = HeaderMap::new();
        headers::write(&mut headers, &named, &marks, mirrored.arguments.as_deref());
        headers
    }

    fn marks_of(&self, tool: &str) -> Marks {
        let known = lock(&self.0);
        known.get(tool).cloned().unwrap_or_default()
    }
}

/// As many tools as the gateway lists.
const MAX_TOOLS: usize = 10_000;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn headers(known: &ToolHeaders) -> Vec<(String, String)> {
        let mirrored = Mirrored {
            version: "2026-07-28".to_owned(),
            method: "tools/call".to_owned(),
            name: Some("größe".to_owned()),
            arguments: Some(Bytes::from_static(br#"{"region":"eu"}"#)),
        };
        let headers = known.headers(&mirrored);
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort();
        pairs
    }

    #[test]
    fn a_listed_tools_marks_become_headers_until_a_list_has_none() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let plain = [
            pair("mcp-method", "tools/call"),
            pair("mcp-name", "=?base64?Z3LDtsOfZQ==?="),
            pair("mcp-protocol-version", "2026-07-28"),
        ];
        let known = ToolHeaders::default();
        assert_eq!(headers(&known), plain);
        let list = |mark: &str| {
            format!(
                r#"{{"tools":[7,{{"name":"größe","inputSchema":{{"properties":{{"region":{{"type":"string"{mark}}}}}}}}}]}}"#
            )
        };
        known.learn(list(r#","x-mcp-header":"Region""#).as_bytes());
        let mut marked = plain.to_vec();
        marked.insert(2, pair("mcp-param-region", "eu"));
        assert_eq!(headers(&known), marked);
        known.learn(list("").as_bytes());
        assert_eq!(headers(&known), plain);
    }
}
