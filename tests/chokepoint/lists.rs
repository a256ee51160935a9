//! Lists of prompts, resources and templates: an entry that hides something is left out, and nothing of it is shown.

use serde_json::{Value, json};

use super::scene::{contained, decisions, harbour, holds_nothing, hostile_value};
use crate::support::{Agent, Modern, Speaks, tool};

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_hides_something_is_left_out_and_its_twin_is_shown() {
    // R071
    // Attack 1
    for server in [Speaks::Legacy, Speaks::Modern] {
        let harbour = harbour(server, &[tool("read")], contained).await;
        let lists = [
            ("prompts/list", "prompts", "name", "good"),
            ("resources/list", "resources", "uri", "a:good"),
            (
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate",
                "a:{good}",
            ),
        ];
        for (_, member, key, name) in lists {
            let entry = |name: &str, text: &Value| json!({key: name, "name": name, "description": text});
            let inside =
                json!({key: "a:deep", "name": "deep", "arguments": [{"name": "x", "description": hostile_value()}]});
            let names = json!({key: "a:name", "name": "name", hostile_value().as_str().unwrap(): 1});
            let entries = [
                entry("a:bad", &hostile_value()),
                entry(name, &json!("plain")),
                inside,
                names,
                entry("a:hidden", &json!("a\u{200b}b")),
                entry("a:secret", &json!(super::scene::TOKEN)),
            ];
            harbour.peer.list(member, &entries);
        }
        let token = harbour.issuer.token("ann");
        for route in ["/mcp/peer", "/mcp"] {
            let agent = Agent::connect(&harbour.gateway, route, &token).await;
            let modern = Modern::new(&harbour.gateway, route, &token);
            for (method, member, key, name) in lists {
                for answer in [
                    agent.request(method, json!({})).await,
                    modern.request(method, json!({})).await,
                ] {
                    let case = format!("{server:?} {route} {method}");
                    holds_nothing(&case, &answer.messages());
                    let listed = answer.result()[member].as_array().unwrap().clone();
                    assert_eq!(listed.len(), 1, "{case}: {listed:?}");
                    let shown = listed[0][key].as_str().unwrap();
                    // Names are the server's own on its own route; an address is the same everywhere.
                    let prefix = if route == "/mcp" && key == "name" { "peer__" } else { "" };
                    assert_eq!(shown, format!("{prefix}{name}"), "{case}");
                }
            }
        }
        let blocked = decisions(&harbour.gateway.home, &["--status", "blocked"]);
        assert!(blocked.len() >= 5, "{} entries are on record", blocked.len());
        assert!(
            blocked.iter().all(|record| record["server_id"] == "peer"),
            "{blocked:?}"
        );
    }
}
