//! Tools that a server shows to capable clients alone, and servers that ask: as they work without the gateway.

use std::path::Path;

use serde_json::{Value, json};

use super::{Everything, are_installed, modules, node, script};
use crate::support::Setup;
use crate::support::environment::{Finished, command, peers};

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
