//! Every client goes through everything a server offers, in every mode it has; all of them must see the same.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::fixture::Fixture;
use super::{Everything, are_installed, modules, node, script};
use crate::support::environment::{Finished, command, peers};
use crate::support::{Gateway, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn every_client_sees_the_same_of_a_legacy_server() {
    tour_of_fixture("legacy").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_sees_the_same_of_a_modern_server() {
    tour_of_fixture("modern").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_sees_the_same_of_the_reference_server_and_hears_its_progress_at_once() {
    let server = modules().join("@modelcontextprotocol/server-everything/dist/index.js");
    let Some(clients) = clients(&[&server]) else { return };
    let everything = Everything::start(&server);
    let server = json!({"url": everything.url, "trust": "internal"});
    let gateway = Setup::new().set("servers.everything", server).start().await;
    let token = token(&gateway);
    let plan = json!({
        "progress": ["trigger-long-running-operation", {"duration": 1.2, "steps": 3}],
        "resource": "demo://resource/static/document/startup.md",
        "prompt": ["args-prompt", {"city": "Bern"}],
        "completion": ["completable-prompt", "department", "S"],
        "asking": null,
        "logging": null,
    });
    for client in clients {
        let seen = client.tour(&gateway, "everything", &token, &plan);
        assert_eq!(seen["progress"], json!([1, 2, 3]), "{client:?}");
        let ahead = seen["ahead"].as_u64().unwrap();
        assert!(ahead > 100, "{client:?} heard of it {ahead} ms before the result");
        assert!(
            seen["resource"].as_str().unwrap().starts_with("# Everything Server"),
            "{client:?}"
        );
        assert_eq!(seen["prompt"], "What's weather in Bern?", "{client:?}");
        assert_eq!(seen["completion"], json!(["Sales", "Support"]), "{client:?}");
    }
}

async fn tour_of_fixture(era: &str) {
    let Some(clients) = clients(&[]) else { return };
    let fixture = Fixture::start(era);
    let (gateway, token) = fixture.behind_gateway().await;
    let plan = json!({
        "progress": ["test_tool_with_progress", {}],
        "resource": "test://static-text",
        "prompt": ["test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}],
        "completion": ["test_prompt_with_arguments", "arg1", "t"],
        "asking": ["test_elicitation", {"message": "Who are you?"}],
        "logging": ["test_tool_with_logging", {}],
    });
    for client in clients {
        let mut seen = client.tour(&gateway, "fixture", &token, &plan);
        seen.as_object_mut().unwrap().remove("ahead");
        let logs = match client.mode {
            "legacy" => json!([
                "Tool execution started",
                "Tool processing data",
                "Tool execution completed"
            ]),
            // What is logged goes to those who ask for it with their request, and these clients do not.
            _ => json!([]),
        };
        let answer = r#"User response: action=accept, content={"username":"ann","email":"ann@example.org"}"#;
        let expected = json!({
            "tools": true,
            "progress": [0, 50, 100],
            "resource": "This is the content of the static text resource.",
            "prompt": "Prompt with arguments: arg1='a', arg2='b'",
            "completion": ["test"],
            "answer": answer,
            "asked": ["Who are you?"],
            "logs": logs,
        });
        assert_eq!(seen, expected, "{client:?}");
    }
}

/// A client of somebody else's, and what it speaks.
#[derive(Debug)]
struct Visitor {
    package: &'static str,
    mode: &'static str,
}

/// All of them, if they are there.
fn clients(servers: &[&Path]) -> Option<Vec<Visitor>> {
    let needed = [
        peers().join("venv/bin/python"),
        modules().join("@modelcontextprotocol/client"),
    ];
    let needed: Vec<&Path> = needed
        .iter()
        .map(|path| path.as_path())
        .chain(servers.iter().copied())
        .collect();
    if !are_installed(&needed) {
        return None;
    }
    let all = [
        ("sdk", "legacy"),
        ("client", "legacy"),
        ("client-modern", "2026-07-28"),
        ("mcp", "auto"),
        ("mcp", "legacy"),
        ("mcp", "2026-07-28"),
        ("fastmcp", "auto"),
        ("fastmcp", "legacy"),
        ("fastmcp", "2026-07-28"),
    ];
    Some(all.map(|(package, mode)| Visitor { package, mode }).into())
}

impl Visitor {
    fn tour(&self, gateway: &Gateway, server: &str, token: &str, plan: &Value) -> Value {
        let url = format!("{}/{server}", gateway.ready["mcp"].as_str().unwrap());
        let mut client = self.command();
        client.args([&url, token, &plan.to_string()]);
        let printed = Finished::of(&mut client).success();
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{self:?} printed {printed}"))
    }

    fn command(&self) -> Command {
        if self.package.ends_with("mcp") {
            let mut python = command(peers().join("venv/bin/python"));
            python.arg(script("tour.py")).args([self.package, self.mode]);
            return python;
        }
        let mut typescript = command(node());
        typescript.arg(script("tour.mjs")).arg(modules()).arg(self.package);
        typescript
    }
}

fn token(gateway: &Gateway) -> String {
    gateway.home.agent_token(&["--sub", "visitor"])["token"]
        .as_str()
        .unwrap()
        .to_owned()
}
