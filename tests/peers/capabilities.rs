//! Tools that a server shows to capable clients alone, and servers that ask: as they work without the gateway.

use std::path::Path;

use serde_json::{Value, json};

use super::{Everything, are_installed, modules, node, script};
use crate::support::environment::{Finished, command, peers};
use crate::support::{Agent, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn capable_clients_call_all_seventeen_tools_of_the_reference_server_and_others_see_thirteen() {
    let server = modules().join("@modelcontextprotocol/server-everything/dist/index.js");
    let python = peers().join("venv/bin/python");
    if !are_installed(&[&server, &python, &modules().join("@modelcontextprotocol/client")]) {
        return;
    }
    let everything = Everything::start(&server);
    let setup = Setup::new().set(
        "servers.everything",
        json!({"url": everything.url, "trust": "internal"}),
    );
    let gateway = setup.start().await;
    let token = gateway.home.agent_token(&["--sub", "visitor"]);
    let token = token["token"].as_str().unwrap();
    let through = format!("{}/everything", gateway.ready["mcp"].as_str().unwrap());
    for client in [Client::Python, Client::TypeScript] {
        for (able, tools, asked) in [
            ("everything", 17, json!(["form", "roots", "sampling", "url"])),
            ("nothing", 13, json!([])),
        ] {
            let direct = client.run(&python, &[&everything.url, "", able]);
            let guarded = client.run(&python, &[&through, token, able]);
            assert_eq!(
                guarded["tools"].as_object().unwrap().len(),
                tools,
                "{client:?} {guarded}"
            );
            assert_eq!(guarded["asked"], asked, "{client:?} {guarded}");
            assert_eq!(guarded, direct, "{client:?} that can be asked {able}");
        }
    }
}

/// Counts that the server gives to such clients without a gateway.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_can_be_asked_some_things_sees_what_it_sees_without_the_gateway() {
    let server = modules().join("@modelcontextprotocol/server-everything/dist/index.js");
    if !are_installed(&[&server]) {
        return;
    }
    let everything = Everything::start(&server);
    let setup = Setup::new().set(
        "servers.everything",
        json!({"url": everything.url, "trust": "internal"}),
    );
    let gateway = setup.start().await;
    let token = gateway.home.agent_token(&["--sub", "visitor"]);
    for (capabilities, count, form) in [
        (json!({}), 13, false),
        (json!({"elicitation": {}}), 14, true),
        (json!({"elicitation": {"form": {}}}), 14, true),
        (json!({"elicitation": {}, "sampling": {}, "roots": {}}), 16, true),
        (
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}),
            17,
            true,
        ),
    ] {
        let params = json!({"capabilities": capabilities});
        let agent = Agent::declaring(&gateway, "/mcp/everything", token["token"].as_str().unwrap(), params).await;
        let names = agent.names().await;
        assert_eq!(names.len(), count, "{capabilities}: {names:?}");
        let has_form = names.iter().any(|name| name == "trigger-elicitation-request");
        assert_eq!(has_form, form, "{capabilities}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Client {
    Python,
    TypeScript,
}

impl Client {
    fn run(self, python: &Path, arguments: &[&str]) -> Value {
        let mut client = match self {
            Self::Python => {
                let mut client = command(python);
                client.arg(script("capable.py"));
                client
            }
            Self::TypeScript => {
                let mut client = command(node());
                client.arg(script("capable.mjs")).arg(modules());
                client
            }
        };
        let printed = Finished::of(client.args(arguments)).success();
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{self:?} printed {printed}"))
    }
}
